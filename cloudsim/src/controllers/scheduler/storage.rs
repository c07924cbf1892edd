//! Node constraints of a pod's volumes: the filters `VolumeRestrictions`, `VolumeBinding` and `VolumeZone`. Pure.

use std::sync::Arc;

use clock::HashMap;
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, TopologySelectorTerm},
    storage::v1::StorageClass,
};
use kube::ResourceExt;

use super::status::Status;
use crate::controllers::{
    volume_binder::{self, SELECTED_NODE},
    workloads::affinity,
};

/// The labels of volumes and nodes with their zone or region.
const ZONES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];
/// The provisioner of classes that create no volumes.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Claims, volumes and classes, and the users of ReadWriteOncePod claims.
#[derive(Debug, Default)]
pub(super) struct Storage {
    pub(super) claims: HashMap<(String, String), Arc<PersistentVolumeClaim>>,
    pub(super) volumes: HashMap<String, Arc<PersistentVolume>>,
    pub(super) classes: HashMap<String, Arc<StorageClass>>,
    /// The claims used by each pod with a node, by the pod's uid.
    pub(super) users: HashMap<String, (String, Vec<String>)>,
}

/// The node constraints of a pod's volumes.
#[derive(Clone, Debug, Default)]
pub(super) struct Volumes {
    /// Volumes of bound claims; `None` for a missing one.
    bound: Vec<Option<Arc<PersistentVolume>>>,
    /// The claims that wait for a node.
    waiting: Vec<WaitingClaim>,
    /// Whether another pod uses a ReadWriteOncePod claim of the pod.
    is_taken: bool,
}

/// How a claim that waits for a node gets its volume.
#[derive(Clone, Debug)]
enum WaitingClaim {
    /// By one of these volumes.
    Existing(Vec<Arc<PersistentVolume>>),
    /// By a provisioner, on the node that was selected, if one was, and only where the class allows it.
    Provisioned(Arc<PersistentVolumeClaim>, Arc<StorageClass>),
}

/// Returns the names of the claims that a pod uses.
pub(crate) fn claims_of(pod: &Pod) -> Vec<String> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let names =
        volumes.filter_map(
            |volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
                (Some(claim), _) => Some(claim.claim_name.clone()),
                (None, Some(_)) => Some(format!("{}-{}", pod.name_any(), volume.name)),
                (None, None) => None,
            },
        );
    names.collect()
}

impl Storage {
    /// Returns the constraints of the pod's volumes. The error is the reason why no node fits.
    pub(super) fn volumes(&self, pod: &Pod, spec: &PodSpec) -> Result<Volumes, String> {
        let mut volumes = Volumes::default();
        if spec.volumes.as_ref().is_none_or(Vec::is_empty) {
            return Ok(volumes);
        }
        let namespace = pod.namespace().unwrap_or_default();
        for name in claims_of(pod) {
            let Some(claim) = self.claims.get(&(namespace.clone(), name.clone())) else {
                return Err(format!("persistentvolumeclaim {name:?} not found"));
            };
            if claim.metadata.deletion_timestamp.is_some() {
                return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            let modes = claim
                .spec
                .as_ref()
                .and_then(|spec| spec.access_modes.as_ref());
            if modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod")) {
                let others = self
                    .users
                    .iter()
                    .filter(|(uid, _)| Some(*uid) != pod.metadata.uid.as_ref());
                volumes.is_taken |= others
                    .into_iter()
                    .any(|(_, (own, names))| *own == namespace && names.contains(&name));
            }
            let class = claim
                .spec
                .as_ref()
                .and_then(|spec| spec.storage_class_name.as_ref());
            let class = class.and_then(|class| self.classes.get(class));
            let late = class.filter(|class| waits(class));
            match claim
                .status
                .as_ref()
                .and_then(|status| status.phase.as_deref())
            {
                Some("Bound") => {
                    let volume = claim
                        .spec
                        .as_ref()
                        .and_then(|spec| spec.volume_name.as_ref());
                    volumes
                        .bound
                        .push(volume.and_then(|name| self.volumes.get(name)).cloned());
                }
                Some("Lost") => {
                    return Err(format!(
                        "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {:?}",
                        claim
                            .spec
                            .as_ref()
                            .and_then(|spec| spec.volume_name.clone())
                            .unwrap_or_default()
                    ));
                }
                _ => {
                    let late = late.ok_or("pod has unbound immediate PersistentVolumeClaims")?;
                    volumes.waiting.push(if late.provisioner == NO_PROVISIONER {
                        let free = self
                            .volumes
                            .values()
                            .filter(|volume| volume_binder::is_compatible(claim, volume));
                        WaitingClaim::Existing(free.cloned().collect())
                    } else {
                        WaitingClaim::Provisioned(Arc::clone(claim), Arc::clone(late))
                    });
                }
            }
        }
        Ok(volumes)
    }
}

