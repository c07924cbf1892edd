//! Taints new nodes, so that no pod is bound to a node before it reports that it is ready. Source: Kubernetes' admission plugin
//! `TaintNodesByCondition`.

use serde_json::{Value, json};

use kubeapi::{
    object::{as_map, child, items, text},
    registry::Builtin,
    request::path::Target,
};

/// The taint, which the node lifecycle controller removes.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

/// Adds the taint to a new node that lacks it.
pub(crate) fn admit(target: &Target, object: &mut Value) {
    if !target.kind.is(Builtin::Node) {
        return;
    }
    let is_it = |taint: &Value| {
        text(taint, "/key") == Some(NOT_READY) && text(taint, "/effect") == Some(EFFECT)
    };
    if items(object, "/spec/taints").iter().any(is_it) {
        return;
    }
    let taints = child(as_map(object), "spec")
        .entry("taints")
        .or_insert_with(|| json!([]));
    if taints.is_null() {
        *taints = json!([]);
    }
    if let Value::Array(taints) = taints {
        taints.push(json!({"key": NOT_READY, "effect": EFFECT}));
    }
}
