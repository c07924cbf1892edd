//! The taints that follow from a node's conditions. Pure.
//!
//! Source: Kubernetes' node lifecycle controller and the well-known taints.

use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, Taint},
    apimachinery::pkg::apis::meta::v1::Time,
};

/// The taint of a node without heartbeats.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The taint of a node that reports that it is not ready.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The taint of a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
const NO_SCHEDULE: &str = "NoSchedule";
const NO_EXECUTE: &str = "NoExecute";

/// Conditions that keep new pods away.
const PRESSURES: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    (
        "NetworkUnavailable",
        "node.kubernetes.io/network-unavailable",
    ),
];

fn condition<'a>(node: &'a Node, type_: &str) -> Option<&'a NodeCondition> {
    let mut conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == type_)
}

/// Returns the condition `Ready`.
pub(super) fn ready(node: &Node) -> Option<&NodeCondition> {
    condition(node, "Ready")
}

/// Returns the wanted taints among those that follow from conditions: key and effect.
fn desired_taints(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    match ready(node).map(|ready| ready.status.as_str()) {
        Some("True") => {}
        Some("False") => wanted.extend([(NOT_READY, NO_SCHEDULE), (NOT_READY, NO_EXECUTE)]),
        Some(_) => wanted.extend([(UNREACHABLE, NO_SCHEDULE), (UNREACHABLE, NO_EXECUTE)]),
        // a node that has not reported yet keeps the taint of a new node, and nothing is evicted from it
        None => wanted.extend(is_new(node).then_some((NOT_READY, NO_SCHEDULE))),
    }
    let holds =
        |type_: &str| condition(node, type_).is_some_and(|condition| condition.status == "True");
    wanted.extend(
        PRESSURES
            .iter()
            .filter(|(type_, _)| holds(type_))
            .map(|(_, key)| (*key, NO_SCHEDULE)),
    );
    if node
        .spec
        .as_ref()
        .is_some_and(|spec| spec.unschedulable == Some(true))
    {
        wanted.push((UNSCHEDULABLE, NO_SCHEDULE));
    }
    wanted
}

/// Reports whether the node has the taint with which the API creates nodes.
fn is_new(node: &Node) -> bool {
    let mut taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| taint.key == NOT_READY && taint.effect == NO_SCHEDULE)
}

fn is_ours(taint: &Taint) -> bool {
    let keys = [UNREACHABLE, NOT_READY, UNSCHEDULABLE];
    keys.contains(&taint.key.as_str()) || PRESSURES.iter().any(|(_, key)| *key == taint.key)
}

/// Returns all taints that the node should have, or `None` if it has them. Existing ones keep their times.
pub(super) fn due(node: &Node, now: jiff::Timestamp) -> Option<Vec<Taint>> {
    let has = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.clone())
        .unwrap_or_default();
    let wanted = desired_taints(node);
    let is_wanted = |taint: &Taint| wanted.contains(&(taint.key.as_str(), taint.effect.as_str()));
    let mut taints: Vec<_> = has
        .iter()
        .filter(|taint| !is_ours(taint) || is_wanted(taint))
        .cloned()
        .collect();
    for (key, effect) in &wanted {
        if !taints
            .iter()
            .any(|taint| taint.key == *key && taint.effect == *effect)
        {
            let (key, effect) = ((*key).to_owned(), (*effect).to_owned());
            taints.push(Taint {
                key,
                effect,
                time_added: Some(Time(now)),
                value: None,
            });
        }
    }
    (taints != has).then_some(taints)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn due_of(ready: &str, spec: serde_json::Value) -> Option<Vec<String>> {
        let conditions = json!([{"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": "False"}]);
        let node =
            json!({"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}});
        let taints = due(
            &serde_json::from_value(node).unwrap(),
            jiff::Timestamp::UNIX_EPOCH,
        )?;
        let short =
            |taint: &Taint| format!("{}:{}", taint.key.rsplit('/').next().unwrap(), taint.effect);
        Some(taints.iter().map(short).collect())
    }

    #[test]
    fn taints_follow_the_state() {
        let own = json!({"key": "gpu", "effect": "NoSchedule"});
        assert_eq!(due_of("True", json!({"taints": [own]})), None);
        assert_eq!(
            due_of("False", json!({})).unwrap(),
            ["not-ready:NoSchedule", "not-ready:NoExecute"]
        );
        let unknown = due_of(
            "Unknown",
            json!({"taints": [own, {"key": NOT_READY, "effect": "NoExecute"}]}),
        );
        assert_eq!(
            unknown.unwrap(),
            [
                "gpu:NoSchedule",
                "unreachable:NoSchedule",
                "unreachable:NoExecute"
            ]
        );
        let back = due_of(
            "True",
            json!({"taints": [{"key": UNREACHABLE, "effect": "NoExecute"}, own]}),
        );
        assert_eq!(back.unwrap(), ["gpu:NoSchedule"]);
        assert_eq!(
            due_of("True", json!({"unschedulable": true})).unwrap(),
            ["unschedulable:NoSchedule"]
        );
        let done = json!([{"key": NOT_READY, "effect": "NoSchedule"}, {"key": NOT_READY, "effect": "NoExecute"}]);
        assert_eq!(
            due_of("False", json!({"taints": done})),
            None,
            "those that it has keep their times"
        );
    }

    #[test]
    fn a_new_node_keeps_its_taint_until_it_reports() {
        let new = |conditions: serde_json::Value| -> Node {
            let spec = json!({"taints": [{"key": NOT_READY, "effect": NO_SCHEDULE}]});
            serde_json::from_value(
                json!({"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}}),
            )
            .unwrap()
        };
        let now = jiff::Timestamp::UNIX_EPOCH;
        assert_eq!(due(&new(json!([])), now), None);
        assert_eq!(
            due(&new(json!([{"type": "Ready", "status": "True"}])), now),
            Some(vec![])
        );
    }
}
