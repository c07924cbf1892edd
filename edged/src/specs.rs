//! Accessors for fields of a pod.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
pub(crate) use kubeapi::object::resources::is_sidecar;

/// Returns the app containers of a specification, then its init containers and sidecars.
pub(crate) fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
}

/// Returns the containers of a pod in the same order; none if it has no specification.
pub(crate) fn containers_of(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(containers)
}

/// Reports whether the pod's phase is final: `Succeeded` or `Failed`.
pub fn is_terminal(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Returns the quality of service class, for pods without the one that the API server sets.
pub(crate) fn qos(pod: &Pod) -> &'static str {
    let (mut any, mut guaranteed) = (false, true);
    for container in containers_of(pod) {
        let resources = container.resources.as_ref();
        let limits = resources.and_then(|r| r.limits.as_ref());
        let requests = resources.and_then(|r| r.requests.as_ref());
        for name in ["cpu", "memory"] {
            let limit = limits.and_then(|map| map.get(name));
            let request = requests.and_then(|map| map.get(name));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
