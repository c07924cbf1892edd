//! Matches claims and volumes. Pure.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod},
    storage::v1::StorageClass,
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};
use kubeapi::object::quantity;

use crate::controllers::workloads::affinity;

/// The annotation of the class that claims without a class get, and its older form.
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// The older form of a claim's field `storageClassName`.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotation of a claim with the node that the scheduler has selected for its first pod.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of a claim with the provisioner that is to create its volume.
pub(super) const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The prefix of in-tree provisioners, which do not exist here; others are external.
pub(super) const IN_TREE_PREFIX: &str = "kubernetes.io/";
/// The annotation of a claim that was bound: without its volume it is then lost.
const COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The present objects.
pub(super) struct VolumeState<'a> {
    pub(super) claims: &'a [Arc<PersistentVolumeClaim>],
    pub(super) volumes: &'a [Arc<PersistentVolume>],
    pub(super) pods: &'a [Arc<Pod>],
    pub(super) nodes: &'a [Arc<Node>],
    /// The storage classes.
    pub(super) classes: &'a [Arc<StorageClass>],
}

/// A write.
#[derive(Debug)]
pub(super) enum Step {
    /// Set the volume's phase.
    Phase(Arc<PersistentVolume>, &'static str),
    /// Set the claim's phase to Lost: its volume is gone.
    Lost(Arc<PersistentVolumeClaim>),
    /// Bind the claim to the volume.
    Bind(Arc<PersistentVolumeClaim>, Arc<PersistentVolume>),
    /// Give the claim the default class, which there was not when it was created.
    SetClass(Arc<PersistentVolumeClaim>, String),
    /// Say in the claim's annotations which provisioner is to create its volume.
    Announce(Arc<PersistentVolumeClaim>, String),
}

impl Step {
    /// Returns the name of the object that it changes.
    pub(super) fn object(&self) -> String {
        match self {
            Self::Phase(volume, _) => volume.name_any(),
            Self::Lost(claim)
            | Self::Bind(claim, _)
            | Self::SetClass(claim, _)
            | Self::Announce(claim, _) => {
                format!(
                    "{}/{}",
                    claim.namespace().unwrap_or_default(),
                    claim.name_any()
                )
            }
        }
    }
}

impl VolumeState<'_> {
    /// Returns the class of a claim, if it exists.
    pub(super) fn class(&self, claim: &PersistentVolumeClaim) -> Option<&Arc<StorageClass>> {
        let name = claim.spec.as_ref()?.storage_class_name.as_ref()?;
        self.classes
            .iter()
            .find(|class| class.metadata.name.as_ref() == Some(name))
    }

    /// Reports whether the claim's volume waits for the first pod.
    pub(super) fn is_late(&self, claim: &PersistentVolumeClaim) -> bool {
        let class = self.class(claim);
        class.is_some_and(|class| {
            class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
        })
    }
}

/// Returns the default class: the newest of several, and of these the first by name.
fn default_class(classes: &[Arc<StorageClass>]) -> Option<String> {
    let is_default = |class: &&Arc<StorageClass>| {
        IS_DEFAULT.iter().any(|key| {
            class
                .annotations()
                .get(*key)
                .is_some_and(|value| value == "true")
        })
    };
    let order = |class: &&Arc<StorageClass>| {
        (
            std::cmp::Reverse(class.metadata.creation_timestamp.clone()),
            class.name_any(),
        )
    };
    classes
        .iter()
        .filter(is_default)
        .min_by_key(order)
        .map(|class| class.name_any())
}

/// Returns what a claim that has no volume yet needs besides one.
fn preparation(claim: &Arc<PersistentVolumeClaim>, known: &VolumeState<'_>) -> Option<Step> {
    let spec = claim.spec.as_ref()?;
    if spec
        .volume_name
        .as_ref()
        .is_some_and(|name| !name.is_empty())
    {
        return None;
    }
    if spec.storage_class_name.is_none() && !claim.annotations().contains_key(OLD_CLASS) {
        return Some(Step::SetClass(
            Arc::clone(claim),
            default_class(known.classes)?,
        ));
    }
    let provisioner = &known.class(claim)?.provisioner;
    let is_due = !known.is_late(claim) || claim.annotations().contains_key(SELECTED_NODE);
    let is_external = !provisioner.starts_with(IN_TREE_PREFIX);
    let is_known = claim.annotations().get(STORAGE_PROVISIONER) == Some(provisioner);
    (is_due && is_external && !is_known)
        .then(|| Step::Announce(Arc::clone(claim), provisioner.clone()))
}

/// Reports whether the claim waits for a volume.
pub(crate) fn is_pending(claim: &PersistentVolumeClaim) -> bool {
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    claim.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Bound" | "Lost"))
}

/// Returns all writes, for the oldest claims first.
pub(super) fn steps(known: &VolumeState<'_>) -> Vec<Step> {
    let phases = known.volumes.iter().filter_map(|volume| {
        let is = volume
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let phase = phase(volume, known.claims);
        (is != Some(phase)).then(|| Step::Phase(volume.clone(), phase))
    });
    let lost = known
        .claims
        .iter()
        .filter(|claim| has_lost(claim, known.volumes))
        .cloned()
        .map(Step::Lost);
    let mut steps: Vec<Step> = phases.chain(lost).collect();
    let mut pending: Vec<_> = known
        .claims
        .iter()
        .filter(|claim| is_pending(claim))
        .collect();
    pending.sort_by_key(|claim| (claim.metadata.creation_timestamp.clone(), claim.name_any()));
    let mut taken = BTreeSet::new();
    for claim in pending {
        match best(claim, known, &taken) {
            Some(volume) => {
                taken.insert(volume.name_any());
                steps.push(Step::Bind(claim.clone(), volume));
            }
            None => steps.extend(preparation(claim, known)),
        }
    }
    steps
}

