//! Checks whether an object has the type of its collection, for the collections that EdgeD reads as lists: one that has not
//! would make the whole list unreadable. Pure.

use k8s_openapi::api::core::v1::{
    ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret,
};
use objectstore::Key;
use serde::Deserialize;
use serde_json::Value;

/// Returns what is wrong with the object at `key`, without any of its content; `None` where nothing is, and for kinds that
/// nothing on this node reads.
pub(in crate::metamanager) fn schema_error(key: &Key, object: &Value) -> Option<String> {
    let (kind, is_one) = match key.resource.as_str() {
        "pods" => ("Pod", Pod::deserialize(object).is_ok()),
        "configmaps" => ("ConfigMap", ConfigMap::deserialize(object).is_ok()),
        "secrets" => ("Secret", Secret::deserialize(object).is_ok()),
        "nodes" => ("Node", Node::deserialize(object).is_ok()),
        "persistentvolumes" => (
            "PersistentVolume",
            PersistentVolume::deserialize(object).is_ok(),
        ),
        "persistentvolumeclaims" => (
            "PersistentVolumeClaim",
            PersistentVolumeClaim::deserialize(object).is_ok(),
        ),
        _ => return None,
    };
    (!is_one).then(|| format!("its content has fields of other types than a {kind} has"))
}

#[cfg(test)]
mod tests {
    use objectstore::Resource;
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_wrong_types_are_reported_without_their_content() {
        let metadata = json!({"name": "x"});
        for (plural, object, is_one) in [
            (
                "pods",
                json!({"metadata": metadata, "spec": {"containers": [{"name": "c"}]}}),
                true,
            ),
            ("pods", json!({"metadata": metadata, "unknown": 7}), true),
            ("pods", json!({"metadata": metadata, "spec": 7}), false),
            (
                "pods",
                json!({"metadata": metadata, "spec": {"containers": [null]}}),
                false,
            ),
            (
                "pods",
                json!({"metadata": metadata, "status": "canary"}),
                false,
            ),
            (
                "pods",
                json!({"metadata": {"name": "x", "labels": ["canary"]}}),
                false,
            ),
            (
                "configmaps",
                json!({"metadata": metadata, "data": {"k": "v"}}),
                true,
            ),
            (
                "configmaps",
                json!({"metadata": metadata, "data": {"k": {"canary": 1}}}),
                false,
            ),
            (
                "secrets",
                json!({"metadata": metadata, "data": {"k": "Y2FuYXJ5"}}),
                true,
            ),
            (
                "secrets",
                json!({"metadata": metadata, "data": {"k": "canary!"}}),
                false,
            ),
            ("unicorns", json!({"metadata": metadata, "data": 7}), true),
        ] {
            let fault = schema_error(&Key::new(Resource::new("", plural), "ns", "x"), &object);
            assert_eq!(fault.is_none(), is_one, "{object}");
            assert!(!fault.unwrap_or_default().contains("canary"));
        }
    }
}
