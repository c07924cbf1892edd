//! Which of the nodes that do is best: kube-scheduler's scores. Pure.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::{cycle_state::CycleState, nodes::Place, preferences};
use crate::controllers::workloads::affinity;

/// What a pod counts for that asks for nothing, so that pods without requests are spread too.
const DEFAULTS: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 << 20)];
const TAINTS: i64 = 3;
const AFFINITY: i64 = 2;
const NEIGHBOURS: i64 = 2;
const SPREAD: i64 = 2;

/// The best of these nodes: by score, then the one with the fewest pods, then by name.
pub(super) fn best(cycle: &CycleState<'_>, nodes: &[(&Node, &Place)]) -> Option<String> {
    let preferences: Vec<_> = nodes.iter().map(|(node, _)| preference(cycle, node)).collect();
    let most = preferences.iter().copied().max().unwrap_or_default();
    let taints: Vec<_> = nodes.iter().map(|(node, _)| soft_taints(cycle, node)).collect();
    let most_taints = taints.iter().copied().max().unwrap_or_default();
    let neighbours = preferences::neighbours(cycle, nodes);
    let spread = preferences::spread(cycle, nodes);
    let images = preferences::images(cycle, nodes);
    let scored = nodes.iter().enumerate().map(|(at, (node, place))| {
        let preferred = if most > 0 { preferences[at] * 100 / most } else { 0 };
        let untainted = if most_taints > 0 { 100 - taints[at] * 100 / most_taints } else { 100 };
        let score = TAINTS * untainted
            + AFFINITY * preferred
            + NEIGHBOURS * neighbours[at]
            + SPREAD * spread[at]
            + images[at]
            + room(cycle, node, place);
        (std::cmp::Reverse(score), place.pods.len(), node.name_any())
    });
    scored.min().map(|(_, _, name)| name)
}

/// `LeastAllocated` and `BalancedAllocation` of CPU and memory.
fn room(cycle: &CycleState<'_>, node: &Node, place: &Place) -> i64 {
    let Some(allocatable) = &place.allocatable else { return 0 };
    let (used, count) = cycle.view.used(node, place);
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let mut shares = Vec::new();
    for (name, default) in DEFAULTS {
        let has = allocatable.get(name).copied().unwrap_or_default();
        if has <= 0 {
            continue;
        }
        let own = cycle.requests.get(name).copied().unwrap_or(default);
        let there = used.get(name).copied().unwrap_or_default().max(count.saturating_mul(default));
        shares.push((there.saturating_add(own)).saturating_mul(100).checked_div(has).unwrap_or(100).min(100));
    }
    let Some(mean) = shares.iter().sum::<i64>().checked_div(i64::try_from(shares.len()).unwrap_or(1)) else {
        return 0;
    };
    let spread = shares.iter().map(|share| (share - mean).abs()).max().unwrap_or_default();
    (100 - mean) + (100 - spread)
}

/// The weights of the preferred terms that the node matches.
fn preference(cycle: &CycleState<'_>, node: &Node) -> i64 {
    let affinity = cycle.view.spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let terms = affinity.and_then(|one| one.preferred_during_scheduling_ignored_during_execution.as_ref());
    let matching = terms.into_iter().flatten().filter(|term| affinity::matches(&term.preference, node));
    matching.map(|term| i64::from(term.weight)).sum()
}

/// How many taints say that the pod should rather be elsewhere.
fn soft_taints(cycle: &CycleState<'_>, node: &Node) -> i64 {
    let tolerations = cycle.view.spec.tolerations.as_deref().unwrap_or_default();
    i64::try_from(affinity::untolerated(tolerations, node, &["PreferNoSchedule"]).count()).unwrap_or(i64::MAX)
}
