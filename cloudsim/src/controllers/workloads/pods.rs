//! Creation and states of a workload's pods. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Pod, PodTemplateSpec},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt, api::ObjectMeta};

/// Returns the controller reference to `owner`.
pub(crate) fn controller_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns the reference to an object's controller.
pub(crate) fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object
        .meta()
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

/// Builds a pod from `owner`'s template, with a generated name.
pub(crate) fn from_template<K>(template: &PodTemplateSpec, owner: &K) -> Pod
where
    K: Resource<DynamicType = ()>,
{
    let meta = template.metadata.clone().unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!(
                "{}-",
                owner.meta().name.as_deref().unwrap_or_default()
            )),
            namespace: owner.meta().namespace.clone(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// Returns the phase: `Running`, `Pending`, ….
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// Reports whether the pod has succeeded or failed.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Reports whether the pod is neither finished nor being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Returns since when the pod is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions
        .iter()
        .find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    Some(
        ready
            .last_transition_time
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    )
}

/// Reports whether the pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// Returns how long until the pod has been ready for `min_ready` seconds; `None` if it is not ready.
pub(crate) fn available_in(pod: &Pod, min_ready: i32, now: Timestamp) -> Option<SignedDuration> {
    let since = ready_since(pod)?;
    let left = SignedDuration::from_secs(min_ready.into()) - now.duration_since(since);
    Some(left.max(SignedDuration::ZERO))
}

/// Reports whether the pod has been ready for `min_ready` seconds.
pub(crate) fn is_available(pod: &Pod, min_ready: i32, now: Timestamp) -> bool {
    available_in(pod, min_ready, now).is_some_and(|left| left.is_zero())
}

/// Returns the order of deletion: the first to delete sorts first. (Kubernetes' `ActivePodsWithRanks`, without the spread over nodes.)
pub(crate) fn deletion_rank(pod: &Pod) -> impl Ord + use<> {
    let has_node = pod.spec.as_ref().is_some_and(|spec| {
        spec.node_name
            .as_deref()
            .is_some_and(|name| !name.is_empty())
    });
    let phase = match phase(pod) {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    };
    let cost: i32 = pod
        .annotations()
        .get("controller.kubernetes.io/pod-deletion-cost")
        .and_then(|cost| cost.parse().ok())
        .unwrap_or_default();
    let restarts: i32 = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten())
        .map(|container| container.restart_count)
        .max()
        .unwrap_or_default();
    // younger ones first: their times are later
    let age = |time: Option<Timestamp>| std::cmp::Reverse(time);
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    (
        has_node,
        phase,
        is_ready(pod),
        cost,
        age(ready_since(pod)),
        std::cmp::Reverse(restarts),
        age(created),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, node: &str, status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"containers": [], "nodeName": node}, "status": status}))
            .unwrap()
    }

    fn ready(since: &str) -> Value {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]})
    }

    #[test]
    fn what_is_lost_least_goes_first() {
        let mut pods = [
            pod("old", "n", ready("2025-01-01T00:00:00Z")),
            pod("young", "n", ready("2025-02-01T00:00:00Z")),
            pod("starting", "n", json!({"phase": "Running"})),
            pod("pending", "n", json!({"phase": "Pending"})),
            pod("nowhere", "", json!({"phase": "Pending"})),
        ];
        pods.sort_by_key(deletion_rank);
        let names: Vec<_> = pods.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["nowhere", "pending", "starting", "young", "old"]);
    }

    #[test]
    fn a_pod_is_available_when_it_was_ready_for_long_enough() {
        let pod = pod("a", "n", ready("2025-01-01T00:00:00Z"));
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(is_available(&pod, 0, at("2025-01-01T00:00:00Z")));
        assert!(!is_available(&pod, 10, at("2025-01-01T00:00:09Z")));
        assert_eq!(
            available_in(&pod, 10, at("2025-01-01T00:00:09Z")),
            Some(SignedDuration::from_secs(1))
        );
        assert!(is_available(&pod, 10, at("2025-01-01T00:00:10Z")));
    }
}
