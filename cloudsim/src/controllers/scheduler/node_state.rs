//! The state of a Node. Pure.

use k8s_openapi::api::core::v1::Node;

/// The label of edge nodes, with any value.
pub(crate) const EDGE_LABEL: &str = "node-role.kubernetes.io/edge";

/// Reports whether the node is Ready.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
