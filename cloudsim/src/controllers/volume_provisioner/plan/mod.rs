//! Decides which volumes are created and removed. Pure.

use std::{
    path::{Component, Path},
    sync::Arc,
};

use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::ResourceExt;
use serde_json::json;
use wire::volumes::{DEFAULT_DIRECTORY, DIRECTORY_ANNOTATION};

use crate::controllers::{
    events::PROVISIONER,
    volume_binder::{SELECTED_NODE, is_pending, users},
};

/// The annotation of a volume with the name of its node.
const NODE: &str = "outrigger.dev/node";
/// The annotation of a volume with the provisioner's name.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The finalizer by which a volume waits until its directory is removed.
pub(super) const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// The label of a node's host name.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The present objects.
pub(super) struct StorageObjects<'a> {
    pub(super) claims: &'a [Arc<PersistentVolumeClaim>],
    pub(super) volumes: &'a [Arc<PersistentVolume>],
    pub(super) classes: &'a [Arc<StorageClass>],
    pub(super) nodes: &'a [Arc<Node>],
    pub(super) pods: &'a [Arc<Pod>],
}

/// A step.
#[derive(Debug)]
pub(super) enum Step {
    /// Create the volume for the claim.
    Create(Arc<PersistentVolumeClaim>, Box<PersistentVolume>),
    /// The claim cannot be provisioned, for this reason.
    Refuse(Arc<PersistentVolumeClaim>, String),
    /// The selected node no longer exists.
    Reselect(Arc<PersistentVolumeClaim>),
    /// Remove the directory, and then the volume.
    Remove(Arc<PersistentVolume>),
    /// Let the volume go, and leave its directory.
    Release(Arc<PersistentVolume>),
}

impl Step {
    /// Returns the name of the object that it is about.
    pub(super) fn object(&self) -> String {
        match self {
            Self::Create(claim, _) | Self::Refuse(claim, _) | Self::Reselect(claim) => {
                format!(
                    "{}/{}",
                    claim.namespace().unwrap_or_default(),
                    claim.name_any()
                )
            }
            Self::Remove(volume) | Self::Release(volume) => volume.name_any(),
        }
    }
}

/// The parameters of a class.
#[derive(Debug)]
pub(super) struct Settings {
    /// The directory of volumes on nodes that have no annotation.
    path: String,
    pub(super) helper_image: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            path: DEFAULT_DIRECTORY.to_owned(),
            helper_image: "docker.io/library/busybox:1.37".to_owned(),
        }
    }
}

impl Settings {
    /// Reads the parameters of a class; an unknown one is an error.
    pub(super) fn of(class: &StorageClass) -> Result<Self, String> {
        let mut settings = Self::default();
        for (name, value) in class.parameters.iter().flatten() {
            match name.as_str() {
                "path" => settings.path.clone_from(value),
                "helperImage" => settings.helper_image.clone_from(value),
                _ => {
                    return Err(format!(
                        "unknown parameter {name:?}: expected path or helperImage"
                    ));
                }
            }
        }
        Ok(settings)
    }
}

/// Returns the name of a volume's node.
pub(super) fn node_name(volume: &PersistentVolume) -> Option<&str> {
    volume.annotations().get(NODE).map(String::as_str)
}

/// Reports whether a path is absolute, not the root, and without `..`.
pub(super) fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.parent().is_some()
        && !path.components().any(|part| part == Component::ParentDir)
}

/// Returns all steps.
pub(super) fn steps(known: &StorageObjects<'_>) -> Vec<Step> {
    let pending = known.claims.iter().filter(|claim| is_pending(claim));
    let claims = pending.filter_map(|claim| for_claim(claim, known));
    claims
        .chain(known.volumes.iter().filter_map(for_volume))
        .collect()
}

