//! Mirror pods: what a node runs from files of its own, shown in the API. The only pods that a node may make. Pure.
//!
//! Source: Kubernetes' NodeRestriction: a mirror pod names no Secret, no ConfigMap and no account, since whoever makes pods
//! that name them can read them all.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::references::references;

/// The annotation that makes a pod a mirror pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether the pod is a mirror pod.
pub(super) fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR))
}

/// Whether `node` may make this pod.
pub(super) fn may_make(node: &str, pod: &Value) -> bool {
    let Ok(pod) = serde_json::from_value::<Pod>(pod.clone()) else { return false };
    let Some(spec) = &pod.spec else { return false };
    let account = spec.service_account_name.as_deref().or(spec.service_account.as_deref());
    is_mirror(&pod)
        && spec.node_name.as_deref() == Some(node)
        && account.is_none_or(str::is_empty)
        && references(&pod).is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_makes_mirror_pods_of_its_own_that_name_nothing() {
        let annotations = json!({MIRROR: "x"});
        let pod = |annotations: &Value, spec: Value| json!({"metadata": {"name": "m", "annotations": annotations}, "spec": spec});
        let spec = |node: &str| json!({"nodeName": node, "containers": [{"name": "c"}]});
        assert!(may_make("edge-1", &pod(&annotations, spec("edge-1"))));
        assert!(!may_make("edge-1", &pod(&annotations, spec("edge-2"))), "another node's");
        assert!(!may_make("edge-1", &pod(&json!({}), spec("edge-1"))), "no mirror pod");
        for (field, value) in [
            ("serviceAccountName", json!("default")),
            ("volumes", json!([{"name": "v", "secret": {"secretName": "s"}}])),
            ("imagePullSecrets", json!([{"name": "s"}])),
            ("nodeName", json!(7)),
        ] {
            let mut wrong = spec("edge-1");
            wrong[field] = value;
            assert!(!may_make("edge-1", &pod(&annotations, wrong)), "{field}");
        }
    }
}
