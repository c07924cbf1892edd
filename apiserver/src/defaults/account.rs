//! The volume with a pod's service account token, its namespace and the API's CA certificate.
//!
//! Source: <https://kubernetes.io/docs/concepts/security/service-accounts/#assign-to-pod>.

use serde_json::{Map, Value, json};

use kubeapi::defaults::fields::{maps, text_at};
use kubeapi::object::{as_map, child, default_to, text_or_empty};

/// The path where API clients expect the token.
const TOKEN_MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The prefix of the names of such volumes.
pub(crate) const VOLUME_PREFIX: &str = "kube-api-access-";

/// Mounts the volume into each container of a new pod that mounts nothing at that path. `name` is the volume's name, unless the pod
/// already has a volume with this prefix. The caller decides whether the pod gets a token.
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
                mounts.push(json!({"name": name, "mountPath": TOKEN_MOUNT_PATH, "readOnly": true}));
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
    mounts
        .into_iter()
        .flatten()
        .any(|mount| text_or_empty(mount, "/mountPath") == TOKEN_MOUNT_PATH)
}

/// Makes the volume as the API server does.
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
        let own =
            json!({"name": "own", "volumeMounts": [{"name": "x", "mountPath": TOKEN_MOUNT_PATH}]});
        let pod = json!({"spec": {"initContainers": [{"name": "first"}],
            "containers": [{"name": "main", "volumeMounts": []}, own.clone()]}});
        let mounted = |mut pod: Value, name: &str| {
            mount(&mut pod, name);
            pod
        };
        let found = mounted(pod, NAME);
        assert_eq!(found["spec"]["volumes"], json!([volume(NAME)]));
        let expected = json!([{"name": NAME, "mountPath": TOKEN_MOUNT_PATH, "readOnly": true}]);
        for place in ["/spec/initContainers/0", "/spec/containers/0"] {
            assert_eq!(
                found.pointer(&format!("{place}/volumeMounts")),
                Some(&expected)
            );
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
