//! The pod that removes the directory of a volume on its node. Pure.

use std::path::Path;

use k8s_openapi::api::{
    core::v1::{PersistentVolume, Pod},
    storage::v1::StorageClass,
};
use kube::ResourceExt;
use serde_json::json;

use super::plan::{self, Settings};

/// The namespace of the helper pods.
pub(super) const NAMESPACE: &str = "kube-system";
/// Where the node's directory of volumes is in the pod.
const MOUNT: &str = "/volumes";

/// Returns the name of the volume's helper pod.
pub(super) fn name(volume: &PersistentVolume) -> String {
    format!("helper-pod-delete-{}", volume.name_any())
}

/// Returns the pod; the error is why the directory cannot be removed.
pub(super) fn pod(volume: &PersistentVolume, class: Option<&StorageClass>) -> Result<Pod, String> {
    let settings = class.map(Settings::of).transpose()?.unwrap_or_default();
    let path =
        volume.spec.as_ref().and_then(|spec| spec.host_path.as_ref()).map(|source| source.path.as_str());
    let path = Path::new(path.unwrap_or_default());
    // a volume that somebody else wrote must not have another directory removed
    let own = path.file_name().and_then(|own| own.to_str()).filter(|own| own.starts_with(&volume.name_any()));
    let (Some(own), Some(parent)) = (own, path.parent().filter(|parent| plan::is_plain(parent))) else {
        return Err(format!("{} is no directory of this provisioner; remove it by hand", path.display()));
    };
    let pod = json!({
        "metadata": {"name": name(volume), "namespace": NAMESPACE, "labels": {"app.kubernetes.io/managed-by": plan::LABEL}},
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
                "securityContext": {"runAsUser": 0},
                "volumeMounts": [{"name": "volumes", "mountPath": MOUNT}],
            }],
            "volumes": [{"name": "volumes", "hostPath": {"path": parent, "type": "DirectoryOrCreate"}}],
        },
    });
    serde_json::from_value(pod).map_err(|error| error.to_string())
}
