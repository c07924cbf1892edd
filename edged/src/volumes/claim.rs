//! Volumes of persistent volume claims: finds the path on this node for a claim, and links it into the pod's directory.
//!
//! A pod keeps the volume that it was given: the link in the pod's directory records it, so that the pod can start again without
//! the cloud, whatever happens to the claim. It is a link and not a mount, so that removing the pod's directory never enters the
//! volume.
//!
//! Source: Kubernetes, "Persistent Volumes" and "Volumes: local"; the kubelet's reasons.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use fs_err::{self as fs, os::unix::fs::symlink};
use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, Node, PersistentVolume, PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource, PersistentVolumeSpec,
};

use super::{
    claim_error::ClaimError,
    error::Error,
    host_path,
    ownership::{self, FsGroupChangePolicy},
};
use crate::{admit, downward::Downward};

/// The annotation of a volume with its provisioner, and the name of cloudsim's.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const PROVISIONER: &str = "outrigger.dev/local-path";

/// The path on this node that backs a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BackingPath {
    source: HostPathVolumeSource,
    /// Whether it is a `local` volume, whose group can be set, or a host path.
    local: bool,
    /// Whether it was provisioned by the cloud, so that it is made here, and any user of a pod may write there.
    provisioned: bool,
}

/// Results of looking up the pod's claims, by volume name.
pub(crate) type Claims = BTreeMap<String, Result<BackingPath, ClaimError>>;

/// Returns the name of the claim's volume, or an error if the claim cannot be used.
pub(crate) fn volume_name(claim: &PersistentVolumeClaim) -> Result<&str, ClaimError> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(ClaimError::Deleted);
    }
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let name = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.volume_name.as_deref())
        .unwrap_or_default();
    if phase == Some("Bound") && !name.is_empty() {
        Ok(name)
    } else {
        Err(ClaimError::Unbound)
    }
}

/// Returns the path of the claim's volume on this node.
pub(crate) fn backing_path(
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    node: &Node,
) -> Result<BackingPath, ClaimError> {
    let name = volume.metadata.name.clone().unwrap_or_default();
    let Some(spec) = &volume.spec else {
        return Err(ClaimError::UnsupportedKind(name));
    };
    let owner = spec.claim_ref.as_ref().and_then(|claim| claim.uid.as_ref());
    if owner.is_none() || owner != claim.metadata.uid.as_ref() {
        return Err(ClaimError::BoundToOther(name));
    }
    if spec.volume_mode.as_deref() == Some("Block") {
        return Err(ClaimError::Block(name));
    }
    let required = spec
        .node_affinity
        .as_ref()
        .and_then(|affinity| affinity.required.as_ref());
    if required.is_some_and(|selector| !admit::selector_matches(selector, node)) {
        return Err(ClaimError::NodeAffinity(name));
    }
    let mut backing = source(spec).ok_or(ClaimError::UnsupportedKind(name))?;
    let annotations = volume.metadata.annotations.as_ref();
    backing.provisioned = annotations
        .and_then(|all| all.get(PROVISIONED_BY))
        .is_some_and(|by| by == PROVISIONER);
    Ok(backing)
}

fn source(spec: &PersistentVolumeSpec) -> Option<BackingPath> {
    if let Some(source) = &spec.host_path {
        return Some(BackingPath {
            source: source.clone(),
            local: false,
            provisioned: false,
        });
    }
    let local = spec.local.as_ref()?;
    let source = HostPathVolumeSource {
        path: local.path.clone(),
        type_: Some("Directory".to_owned()),
    };
    Some(BackingPath {
        source,
        local: true,
        provisioned: false,
    })
}

/// Returns the target of the link.
pub(super) fn linked_path(link: &Path) -> Result<PathBuf, Error> {
    Ok(fs::read_link(link)?)
}

