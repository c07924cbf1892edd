//! Schedules a pod: filters, then scores, then preemption. Pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};

use super::{
    cycle_state::CycleState,
    filters::filter,
    messages,
    nodes::NodeInfo,
    preemption::{self, Preemption},
    scores,
    snapshot::Snapshot,
    state::has_neighbours,
    status::Status,
};
use crate::controllers::workloads::affinity::only_names;

/// The decision about a pod.
#[derive(Debug)]
pub(super) enum Decision {
    /// Bind it to this node.
    Bind(String),
    /// Let it wait; the message is the reason.
    Wait(String),
    /// Preempt these pods and wait for their end.
    Preempt(Preemption, String),
}

/// In a cluster of this size or smaller, each pod looks at all nodes.
const MIN_NODES: usize = 100;

/// Returns how many fitting nodes are enough, as kube-scheduler without `percentageOfNodesToScore`: all up to 100, half of some more, and
/// a twentieth of very many. A pod whose place depends on other pods looks at all nodes.
fn enough(count: usize, depends_on_pods: bool) -> usize {
    if count <= MIN_NODES || depends_on_pods {
        return count;
    }
    let percent = 50_usize.saturating_sub(count / 125).max(5);
    (count * percent / 100).max(MIN_NODES)
}

/// Decides about a pod that wants a node. `last` is the name of the node at which the search of an earlier pod ended, since enough nodes
/// fitted it; this one goes on from there.
pub(super) fn decide(
    pod: &Pod,
    snapshot: Snapshot<'_>,
    budgets: &[Arc<PodDisruptionBudget>],
    last: &mut String,
) -> Decision {
    let count = snapshot.nodes.count();
    let Some(spec) = &pod.spec else {
        return Decision::Wait(String::new());
    };
    if count == 0 {
        return Decision::Wait("no nodes available to schedule pods".to_owned());
    }
    let mut cycle = match CycleState::new(pod, spec, snapshot) {
        Ok(cycle) => cycle,
        Err(reason) => {
            let first = messages::of_pod(count, &reason);
            let unhelpful = std::iter::repeat_n("Preemption is not helpful for scheduling", count);
            return Decision::Wait(messages::all(&first, &messages::of_nodes(count, unhelpful)));
        }
    };
    let nominated = pod
        .status
        .as_ref()
        .and_then(|status| status.nominated_node_name.as_deref());
    if let Some((node, node_info)) = nominated.and_then(|name| snapshot.nodes.get(name))
        && filter(&cycle, node, node_info).is_none()
    {
        return Decision::Bind(node.metadata.name.clone().unwrap_or_default());
    }
    // pods of DaemonSets name their node
    if let Some(names) = only_names(spec) {
        let named = names
            .into_iter()
            .filter_map(|name| snapshot.nodes.get(name));
        let fitting: Vec<(&Node, &NodeInfo)> = named
            .filter(|(node, node_info)| filter(&cycle, node, node_info).is_none())
            .map(|(node, node_info)| (&**node, node_info))
            .collect();
        if let Some(node) = scores::best(&cycle, &fitting) {
            return Decision::Bind(node);
        }
    }
    let mut statuses: BTreeMap<String, Status> = BTreeMap::new();
    let mut fitting: Vec<(&Node, &NodeInfo)> = Vec::new();
    let enough = enough(count, has_neighbours(pod));
    let begin = last.clone();
    for (node, node_info) in snapshot.nodes.all_after(&begin) {
        if fitting.len() == enough {
            if let Some((node, _)) = fitting.last() {
                node.metadata
                    .name
                    .as_deref()
                    .unwrap_or_default()
                    .clone_into(last);
            }
            break;
        }
        match filter(&cycle, node, node_info) {
            None => fitting.push((node, node_info)),
            Some(status) => {
                drop(statuses.insert(node.metadata.name.clone().unwrap_or_default(), status))
            }
        }
    }
    if let Some(node) = scores::best(&cycle, &fitting) {
        return Decision::Bind(node);
    }
    let reasons = statuses
        .values()
        .flat_map(|status| status.reasons.iter().map(String::as_str));
    let first = messages::of_nodes(count, reasons);
    match preemption::choose(&mut cycle, &statuses, budgets) {
        Ok(preemption) => Decision::Preempt(preemption, first),
        Err(why) => Decision::Wait(messages::all(&first, &why)),
    }
}

#[cfg(test)]
mod tests;
