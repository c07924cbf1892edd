//! Where a pod goes: the filters, then the scores, then preemption. Pure.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};

use super::{
    cycle_state::CycleState,
    filters::filter,
    messages,
    nodes::Place,
    preemption::{self, Preemption},
    scores,
    snapshot::Snapshot,
    status::Status,
};

/// What becomes of a pod.
#[derive(Debug)]
pub(super) enum Decision {
    /// It goes to this node.
    Bind(String),
    /// It waits; the message says why.
    Wait(String),
    /// It waits for pods that make room.
    Preempt(Preemption, String),
}

/// Decides about a pod that wants a node.
pub(super) fn decide(pod: &Pod, snapshot: Snapshot<'_>, budgets: &[Arc<PodDisruptionBudget>]) -> Decision {
    let count = snapshot.nodes.count();
    let Some(spec) = &pod.spec else { return Decision::Wait(String::new()) };
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
    let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    if let Some((node, place)) = nominated.and_then(|name| snapshot.nodes.get(name))
        && filter(&cycle, node, place).is_none()
    {
        return Decision::Bind(node.metadata.name.clone().unwrap_or_default());
    }
    let mut statuses: BTreeMap<String, Status> = BTreeMap::new();
    let mut fitting: Vec<(&Node, &Place)> = Vec::new();
    for (node, place) in snapshot.nodes.all() {
        match filter(&cycle, node, place) {
            None => fitting.push((node, place)),
            Some(status) => drop(statuses.insert(node.metadata.name.clone().unwrap_or_default(), status)),
        }
    }
    if let Some(node) = scores::best(&cycle, &fitting) {
        return Decision::Bind(node);
    }
    let reasons = statuses.values().flat_map(|status| status.reasons.iter().map(String::as_str));
    let first = messages::of_nodes(count, reasons);
    match preemption::choose(&mut cycle, &statuses, budgets) {
        Ok(preemption) => Decision::Preempt(preemption, first),
        Err(why) => Decision::Wait(messages::all(&first, &why)),
    }
}

#[cfg(test)]
mod tests;