/// Returns a volume's phase. A volume that names a claim without its uid is still available; one whose claim is gone is released.
fn phase(volume: &PersistentVolume, claims: &[Arc<PersistentVolumeClaim>]) -> &'static str {
    let owner = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    match owner.and_then(|owner| owner.uid.as_ref()) {
        None => "Available",
        Some(uid)
            if claims
                .iter()
                .any(|claim| claim.metadata.uid.as_ref() == Some(uid)) =>
        {
            "Bound"
        }
        Some(_) => "Released",
    }
}

fn has_lost(claim: &PersistentVolumeClaim, volumes: &[Arc<PersistentVolume>]) -> bool {
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let name = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref())
        .unwrap_or_default();
    claim.annotations().contains_key(COMPLETED)
        && phase != Some("Lost")
        && !volumes.iter().any(|volume| volume.name_any() == name)
}

/// Returns the smallest matching volume for the claim; one that was pre-bound to it comes first.
fn best(
    claim: &PersistentVolumeClaim,
    known: &VolumeState<'_>,
    taken: &BTreeSet<String>,
) -> Option<Arc<PersistentVolume>> {
    let spec = claim.spec.as_ref()?;
    let node = node_of(claim, known);
    let waits = node.is_none() && known.is_late(claim);
    let is_reserved = |volume: &PersistentVolume| {
        volume
            .spec
            .as_ref()
            .is_some_and(|spec| spec.claim_ref.is_some())
    };
    let free = known
        .volumes
        .iter()
        .filter(|volume| !taken.contains(&volume.name_any()));
    free.filter(|volume| {
        is_for(claim, spec, volume) && satisfies(spec, volume) && is_near(volume, node)
    })
    // a volume that was provisioned for the claim is on the node of its first pod
    .filter(|volume| is_reserved(volume) || !waits)
    .min_by_key(|volume| (!is_reserved(volume), capacity(volume), volume.name_any()))
    .cloned()
}

/// Reports whether the volume matches the claim, regardless of the pod's node.
pub(crate) fn is_compatible(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    claim
        .spec
        .as_ref()
        .is_some_and(|spec| is_for(claim, spec, volume) && satisfies(spec, volume))
}

/// Reports whether neither the claim nor the volume names another one.
fn is_for(
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
    volume: &PersistentVolume,
) -> bool {
    let wanted = spec.volume_name.as_deref().unwrap_or_default();
    let owner = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.claim_ref.as_ref());
    let is_owner = owner.is_none_or(|owner| {
        (owner.namespace.as_ref(), owner.name.as_ref())
            == (
                claim.metadata.namespace.as_ref(),
                claim.metadata.name.as_ref(),
            )
            && (owner.uid.is_none() || owner.uid == claim.metadata.uid)
    });
    is_owner
        && (wanted.is_empty() || wanted == volume.name_any())
        && volume.metadata.deletion_timestamp.is_none()
}

/// Reports whether the volume has what the claim requests.
fn satisfies(spec: &PersistentVolumeClaimSpec, volume: &PersistentVolume) -> bool {
    let Some(has) = &volume.spec else {
        return false;
    };
    let text =
        |field: &Option<String>, default: &str| field.clone().unwrap_or_else(|| default.to_owned());
    let requests = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    let size = requests
        .and_then(|requests| requests.get("storage"))
        .and_then(quantity::whole)
        .unwrap_or(0);
    let modes = has.access_modes.as_deref().unwrap_or_default();
    let selected = spec.selector.clone().is_none_or(|selector| {
        Selector::try_from(selector).is_ok_and(|selector| selector.matches(volume.labels()))
    });
    text(&spec.storage_class_name, "") == text(&has.storage_class_name, "")
        && text(&spec.volume_mode, "Filesystem") == text(&has.volume_mode, "Filesystem")
        && spec
            .access_modes
            .iter()
            .flatten()
            .all(|mode| modes.contains(mode))
        && capacity(volume) >= size
        && selected
}

fn capacity(volume: &PersistentVolume) -> i64 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    capacity
        .and_then(|capacity| capacity.get("storage"))
        .and_then(quantity::whole)
        .unwrap_or(0)
}

/// Returns the pods that use the claim.
pub(crate) fn users<'a>(
    claim: &PersistentVolumeClaim,
    pods: &'a [Arc<Pod>],
) -> impl Iterator<Item = &'a Arc<Pod>> {
    pods.iter().filter(move |pod| {
        let volumes = pod
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten());
        let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        pod.metadata.namespace == claim.metadata.namespace
            && claims.any(|source| Some(&source.claim_name) == claim.metadata.name.as_ref())
    })
}

/// Returns the node of a pod that uses the claim.
fn node_of<'a>(claim: &PersistentVolumeClaim, known: &VolumeState<'a>) -> Option<&'a Node> {
    let names = users(claim, known.pods).filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
    let mut nodes = names.filter_map(|name| {
        known
            .nodes
            .iter()
            .find(|node| node.metadata.name.as_deref() == Some(name))
    });
    nodes.next().map(Arc::as_ref)
}

/// Reports whether the volume is accessible on the node, if there is one yet.
fn is_near(volume: &PersistentVolume, node: Option<&Node>) -> bool {
    let affinity = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|selector| node.is_none_or(|node| affinity::selects(selector, node)))
}

#[cfg(test)]
mod tests;
