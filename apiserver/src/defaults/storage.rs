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

/// Sets the defaults of a claim. `dataSource` and `dataSourceRef` are two names of one field, unless the latter names a namespace.
pub(super) fn claim(spec: &mut Map<String, Value>) {
    if spec
        .get("dataSource")
        .is_some_and(|source| !is_old_source(source))
    {
        // as kube-apiserver does, without a word
        spec.shift_remove("dataSource");
    }
    let (old, new) = (
        spec.get("dataSource").cloned(),
        spec.get("dataSourceRef").cloned(),
    );
    match (old, new) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".into(), source)),
        (None, Some(source)) if source.get("namespace").is_none() && is_old_source(&source) => {
            spec.insert("dataSource".into(), source);
        }
        _ => {}
    }
    default_text(spec, "volumeMode", "Filesystem");
}

/// Reports whether `dataSource` may name this kind.
fn is_old_source(source: &Value) -> bool {
    let text = |field: &str| {
        source
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    matches!(
        (text("apiGroup"), text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
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
