//! The token of a pod's account, where programs in pods look for it, with the namespace and the CA of the API.
//!
//! Source: <https://kubernetes.io/docs/concepts/security/service-accounts/#assign-to-pod>.

use serde_json::{Map, Value, json};

use super::fields::{maps, text_at};
use crate::object::{as_map, child, default_to, text_or_empty};

/// Where clients of the API look.
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// What the names of such volumes begin with.
pub(crate) const VOLUME_PREFIX: &str = "kube-api-access-";

/// Mounts them into each container of a new pod that has nothing there. `name` is that of the volume, unless the pod has one whose
/// name begins as those of such volumes do. Whether the pod is to have them is decided before.
pub(crate) fn mount(pod: &mut Value, name: &str) {
    let spec = child(as_map(pod), "spec");
    let own = maps(spec, "volumes")
        .map(|volume| text_at(volume, "name"))
        .find(|own| own.starts_with(VOLUME_PREFIX));
    let own = own.map(str::to_owned);
    let name = own.as_deref().unwrap_or(name);
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in maps(spec, list).filter(|container| !has_mount(container)) {
            default_to(container, "volumeMounts", json!([]));
            if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                mounts.push(json!({"name": name, "mountPath": PLACE, "readOnly": true}));
                mounted = true;
            }
        }
    }
    if mounted && own.is_none() {
        default_to(spec, "volumes", json!([]));
        if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
            volumes.push(volume(name));
        }
    }
}

fn has_mount(container: &Map<String, Value>) -> bool {
    let mounts = container.get("volumeMounts").and_then(Value::as_array);
    mounts.into_iter().flatten().any(|mount| text_or_empty(mount, "/mountPath") == PLACE)
}

/// As the API server makes it.
fn volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [
            {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
        ]}},
    ]}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_containers_have_it_that_have_nothing_there() {
        const NAME: &str = "kube-api-access-abcde";
        let own = json!({"name": "own", "volumeMounts": [{"name": "x", "mountPath": PLACE}]});
        let pod = json!({"spec": {"initContainers": [{"name": "first"}],
            "containers": [{"name": "main", "volumeMounts": []}, own.clone()]}});
        let mounted = |mut pod: Value, name: &str| {
            mount(&mut pod, name);
            pod
        };
        let found = mounted(pod, NAME);
        assert_eq!(found["spec"]["volumes"], json!([volume(NAME)]));
        let expected = json!([{"name": NAME, "mountPath": PLACE, "readOnly": true}]);
        for place in ["/spec/initContainers/0", "/spec/containers/0"] {
            assert_eq!(found.pointer(&format!("{place}/volumeMounts")), Some(&expected));
        }
        assert_eq!(found["spec"]["containers"][1], own);
        assert_eq!(mounted(found.clone(), "kube-api-access-other"), found);

        let only_own = json!({"spec": {"containers": [own]}});
        assert_eq!(mounted(only_own.clone(), NAME), only_own);

        // a copy of a pod in which the volume is and a container is new
        let mut copy = found.clone();
        copy["spec"]["containers"] = json!([{"name": "new"}]);
        let copy = mounted(copy, "kube-api-access-other");
        assert_eq!(copy["spec"]["volumes"], json!([volume(NAME)]));
        assert_eq!(copy["spec"]["containers"][0]["volumeMounts"], expected);
    }
}
