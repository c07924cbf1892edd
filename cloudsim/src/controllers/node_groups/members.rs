//! Decides which nodes are in a group, and which labels that changes. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crds::apps::{NodeGroupSpec, NodeGroupStatus, NodeStatus};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kubeapi::object::names;

use super::{GROUP_LABEL, ZONE_LABEL};

/// Labels to set; `None` removes one.
pub(super) type Labels = BTreeMap<&'static str, Option<String>>;

/// What a group changes.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Nodes with other labels than the group wants.
    pub(super) labels: Vec<(Arc<Node>, Labels)>,
    pub(super) status: NodeGroupStatus,
}

/// Reports whether a group names or matches a node. Without labels it matches none.
pub(super) fn selects(group: &NodeGroupSpec, node: &Node) -> bool {
    let labels = node.labels();
    let mut wanted = group.match_labels.iter();
    let matches =
        !group.match_labels.is_empty() && wanted.all(|(key, value)| labels.get(key) == Some(value));
    matches || group.nodes.contains(&node.name_any())
}

/// Plans the labels of all nodes for a group, and its status. A deleted group has no nodes.
pub(super) fn plan(
    name: &str,
    group: &NodeGroupSpec,
    nodes: &[Arc<Node>],
    is_deleted: bool,
) -> Plan {
    let mut plan = Plan::default();
    let (mut statuses, mut named) = (Vec::new(), BTreeSet::new());
    for node in nodes {
        let holder = node.labels().get(GROUP_LABEL);
        let is_wanted = !is_deleted && selects(group, node);
        let is_member = holder.is_some_and(|holder| holder == name);
        if is_wanted {
            named.insert(node.name_any());
            let obstacle = match holder.filter(|_| !is_member) {
                Some(group) => Some(format!(
                    "node {} has already belonged to NodeGroup {group}",
                    node.name_any()
                )),
                None => check_name(name).err(),
            };
            let is_free = obstacle.is_none();
            statuses.push(status(node, obstacle));
            if !is_free {
                continue;
            }
        } else if !is_member {
            continue;
        }
        let labels = changed_labels(name, group, node, is_wanted);
        if !labels.is_empty() {
            plan.labels.push((Arc::clone(node), labels));
        }
    }
    let missing: BTreeSet<&String> = group
        .nodes
        .iter()
        .filter(|node| !named.contains(*node))
        .collect();
    statuses.extend(
        missing
            .into_iter()
            .filter(|_| !is_deleted)
            .map(|node| NodeStatus {
                node_name: node.clone(),
                ready_status: "Unknown".to_owned(),
                selection_status: "Failed".to_owned(),
                selection_status_reason: Some("node does not exist".to_owned()),
            }),
    );
    statuses.sort_by(|one, other| one.node_name.cmp(&other.node_name));
    plan.status.node_statuses = statuses;
    plan
}

/// Returns the labels in which the node differs from what the group wants.
fn changed_labels(name: &str, group: &NodeGroupSpec, node: &Node, is_wanted: bool) -> Labels {
    let has = |key: &str| node.labels().get(key).map(String::as_str);
    let mut labels = Labels::new();
    let wanted = is_wanted.then(|| name.to_owned());
    if has(GROUP_LABEL) != wanted.as_deref() {
        labels.insert(GROUP_LABEL, wanted);
    }
    let has_zone = is_wanted && group.topology_enabled == Some(true);
    match (has_zone, has(ZONE_LABEL)) {
        (true, Some(zone)) if zone == name => {}
        (true, _) => drop(labels.insert(ZONE_LABEL, Some(name.to_owned()))),
        (false, Some(zone)) if zone == name => drop(labels.insert(ZONE_LABEL, None)),
        (false, _) => {}
    }
    labels
}

/// Checks the name of a group, which is the value of a label of its nodes.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let faults = names::label_value(name);
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the name of a NodeGroup is a label of its nodes: {}",
        faults.join("; ")
    ))
}

/// Returns the status of a selected node; `reason` is why it is not in the group.
fn status(node: &Node, reason: Option<String>) -> NodeStatus {
    let name = node.name_any();
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions
        .into_iter()
        .find(|condition| condition.type_ == "Ready");
    let ready = match ready.map(|condition| condition.status.as_str()) {
        Some("True") => "Ready",
        Some("False") => "NotReady",
        _ => "Unknown",
    };
    NodeStatus {
        ready_status: ready.to_owned(),
        selection_status: if reason.is_some() {
            "Failed"
        } else {
            "Succeeded"
        }
        .to_owned(),
        selection_status_reason: reason,
        node_name: name,
    }
}
