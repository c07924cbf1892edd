//! What a pod's fields say, for whoever decides about it.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
pub(crate) use kubeapi::resources::is_sidecar;

/// The containers that run together, then those that are there to begin with: init containers and sidecars.
pub(crate) fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers.iter().chain(spec.init_containers.iter().flatten())
}

/// The same of a pod; none without a specification.
pub(crate) fn containers_of(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(containers)
}

/// Whether the pod has ended for good, as its status says.
pub(crate) fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}
