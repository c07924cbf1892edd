//! Resizes of pods: which running containers have other resources than the specification wants. Pure.
//!
//! A container's resources are those with which it was started or last updated. The agent reports them in the pod's status, which also
//! is its record after a restart.
//!
//! Source: <https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/>.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::{
    api::core::v1::{Container as Spec, ContainerStatus, Pod, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};
use kubeapi::object::quantity;

use super::{
    observed::{Container, ObservedPod, ObservedState},
    specs,
};

/// The resources of containers, by the runtime's id.
pub(crate) type KnownResources = HashMap<String, ResourceRequirements>;

/// The conditions of a resize.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResizeStatus {
    /// `PodResizePending`: the node does not have the resources (now: `Deferred`, ever: `Infeasible`).
    Pending {
        /// The reason.
        reason: &'static str,
        /// The message.
        message: String,
    },
    /// `PodResizeInProgress`: containers are being changed, or could not be changed.
    InProgress {
        /// The runtime's error.
        error: Option<String>,
    },
}

/// A running container that gets other resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceChange {
    /// The runtime's id.
    pub(crate) id: String,
    /// Its name in the pod.
    pub(crate) name: String,
    /// Whether its resize policy wants a restart.
    pub(crate) restarts: bool,
}

/// Returns the resources of the running containers, by name: the known ones, those of the last status, or those of the specification.
pub(crate) fn applied_resources(
    pod: &Pod,
    observed: &ObservedPod,
    known: &KnownResources,
) -> BTreeMap<String, (String, ResourceRequirements)> {
    let running = specs::containers_of(pod).filter_map(|spec| {
        let container = running_container(observed, &spec.name)?;
        let resources = of_container(pod, spec, container, known);
        Some((spec.name.clone(), (container.id.clone(), resources)))
    });
    running.collect()
}

fn running_container<'a>(observed: &'a ObservedPod, name: &str) -> Option<&'a Container> {
    observed
        .latest(name)
        .filter(|container| matches!(container.state, ObservedState::Running { .. }))
}

/// Returns the resources of one container.
pub(crate) fn of_container(
    pod: &Pod,
    spec: &Spec,
    container: &Container,
    known: &KnownResources,
) -> ResourceRequirements {
    let wanted = ResourceRequirements {
        claims: None,
        ..spec.resources.clone().unwrap_or_default()
    };
    known
        .get(&container.id)
        .cloned()
        .or_else(|| last_reported(pod, container))
        .unwrap_or(wanted)
}

/// Returns the resources in the last status of the same container.
fn last_reported(pod: &Pod, container: &Container) -> Option<ResourceRequirements> {
    let status = pod.status.as_ref()?;
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let is_same = |status: &&ContainerStatus| {
        status
            .container_id
            .as_deref()
            .and_then(|id| id.split_once("://"))
            .is_some_and(|(_, id)| id == container.id)
    };
    let status = lists.into_iter().flatten().flatten().find(is_same)?;
    status.resources.clone()
}

/// Returns the running containers whose resources differ from the wanted ones.
pub(crate) fn changes(
    pod: &Pod,
    applied: &BTreeMap<String, (String, ResourceRequirements)>,
) -> Vec<ResourceChange> {
    let change = |spec: &Spec| {
        let (id, applied) = applied.get(&spec.name)?;
        let wanted = spec.resources.clone().unwrap_or_default();
        let differs = |list: fn(&ResourceRequirements) -> Option<&Amounts>, name: &str| {
            let amount = |resources| list(resources)?.get(name).and_then(quantity::milli);
            amount(applied) != amount(&wanted)
        };
        let cpu = differs(limits, "cpu") || differs(requests, "cpu");
        let memory_limit = differs(limits, "memory");
        let restarts = |name: &str| {
            let policies = spec.resize_policy.iter().flatten();
            policies
                .filter(|policy| policy.resource_name == name)
                .any(|policy| policy.restart_policy == "RestartContainer")
        };
        (cpu || memory_limit || differs(requests, "memory")).then(|| ResourceChange {
            id: id.clone(),
            name: spec.name.clone(),
            restarts: cpu && restarts("cpu") || memory_limit && restarts("memory"),
        })
    };
    specs::containers_of(pod).filter_map(change).collect()
}

