//! Which node fits a pod: pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use crate::controllers::workloads::affinity;

/// The label that makes a Node an edge node; its presence counts, not its value.
pub(crate) const EDGE_LABEL: &str = "node-role.kubernetes.io/edge";
const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// Whether a pod waits for a node from this binder.
pub(super) fn wants_a_node(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    spec.node_name.as_deref().unwrap_or_default().is_empty()
        && pod.metadata.deletion_timestamp.is_none()
        && spec.scheduler_name.as_deref().unwrap_or(DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
        && spec.scheduling_gates.as_deref().unwrap_or_default().is_empty()
}

/// The fitting node with the fewest pods (ties by name), or why none fits, in the scheduler's words.
pub(super) fn choose(pod: &Pod, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Result<String, String> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut fitting = Vec::new();
    for node in nodes {
        match refusal(pod, node) {
            None => fitting.push(node.name_any()),
            Some(reason) => *reasons.entry(reason).or_default() += 1,
        }
    }
    let load = |node: &String| {
        pods.iter()
            .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.as_ref() == Some(node)))
            .count()
    };
    fitting.into_iter().min_by_key(|node| (load(node), node.clone())).ok_or_else(|| {
        let reasons: Vec<String> =
            reasons.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        match reasons.is_empty() {
            true => "0/0 nodes are available: no nodes available to schedule pods".to_owned(),
            false => format!("0/{} nodes are available: {}.", nodes.len(), reasons.join(", ")),
        }
    })
}

fn refusal(pod: &Pod, node: &Node) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    if !node.labels().contains_key(EDGE_LABEL) {
        return Some(format!("node(s) didn't have the label {EDGE_LABEL}"));
    }
    if node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true)) {
        return Some("node(s) were unschedulable".to_owned());
    }
    if !is_ready(node) {
        return Some("node(s) were not ready".to_owned());
    }
    if !affinity::wants(spec, node) {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let untolerated = affinity::untolerated(tolerations, node, &["NoSchedule", "NoExecute"]).next()?;
    let value = untolerated.value.as_deref().unwrap_or_default();
    Some(format!("node(s) had untolerated taint {{{}: {value}}}", untolerated.key))
}

/// Whether the node says that it is Ready.
pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(name: &str, change: impl FnOnce(&mut Value)) -> Arc<Node> {
        let mut value = json!({"metadata": {"name": name, "labels": {EDGE_LABEL: "", "zone": "a"}}, "spec": {},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        change(&mut value);
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default"}, "spec": spec}))
            .unwrap()
    }

    #[test]
    fn the_emptiest_fitting_node_is_chosen() {
        let nodes = [node("a", |_| {}), node("b", |_| {})];
        let bound = [Arc::new(pod(json!({"containers": [], "nodeName": "a"})))];
        assert_eq!(choose(&pod(json!({"containers": []})), &nodes, &bound).unwrap(), "b");
        assert_eq!(choose(&pod(json!({"containers": []})), &nodes, &[]).unwrap(), "a");
    }

    #[test]
    fn each_refusal_is_counted_in_the_message() {
        let nodes = [
            node("cloud", |node| node["metadata"]["labels"] = json!({})),
            node("off", |node| node["status"]["conditions"][0]["status"] = json!("Unknown")),
            node("cordoned", |node| node["spec"]["unschedulable"] = json!(true)),
            node("tainted", |node| {
                node["spec"]["taints"] = json!([{"key": "gpu", "value": "x", "effect": "NoSchedule"}])
            }),
        ];
        insta::assert_snapshot!(choose(&pod(json!({"containers": []})), &nodes, &[]).unwrap_err(), @"0/4 nodes are available: 1 node(s) didn't have the label node-role.kubernetes.io/edge, 1 node(s) had untolerated taint {gpu: x}, 1 node(s) were not ready, 1 node(s) were unschedulable.");
    }

    #[test]
    fn selectors_and_tolerations_decide() {
        let nodes = [node("tainted", |node| {
            node["spec"]["taints"] = json!([{"key": "gpu", "value": "x", "effect": "NoSchedule"}])
        })];
        for (toleration, fits) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}), true),
            (json!({"key": "gpu", "value": "x"}), true),
            (json!({"key": "gpu", "value": "y"}), false),
            (json!({"key": "gpu", "value": "x", "effect": "NoExecute"}), false),
        ] {
            let pod = pod(json!({"containers": [], "tolerations": [toleration]}));
            assert_eq!(choose(&pod, &nodes, &[]).is_ok(), fits, "{toleration}");
        }
        let free = [node("free", |_| {})];
        assert!(choose(&pod(json!({"containers": [], "nodeSelector": {"zone": "a"}})), &free, &[]).is_ok());
        assert!(choose(&pod(json!({"containers": [], "nodeSelector": {"zone": "b"}})), &free, &[]).is_err());
    }

    #[test]
    fn only_pods_that_wait_for_this_binder_want_a_node() {
        for (spec, wants) in [
            (json!({"containers": []}), true),
            (json!({"containers": [], "nodeName": ""}), true),
            (json!({"containers": [], "nodeName": "a"}), false),
            (json!({"containers": [], "schedulerName": "mine"}), false),
            (json!({"containers": [], "schedulingGates": [{"name": "x"}]}), false),
        ] {
            assert_eq!(wants_a_node(&pod(spec.clone())), wants, "{spec}");
        }
    }
}
