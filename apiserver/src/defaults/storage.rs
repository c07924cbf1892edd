//! Defaults of volumes, claims, storage classes and CSI drivers.

use serde_json::{Map, Value};

use kubeapi::defaults::fields::{default_text, map_at};
use kubeapi::object::default_to;

pub(super) fn volume(spec: &mut Map<String, Value>) {
    default_text(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_text(spec, "volumeMode", "Filesystem");
    if let Some(path) = map_at(spec, "hostPath") {
        default_to(path, "type", "");
    }
}

pub(super) fn claim(spec: &mut Map<String, Value>) {
    default_text(spec, "volumeMode", "Filesystem");
}

pub(super) fn class(class: &mut Map<String, Value>) {
    default_text(class, "reclaimPolicy", "Delete");
    default_text(class, "volumeBindingMode", "Immediate");
}

pub(super) fn driver(spec: &mut Map<String, Value>) {
    default_to(spec, "attachRequired", true);
    default_to(spec, "podInfoOnMount", false);
    default_to(spec, "storageCapacity", false);
    default_text(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default_to(
        spec,
        "volumeLifecycleModes",
        serde_json::json!(["Persistent"]),
    );
    default_to(spec, "requiresRepublish", false);
    default_to(spec, "seLinuxMount", false);
}