fn for_claim(claim: &Arc<PersistentVolumeClaim>, known: &StorageObjects<'_>) -> Option<Step> {
    let spec = claim.spec.as_ref()?;
    let class = spec.storage_class_name.as_ref()?;
    let class = known
        .classes
        .iter()
        .find(|known| known.metadata.name.as_ref() == Some(class))?;
    let has_volume = known
        .volumes
        .iter()
        .any(|volume| volume.name_any() == volume_name(claim));
    let is_taken = spec
        .volume_name
        .as_ref()
        .is_some_and(|name| !name.is_empty());
    if class.provisioner != PROVISIONER || has_volume || is_taken {
        return None;
    }
    if class.volume_binding_mode.as_deref() != Some("WaitForFirstConsumer") {
        let why =
            "its directory is on one node; use a class with volumeBindingMode WaitForFirstConsumer";
        return Some(Step::Refuse(Arc::clone(claim), why.to_owned()));
    }
    let selected = claim.annotations().get(SELECTED_NODE);
    let bound = || users(claim, known.pods).find_map(|pod| pod.spec.as_ref()?.node_name.clone());
    let node = selected.cloned().or_else(bound)?;
    let Some(node) = known.nodes.iter().find(|known| known.name_any() == node) else {
        return selected.map(|_| Step::Reselect(Arc::clone(claim)));
    };
    Some(match volume(claim, class, node) {
        Ok(volume) => Step::Create(Arc::clone(claim), Box::new(volume)),
        Err(why) => Step::Refuse(Arc::clone(claim), why),
    })
}

fn for_volume(volume: &Arc<PersistentVolume>) -> Option<Step> {
    let is_own = volume
        .annotations()
        .get(PROVISIONED_BY)
        .is_some_and(|own| own == PROVISIONER);
    if !is_own || !volume.finalizers().iter().any(|own| own == FINALIZER) {
        return None;
    }
    let policy = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    let phase = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let is_unused = matches!(phase, Some("Released" | "Failed"));
    let is_deleting = volume.metadata.deletion_timestamp.is_some();
    if policy == Some("Delete") {
        return is_unused.then(|| Step::Remove(Arc::clone(volume)));
    }
    (is_deleting && phase != Some("Bound")).then(|| Step::Release(Arc::clone(volume)))
}

fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.uid().unwrap_or_default())
}

/// Returns the volume for a claim on a node; the error is why there can be none.
fn volume(
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
    node: &Node,
) -> Result<PersistentVolume, String> {
    let settings = Settings::of(class)?;
    let spec = claim.spec.clone().unwrap_or_default();
    if spec.volume_mode.as_deref() == Some("Block") {
        return Err("only volumeMode Filesystem is supported".to_owned());
    }
    let modes = spec.access_modes.clone().unwrap_or_default();
    if modes
        .iter()
        .any(|mode| mode != "ReadWriteOnce" && mode != "ReadWriteOncePod")
    {
        return Err(
            "only the access modes ReadWriteOnce and ReadWriteOncePod are supported".to_owned(),
        );
    }
    if spec.selector.is_some() {
        return Err("claim.spec.selector is not supported".to_owned());
    }
    if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        return Err("claim.spec.dataSource is not supported".to_owned());
    }
    let directory = node
        .annotations()
        .get(DIRECTORY_ANNOTATION)
        .unwrap_or(&settings.path);
    if !is_plain(Path::new(directory)) {
        return Err(format!(
            "the directory of volumes {directory:?} must be an absolute path without `..`"
        ));
    }
    let name = volume_name(claim);
    let (namespace, claim_name) = (claim.namespace().unwrap_or_default(), claim.name_any());
    let path = Path::new(directory).join(format!("{name}_{namespace}_{claim_name}"));
    let host = node
        .labels()
        .get(HOSTNAME)
        .cloned()
        .unwrap_or_else(|| node.name_any());
    let volume = json!({
        "metadata": {
            "name": name, "finalizers": [FINALIZER],
            "annotations": {PROVISIONED_BY: PROVISIONER, NODE: node.name_any()},
        },
        "spec": {
            "accessModes": modes,
            "capacity": {"storage": spec.resources.and_then(|asked| asked.requests?.get("storage").cloned())},
            "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace, "name": claim_name,
                "uid": claim.uid(), "resourceVersion": claim.resource_version()},
            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": HOSTNAME, "operator": "In", "values": [host]}]}]}},
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": class.name_any(),
            "volumeMode": "Filesystem",
        },
    });
    serde_json::from_value(volume).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
