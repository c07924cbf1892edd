//! The token of a pod's account, where programs in pods look for it, with the namespace and the CA of the API.
//!
//! Source: <https://kubernetes.io/docs/concepts/security/service-accounts/#assign-to-pod>.

use serde_json::{Map, Value, json};

use super::{maps, text_at};
use crate::object::{as_map, child, default_to, is_mirror, text_or_empty};

/// Where clients of the API look.
const PLACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The volume's name.
const VOLUME: &str = "kube-api-access";

/// Mounts them into each container of a new pod that has nothing there, if the pod says `automountServiceAccountToken: true`.
/// Other API servers do so unless it says `false`; here a pod that calls no API is spared a volume in memory and a token.
pub(super) fn mount(pod: &mut Value) {
    let is_mirror = is_mirror(pod);
    let spec = child(as_map(pod), "spec");
    if is_mirror || spec.get("automountServiceAccountToken") != Some(&Value::Bool(true)) {
        return;
    }
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        for container in maps(spec, list).filter(|container| !has_mount(container)) {
            default_to(container, "volumeMounts", json!([]));
            if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                mounts.push(json!({"name": VOLUME, "mountPath": PLACE, "readOnly": true}));
                mounted = true;
            }
        }
    }
    if mounted && !maps(spec, "volumes").any(|volume| text_at(volume, "name") == VOLUME) {
        default_to(spec, "volumes", json!([]));
        if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
            volumes.push(volume());
        }
    }
}

fn has_mount(container: &Map<String, Value>) -> bool {
    let mounts = container.get("volumeMounts").and_then(Value::as_array);
    mounts.into_iter().flatten().any(|mount| text_or_empty(mount, "/mountPath") == PLACE)
}

/// As the API server makes it.
fn volume() -> Value {
    json!({"name": VOLUME, "projected": {"defaultMode": 0o644, "sources": [
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
    fn a_pod_that_asks_for_its_token_has_it_in_all_containers() {
        let own = json!({"name": "own", "volumeMounts": [{"name": "x", "mountPath": PLACE}]});
        let pod = |automount: Value| {
            json!({"spec": {"automountServiceAccountToken": automount,
                "initContainers": [{"name": "first"}], "containers": [{"name": "main", "volumeMounts": []}, own.clone()]}})
        };
        let mounted = |mut pod: Value| {
            mount(&mut pod);
            pod
        };
        for silent in [json!(null), json!(false)] {
            assert_eq!(mounted(pod(silent.clone())), pod(silent));
        }
        let found = mounted(pod(true.into()));
        assert_eq!(found["spec"]["volumes"], json!([volume()]));
        let expected = json!([{"name": VOLUME, "mountPath": PLACE, "readOnly": true}]);
        for place in ["/spec/initContainers/0", "/spec/containers/0"] {
            assert_eq!(found.pointer(&format!("{place}/volumeMounts")), Some(&expected));
        }
        assert_eq!(found["spec"]["containers"][1], own);
        assert_eq!(mounted(found.clone()), found);
        let mut mirror = pod(true.into());
        mirror["metadata"] = json!({"annotations": {"kubernetes.io/config.mirror": "hash"}});
        assert_eq!(mounted(mirror.clone()), mirror);
    }
}