type Amounts = BTreeMap<String, Quantity>;

fn limits(resources: &ResourceRequirements) -> Option<&Amounts> {
    resources.limits.as_ref()
}

fn requests(resources: &ResourceRequirements) -> Option<&Amounts> {
    resources.requests.as_ref()
}

/// Returns the pod with the resources that its running containers have, for the time until a resize is possible.
pub(crate) fn with_applied(
    pod: &Pod,
    applied: &BTreeMap<String, (String, ResourceRequirements)>,
) -> Pod {
    let mut pod = pod.clone();
    let Some(spec) = &mut pod.spec else {
        return pod;
    };
    let inits = spec.init_containers.iter_mut().flatten();
    for container in spec.containers.iter_mut().chain(inits) {
        if let Some((_, resources)) = applied.get(&container.name) {
            let claims = container
                .resources
                .take()
                .and_then(|resources| resources.claims);
            container.resources = Some(ResourceRequirements {
                claims,
                ..resources.clone()
            });
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(resources: &Value, policy: &Value, status: &Value) -> Pod {
        serde_json::from_value(json!({
            "spec": {"containers": [{"name": "c", "resources": resources, "resizePolicy": policy}]},
            "status": {"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                "containerID": "containerd://1", "resources": status}]},
        }))
        .unwrap()
    }

    fn small() -> Value {
        json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}})
    }

    fn change(wanted: &Value, policy: &Value) -> Option<bool> {
        let pod = pod(wanted, policy, &Value::Null);
        let small = serde_json::from_value(small()).unwrap();
        let applied = BTreeMap::from([("c".to_owned(), ("1".to_owned(), small))]);
        changes(&pod, &applied)
            .first()
            .map(|change| change.restarts)
    }

    #[test]
    fn changed_amounts_are_found_whatever_their_notation() {
        let memory = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        let with = |requests: Value, limits: Value| json!({"requests": requests, "limits": limits});
        let rows = [
            (small(), Value::Null, None),
            (
                with(
                    json!({"cpu": "0.1", "memory": "65536Ki"}),
                    json!({"memory": "134217728"}),
                ),
                Value::Null,
                None,
            ),
            (
                with(
                    json!({"cpu": "200m", "memory": "64Mi"}),
                    json!({"memory": "128Mi"}),
                ),
                Value::Null,
                Some(false),
            ),
            (
                with(
                    json!({"cpu": "200m", "memory": "64Mi"}),
                    json!({"memory": "128Mi"}),
                ),
                memory.clone(),
                Some(false),
            ),
            (
                with(
                    json!({"cpu": "100m", "memory": "64Mi"}),
                    json!({"memory": "256Mi"}),
                ),
                memory.clone(),
                Some(true),
            ),
            (
                with(
                    json!({"cpu": "100m", "memory": "96Mi"}),
                    json!({"memory": "128Mi"}),
                ),
                memory,
                Some(false),
            ),
            (
                with(
                    json!({"cpu": "100m", "memory": "64Mi"}),
                    json!({"memory": "128Mi", "cpu": "1"}),
                ),
                Value::Null,
                Some(false),
            ),
        ];
        for (wanted, policy, expected) in rows {
            assert_eq!(change(&wanted, &policy), expected, "{wanted}");
        }
    }

    #[test]
    fn resources_come_from_the_cache_the_status_or_the_specification() {
        let resources = |text: &str| -> ResourceRequirements {
            serde_json::from_value(json!({"requests": {"cpu": text}})).unwrap()
        };
        let wanted = json!({"requests": {"cpu": "3"}});
        let status = json!({"requests": {"cpu": "2"}});
        let container = |id: &str| Container {
            id: id.to_owned(),
            ..Container::test("c")
        };
        let known = KnownResources::from([("1".to_owned(), resources("1"))]);
        let reported = pod(&wanted, &Value::Null, &status);
        let of = |pod: &Pod, id: &str, known: &KnownResources| {
            let spec = &pod.spec.as_ref().unwrap().containers[0];
            of_container(pod, spec, &container(id), known)
        };
        assert_eq!(of(&reported, "1", &known), resources("1"));
        assert_eq!(of(&reported, "1", &KnownResources::new()), resources("2"));
        assert_eq!(of(&reported, "other", &known), resources("3"));
    }
}
