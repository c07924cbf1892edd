//! What a Node says of itself. Pure.

use k8s_openapi::api::core::v1::Node;

/// The label that makes a Node an edge node; its presence counts, not its value.
pub(crate) const EDGE_LABEL: &str = "node-role.kubernetes.io/edge";

/// Whether the node says that it is Ready.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
