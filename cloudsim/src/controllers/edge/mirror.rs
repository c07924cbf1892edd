//! Mirror pods: a node's static pods in the API, and the only pods that a node may create (`restriction`). Pure.

use k8s_openapi::api::core::v1::Pod;

/// The annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Reports whether the pod is a mirror pod.
pub(in crate::controllers) fn is_mirror(pod: &Pod) -> bool {
    pod.metadata
        .annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key(MIRROR))
}
