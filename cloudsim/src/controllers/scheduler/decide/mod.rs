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
    status::Status,
};

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

/// Decides about a pod that wants a node.
pub(super) fn decide(
    pod: &Pod,
    snapshot: Snapshot<'_>,
    budgets: &[Arc<PodDisruptionBudget>],
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
    let mut statuses: BTreeMap<String, Status> = BTreeMap::new();
    let mut fitting: Vec<(&Node, &NodeInfo)> = Vec::new();
    for (node, node_info) in snapshot.nodes.all() {
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