/// Links the volume into the pod's directory if it is not there. `claim` is the result of looking the claim up.
pub(super) fn set_up(
    link: &Path,
    downward: &Downward<'_>,
    source: &PersistentVolumeClaimVolumeSource,
    claim: Option<&Result<BackingPath, ClaimError>>,
) -> Result<(), Error> {
    if linked_path(link).is_ok() {
        return Ok(());
    }
    let pod = downward.pod;
    let failed = |error: ClaimError| {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        Error::Claim {
            claim: format!("{namespace}/{}", source.claim_name),
            source: error,
        }
    };
    let claim = claim.cloned();
    let backing = claim
        .unwrap_or_else(|| Err(ClaimError::Missing(source.claim_name.clone())))
        .map_err(failed)?;
    host_path::check_with_mode(
        &backing.source,
        if backing.provisioned {
            0o777
        } else {
            host_path::MODE
        },
    )?;
    let path: PathBuf = Path::new(&backing.source.path)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    if let Some(group) = downward
        .fs_group()
        .filter(|_| (backing.local || backing.provisioned) && source.read_only != Some(true))
    {
        ownership::apply(&path, group, FsGroupChangePolicy::of(pod))?;
    }
    if let Some(parent) = link.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(symlink(&path, link)?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(change: impl FnOnce(&mut Value)) -> PersistentVolumeClaim {
        let mut claim = json!({"metadata": {"name": "data", "namespace": "n", "uid": "c-1"},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}});
        change(&mut claim);
        serde_json::from_value(claim).unwrap()
    }

    #[test]
    fn only_a_bound_claim_has_a_volume() {
        assert_eq!(volume_name(&claim(|_| ())), Ok("pv"));
        let pending = claim(|claim| claim["status"]["phase"] = json!("Pending"));
        assert_eq!(volume_name(&pending), Err(ClaimError::Unbound));
        let unnamed = claim(|claim| claim["spec"]["volumeName"] = json!(""));
        assert_eq!(volume_name(&unnamed), Err(ClaimError::Unbound));
        let going =
            claim(|claim| claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
        assert_eq!(volume_name(&going), Err(ClaimError::Deleted));
    }

    #[test]
    fn volume_must_be_bound_to_the_claim_on_this_node_and_supported() {
        let node =
            json!({"metadata": {"name": "edge-1", "labels": {"kubernetes.io/hostname": "edge-1"}}});
        let node: Node = serde_json::from_value(node).unwrap();
        let on = |host: &str| {
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions":
                [{"key": "kubernetes.io/hostname", "operator": "In", "values": [host]}]}]}})
        };
        let local = json!({"local": {"path": "/mnt/disk"}, "nodeAffinity": on("edge-1"), "claimRef": {"uid": "c-1"}});
        let with = |change: Value| {
            let mut spec = local.clone();
            spec.as_object_mut()
                .unwrap()
                .extend(change.as_object().unwrap().clone());
            let volume = json!({"metadata": {"name": "pv"}, "spec": spec});
            backing_path(
                &claim(|_| ()),
                &serde_json::from_value(volume).unwrap(),
                &node,
            )
        };
        let found = with(json!({})).unwrap();
        assert!(found.local && found.source.path == "/mnt/disk");
        let host = with(
            json!({"local": null, "hostPath": {"path": "/data", "type": "DirectoryOrCreate"}}),
        )
        .unwrap();
        assert!(!host.local && host.source.type_.as_deref() == Some("DirectoryOrCreate"));
        let pv = || "pv".to_owned();
        for (change, error) in [
            (
                json!({"claimRef": {"uid": "c-2"}}),
                ClaimError::BoundToOther(pv()),
            ),
            (json!({"claimRef": null}), ClaimError::BoundToOther(pv())),
            (json!({"volumeMode": "Block"}), ClaimError::Block(pv())),
            (
                json!({"nodeAffinity": on("edge-2")}),
                ClaimError::NodeAffinity(pv()),
            ),
            (
                json!({"local": null, "nfs": {"server": "s", "path": "/"}}),
                ClaimError::UnsupportedKind(pv()),
            ),
        ] {
            assert_eq!(with(change), Err(error));
        }
    }
}
