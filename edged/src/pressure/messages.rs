//! Messages for evicted and refused pods, in the kubelet's words, and the pods that are never evicted. Pure.

use std::collections::BTreeSet;

use componentbase::static_pods::{CONFIG_MIRROR_ANNOTATION, CONFIG_SOURCE_ANNOTATION};
use k8s_openapi::api::core::v1::Pod;
use kubeapi::object::quantity;

use super::{
    rank::{self, PodUsage},
    signals::{Condition, Reading, Resource},
};
use crate::{settings::Threshold, specs::qos};

/// The reason in the pod's status and event.
pub(crate) const EVICTED: &str = "Evicted";
/// Priority from which a pod is critical: Kubernetes' `SystemCriticalPriority`.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Reports whether the pod is critical: a static pod, its mirror pod, or one of a system priority.
pub(crate) fn is_critical(pod: &Pod) -> bool {
    let annotation = |name: &str| {
        pod.metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(name))
    };
    annotation(CONFIG_SOURCE_ANNOTATION).is_some_and(|source| source != "api")
        || annotation(CONFIG_MIRROR_ANNOTATION).is_some()
        || rank::priority(pod) >= SYSTEM_CRITICAL_PRIORITY
}

/// Returns why the pod was evicted. `met` are the thresholds that called for it.
pub(crate) fn eviction(
    pod: &Pod,
    usage: Option<&PodUsage>,
    resource: Resource,
    met: &[Threshold],
    reading: &Reading,
) -> String {
    let mut text = format!("The node was low on resource: {resource}. ");
    let cause = met
        .iter()
        .find(|threshold| threshold.signal.resource() == resource);
    if let Some((cause, seen)) =
        cause.and_then(|cause| Some((cause, reading.signals.get(&cause.signal)?)))
    {
        let (least, available) = (
            quantity::binary(cause.value.of(seen.capacity)),
            quantity::binary(seen.available),
        );
        text.push_str(&format!(
            "Threshold quantity: {least}, available: {available}. "
        ));
    }
    let name = resource.to_string();
    for container in pod.spec.iter().flat_map(|spec| spec.containers.iter()) {
        let Some(used) = usage.and_then(|usage| usage.containers.get(&container.name)) else {
            continue;
        };
        let used = match resource {
            Resource::Memory => used.memory,
            Resource::Storage => used.layer.plus(used.logs).bytes,
            Resource::Inodes | Resource::Pids => continue,
        };
        let request = rank::request(container, &name);
        if used > request {
            let (used, request) = (quantity::binary(used), quantity::binary(request));
            text.push_str(&format!(
                "Container {} was using {used}, request is {request}, has larger consumption of {resource}. ",
                container.name
            ));
        }
    }
    text
}

/// Returns why a new pod may not start while the node has these conditions, `None` if it may.
pub(crate) fn refusal(pod: &Pod, conditions: &BTreeSet<Condition>) -> Option<String> {
    if conditions.is_empty() || is_critical(pod) {
        return None;
    }
    let memory_only = conditions
        .iter()
        .all(|condition| *condition == Condition::Memory);
    if memory_only && (qos(pod) != "BestEffort" || tolerates_memory_pressure(pod)) {
        return None;
    }
    let names: Vec<_> = conditions
        .iter()
        .map(|condition| condition.text(true).kind)
        .collect();
    Some(format!("The node had condition: [{}]. ", names.join(" ")))
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    let all = pod
        .spec
        .iter()
        .flat_map(|spec| spec.tolerations.iter().flatten());
    all.into_iter().any(|toleration| {
        let effect = toleration.effect.as_deref().unwrap_or_default();
        let exists = toleration.operator.as_deref() == Some("Exists");
        let key = match toleration.key.as_deref().unwrap_or_default() {
            "" => exists,
            key => key == "node.kubernetes.io/memory-pressure",
        };
        let value = exists || toleration.value.as_deref().unwrap_or_default().is_empty();
        matches!(effect, "" | "NoSchedule") && key && value
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        pressure::{
            rank::{ContainerUsage, StorageUsage},
            signals::Observation,
        },
        settings::{Signal, ThresholdValue},
    };

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn eviction_message_names_resource_and_usage() {
        let pod = pod(json!({"spec": {"containers": [
            {"name": "small", "resources": {"requests": {"memory": "1Gi"}}}, {"name": "big"}]}}));
        let used = |memory: i64| ContainerUsage {
            memory,
            layer: StorageUsage {
                bytes: 4096,
                inodes: 1,
            },
            ..ContainerUsage::default()
        };
        let containers = [
            ("small".to_owned(), used(1 << 20)),
            ("big".to_owned(), used(300 << 20)),
        ]
        .into();
        let usage = PodUsage {
            containers,
            ..PodUsage::default()
        };
        let observation = Observation {
            available: 90 << 20,
            capacity: 1 << 30,
        };
        let reading = Reading {
            signals: [(Signal::MemoryAvailable, observation)].into(),
            image_disk: false,
        };
        let met = Threshold {
            signal: Signal::MemoryAvailable,
            value: ThresholdValue::Quantity(100 << 20),
            grace: std::time::Duration::ZERO,
            reclaim: None,
        };
        assert_eq!(
            eviction(&pod, Some(&usage), Resource::Memory, &[met], &reading),
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. \
             Container big was using 300Mi, request is 0, has larger consumption of memory. "
        );
        assert_eq!(
            eviction(&pod, Some(&usage), Resource::Storage, &[], &reading),
            "The node was low on resource: ephemeral-storage. \
             Container small was using 4Ki, request is 0, has larger consumption of ephemeral-storage. \
             Container big was using 4Ki, request is 0, has larger consumption of ephemeral-storage. "
        );
        assert_eq!(
            eviction(&pod, None, Resource::Pids, &[met], &reading),
            "The node was low on resource: pids. "
        );
    }

    #[test]
    fn pods_refused_under_pressure() {
        let best_effort = json!({"spec": {"containers": [{"name": "c"}]}});
        let mut burstable = best_effort.clone();
        burstable["spec"]["containers"][0]["resources"] = json!({"requests": {"memory": "1Mi"}});
        let mut tolerant = best_effort.clone();
        tolerant["spec"]["tolerations"] = json!([{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}]);
        let mut system = best_effort.clone();
        system["spec"]["priority"] = json!(2_000_001_000);
        let mut from_file = best_effort.clone();
        from_file["metadata"] = json!({"annotations": {"kubernetes.io/config.source": "file"}});
        let mut from_api = best_effort.clone();
        from_api["metadata"] = json!({"annotations": {"kubernetes.io/config.source": "api"}});
        for (name, value, under_memory, under_disk) in [
            ("best effort", best_effort, false, false),
            ("burstable", burstable, true, false),
            ("tolerant", tolerant, true, false),
            ("system", system, true, true),
            ("static", from_file, true, true),
            ("from the api", from_api, false, false),
        ] {
            let pod = pod(value);
            let may = |conditions: &[Condition]| {
                refusal(&pod, &conditions.iter().copied().collect()).is_none()
            };
            assert!(may(&[]), "{name}");
            assert_eq!(may(&[Condition::Memory]), under_memory, "{name}");
            assert_eq!(may(&[Condition::Disk]), under_disk, "{name}");
            assert_eq!(
                may(&[Condition::Memory, Condition::Disk]),
                under_disk,
                "{name}"
            );
        }
        let best_effort = pod(json!({}));
        assert_eq!(
            refusal(&best_effort, &[Condition::Memory, Condition::Disk].into()).as_deref(),
            Some("The node had condition: [MemoryPressure DiskPressure]. ")
        );
    }
}
