//! Mirror pods: what a node runs from files of its own, shown in the API. The only pods that a node may make (`restriction`). Pure.

use k8s_openapi::api::core::v1::Pod;

/// The annotation that makes a pod a mirror pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether the pod is a mirror pod.
pub(in crate::controllers) fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR))
}
