//! Chooses pods that make room for a more important one. Pure.
//!
//! Source: kube-scheduler's plugin `DefaultPreemption`.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

use super::{
    cycle_state::CycleState, filters::filter, messages, nodes::NodeInfo, snapshot::priority,
    status::Status,
};

/// The fewest nodes that are considered, and the share of all nodes.
const MIN_CANDIDATES: usize = 100;
const CANDIDATES_SHARE: usize = 10;

/// The node on which room is made, and the pods that are evicted there.
#[derive(Clone, Debug)]
pub(super) struct Preemption {
    pub(super) node: String,
    pub(super) victims: Vec<Arc<Pod>>,
}

struct Candidate {
    preemption: Preemption,
    violations: usize,
}

/// Chooses the pods to evict, or says why none are; `statuses` has each node's rejection.
pub(super) fn choose(
    cycle: &mut CycleState<'_>,
    statuses: &BTreeMap<String, Status>,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Result<Preemption, String> {
    if cycle.view.spec.preemption_policy.as_deref() == Some("Never") {
        return Err("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    if waits_for_victims(cycle) {
        return Err("not eligible due to a terminating pod on the nominated node.".to_owned());
    }
    let all = cycle.view.snapshot.nodes.count();
    let most = (all / CANDIDATES_SHARE).max(MIN_CANDIDATES);
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    for (name, status) in statuses {
        if !status.is_resolvable {
            reasons.push("Preemption is not helpful for scheduling".to_owned());
            continue;
        }
        if candidates.len() >= most {
            break;
        }
        let Some((node, node_info)) = cycle.view.snapshot.nodes.get(name) else {
            continue;
        };
        match on_node(cycle, node, node_info, budgets) {
            Ok(candidate) => candidates.push(candidate),
            Err(more) => reasons.extend(more),
        }
    }
    cycle.hide_pods(BTreeSet::new());
    match candidates.into_iter().min_by_key(cost) {
        Some(best) => Ok(best.preemption),
        None => Err(messages::of_nodes(all, reasons.iter().map(String::as_str))),
    }
}

/// Reports whether room is already being made.
fn waits_for_victims(cycle: &CycleState<'_>) -> bool {
    let nominated = cycle
        .view
        .pod
        .status
        .as_ref()
        .and_then(|status| status.nominated_node_name.as_ref());
    let Some((_, node_info)) = nominated.and_then(|name| cycle.view.snapshot.nodes.get(name))
    else {
        return false;
    };
    let is_ending = |pod: &&Arc<Pod>| {
        pod.metadata.deletion_timestamp.is_some() && priority(pod) < priority(cycle.view.pod)
    };
    node_info.pods.values().any(|pod| is_ending(&pod))
}

fn on_node(
    cycle: &mut CycleState<'_>,
    node: &Node,
    node_info: &NodeInfo,
    budgets: &[Arc<PodDisruptionBudget>],
) -> Result<Candidate, Vec<String>> {
    let lower: Vec<_> = node_info
        .pods
        .values()
        .filter(|pod| priority(pod) < priority(cycle.view.pod))
        .cloned()
        .collect();
    if lower.is_empty() {
        return Err(vec![
            "No preemption victims found for incoming pod".to_owned(),
        ]);
    }
    let uid = |pod: &Arc<Pod>| pod.uid().unwrap_or_default();
    let mut gone: BTreeSet<String> = lower.iter().map(uid).collect();
    cycle.hide_pods(gone.clone());
    if let Some(status) = filter(cycle, node, node_info) {
        return Err(status.reasons);
    }
    // reprieves the most important pods first, and before all those of exhausted budgets
    let violating = violating(&lower, budgets);
    let mut in_order = lower;
    in_order.sort_by_key(|pod| {
        (
            !violating.contains(&uid(pod)),
            Reverse(priority(pod)),
            start_time(pod),
        )
    });
    let mut victims = Vec::new();
    for pod in in_order {
        gone.remove(&uid(&pod));
        cycle.hide_pods(gone.clone());
        if filter(cycle, node, node_info).is_some() {
            gone.insert(uid(&pod));
            victims.push(pod);
        }
    }
    let violations = victims
        .iter()
        .filter(|pod| violating.contains(&uid(pod)))
        .count();
    Ok(Candidate {
        preemption: Preemption {
            node: node.name_any(),
            victims,
        },
        violations,
    })
}

fn start_time(pod: &Pod) -> Option<Timestamp> {
    pod.status
        .as_ref()
        .and_then(|status| status.start_time.as_ref())
        .map(|time| time.0)
}

/// Returns the uids of pods whose eviction would exceed a disruption budget.
fn violating(pods: &[Arc<Pod>], budgets: &[Arc<PodDisruptionBudget>]) -> BTreeSet<String> {
    let mut left: Vec<_> = budgets
        .iter()
        .map(|budget| {
            budget
                .status
                .as_ref()
                .map(|status| status.disruptions_allowed)
                .unwrap_or_default()
        })
        .collect();
    let mut violating = BTreeSet::new();
    let mut in_order: Vec<_> = pods.iter().collect();
    in_order.sort_by_key(|pod| (Reverse(priority(pod)), start_time(pod)));
    for pod in in_order {
        for (budget, left) in budgets.iter().zip(&mut left) {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
            let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
            let is_about = budget.metadata.namespace == pod.metadata.namespace
                && selector.is_some_and(|selector| selector.matches(pod.labels()));
            if is_about {
                *left -= 1;
                if *left < 0 {
                    violating.extend(pod.uid());
                }
            }
        }
    }
    violating
}

/// The cost of a candidate, in order: violated budgets, highest priority, sum of priorities, number of pods, latest start.
fn cost(candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<Option<Timestamp>>, String) {
    let victims = &candidate.preemption.victims;
    let top = victims
        .iter()
        .map(|pod| priority(pod))
        .max()
        .unwrap_or(i32::MIN);
    // negative priorities count too
    let sum = victims
        .iter()
        .map(|pod| i64::from(priority(pod)) + i64::from(i32::MAX) + 1)
        .sum();
    let latest = victims
        .iter()
        .filter(|pod| priority(pod) == top)
        .filter_map(|pod| start_time(pod))
        .min();
    (
        candidate.violations,
        top,
        sum,
        victims.len(),
        Reverse(latest),
        candidate.preemption.node.clone(),
    )
}