fn waits(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// Reports whether the class allows volumes on the node.
fn is_allowed(class: &StorageClass, node: &Node) -> bool {
    class.allowed_topologies.as_ref().is_none_or(|terms| {
        let holds = |term: &TopologySelectorTerm| {
            let mut wanted = term.match_label_expressions.iter().flatten();
            wanted.all(|wanted| {
                node.labels()
                    .get(&wanted.key)
                    .is_some_and(|own| wanted.values.contains(own))
            })
        };
        terms.is_empty() || terms.iter().any(holds)
    })
}

fn is_near(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref());
    affinity
        .and_then(|affinity| affinity.required.as_ref())
        .is_none_or(|selector| affinity::selects(selector, node))
}

/// Reports whether the volume's zone is the node's. A node without zone labels may have every volume.
fn is_in_zone(volume: &PersistentVolume, node: &Node) -> bool {
    if !ZONES.iter().any(|zone| node.labels().contains_key(*zone)) {
        return true;
    }
    let wanted = ZONES
        .iter()
        .filter_map(|zone| Some((zone, volume.labels().get(*zone)?)));
    wanted.into_iter().all(|(zone, value)| {
        node.labels()
            .get(*zone)
            .is_some_and(|own| value.split("__").any(|value| value == own))
    })
}

impl Volumes {
    /// Returns the claims whose volumes a provisioner is to create before the pod can be bound.
    pub(super) fn unprovisioned_claims(&self) -> Vec<Arc<PersistentVolumeClaim>> {
        let claims = self.waiting.iter().filter_map(|claim| match claim {
            WaitingClaim::Provisioned(claim, _) => Some(Arc::clone(claim)),
            WaitingClaim::Existing(_) => None,
        });
        claims.collect()
    }

    /// Returns why the pod does not fit on the node; `None` if it does.
    pub(super) fn filter(&self, node: &Node) -> Option<Status> {
        if self.is_taken {
            return Some(Status::unschedulable(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
            ));
        }
        for volume in &self.bound {
            let Some(volume) = volume else {
                return Some(Status::unresolvable(
                    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                ));
            };
            if !is_near(volume, node) {
                return Some(Status::unresolvable(
                    "node(s) didn't match PersistentVolume's node affinity",
                ));
            }
        }
        let has_one = |claim: &WaitingClaim| match claim {
            WaitingClaim::Existing(free) => free.iter().any(|volume| is_near(volume, node)),
            WaitingClaim::Provisioned(claim, class) => {
                claim
                    .annotations()
                    .get(SELECTED_NODE)
                    .is_none_or(|selected| *selected == node.name_any())
                    && is_allowed(class, node)
            }
        };
        if !self.waiting.iter().all(has_one) {
            return Some(Status::unresolvable(
                "node(s) didn't find available persistent volumes to bind",
            ));
        }
        let is_there = self
            .bound
            .iter()
            .flatten()
            .all(|volume| is_in_zone(volume, node));
        (!is_there).then(|| Status::unresolvable("node(s) had no available volume zone"))
    }
}
