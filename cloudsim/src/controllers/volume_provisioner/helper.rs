//! The pod that removes the directory of a volume on its node. Pure.

use std::{path::Path, sync::Arc};

use k8s_openapi::api::{
    core::v1::{PersistentVolume, Pod},
    storage::v1::StorageClass,
};
use kube::ResourceExt;
use serde_json::json;

use super::plan::{self, Settings};
use crate::controllers::workloads::pods::is_finished;

/// The namespace of the helper pods.
pub(super) const NAMESPACE: &str = "kube-system";
/// Where the node's directory of volumes is in the pod.
const MOUNT: &str = "/volumes";

/// The label of the pods, and its value.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "local-path-provisioner";
/// The beginning of their names, which end with the volume's.
const NAME_PREFIX: &str = "helper-pod-delete-";

/// Returns the name of the volume's helper pod.
pub(super) fn name(volume: &PersistentVolume) -> String {
    format!("{NAME_PREFIX}{}", volume.name_any())
}

/// Returns the name of the volume whose directory the pod removes; `None` if it is no helper pod.
pub(super) fn volume_of(pod: &Pod) -> Option<&str> {
    let is_managed = pod
        .labels()
        .get(MANAGED_BY)
        .is_some_and(|manager| manager == MANAGER);
    let name = pod.metadata.name.as_deref().filter(|_| is_managed)?;
    name.strip_prefix(NAME_PREFIX)
        .filter(|_| pod.metadata.namespace.as_deref() == Some(NAMESPACE))
}

/// Returns the helper pods that have ended and whose volumes are gone.
pub(super) fn leftover<'a>(
    pods: &'a [Arc<Pod>],
    volumes: &[Arc<PersistentVolume>],
) -> Vec<&'a Arc<Pod>> {
    let is_left = |pod: &&Arc<Pod>| {
        let volume = volume_of(pod).filter(|_| pod.metadata.deletion_timestamp.is_none());
        is_finished(pod)
            && volume.is_some_and(|name| volumes.iter().all(|known| known.name_any() != name))
    };
    pods.iter().filter(is_left).collect()
}

/// Returns why a helper pod failed.
pub(super) fn failure(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let mut containers = status
        .into_iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let ended = containers.find_map(|container| container.state.as_ref()?.terminated.as_ref());
    let of_container = ended.map(|ended| {
        let message = ended
            .message
            .as_deref()
            .map(str::trim)
            .filter(|message| !message.is_empty());
        message.map_or_else(|| format!("exit code {}", ended.exit_code), str::to_owned)
    });
    let of_pod =
        || status.and_then(|status| status.message.clone().or_else(|| status.reason.clone()));
    of_container
        .or_else(of_pod)
        .unwrap_or_else(|| "no reason given".to_owned())
}

/// Returns the pod; the error is why the directory cannot be removed.
pub(super) fn pod(volume: &PersistentVolume, class: Option<&StorageClass>) -> Result<Pod, String> {
    let settings = class.map(Settings::of).transpose()?.unwrap_or_default();
    let path = volume
        .spec
        .as_ref()
        .and_then(|spec| spec.host_path.as_ref())
        .map(|source| source.path.as_str());
    let path = Path::new(path.unwrap_or_default());
    // a volume that somebody else wrote must not have another directory removed
    let own = path
        .file_name()
        .and_then(|own| own.to_str())
        .filter(|own| own.starts_with(&volume.name_any()));
    let (Some(own), Some(parent)) = (own, path.parent().filter(|parent| plan::is_plain(parent)))
    else {
        return Err(format!(
            "{} is no directory of this provisioner; remove it by hand",
            path.display()
        ));
    };
    let pod = json!({
        "metadata": {"name": name(volume), "namespace": NAMESPACE, "labels": {MANAGED_BY: MANAGER}},
        "spec": {
            "nodeName": plan::node_name(volume),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{
                "name": "helper-pod",
                "image": settings.helper_image,
                "imagePullPolicy": "IfNotPresent",
                "command": ["rm", "-rf", format!("{MOUNT}/{own}")],
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "securityContext": {"runAsUser": 0},
                "volumeMounts": [{"name": "volumes", "mountPath": MOUNT}],
            }],
            "volumes": [{"name": "volumes", "hostPath": {"path": parent, "type": "DirectoryOrCreate"}}],
        },
    });
    serde_json::from_value(pod).map_err(|error| error.to_string())
}
