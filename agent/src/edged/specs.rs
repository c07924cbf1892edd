//! What a pod's specification lists.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

/// The containers that run together, then those that are there to begin with: init containers and sidecars.
pub(crate) fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers.iter().chain(spec.init_containers.iter().flatten())
}

/// The same of a pod; none without a specification.
pub(crate) fn containers_of(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(containers)
}
