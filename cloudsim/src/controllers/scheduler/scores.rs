//! kube-scheduler's scores: which of the nodes that fit is best. Pure.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::{cycle_state::CycleState, nodes::NodeInfo, preferences};
use crate::controllers::workloads::affinity;

/// The assumed requests of a pod without requests, so that such pods are spread too.
const DEFAULT_REQUESTS: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 << 20)];
const TAINTS: i64 = 3;
const AFFINITY: i64 = 2;
const NEIGHBOURS: i64 = 2;
const SPREAD: i64 = 2;

/// Returns the best node: by score, then by the fewest pods, then by name.
pub(super) fn best(cycle: &CycleState<'_>, nodes: &[(&Node, &NodeInfo)]) -> Option<String> {
    let preferences: Vec<_> = nodes
        .iter()
        .map(|(node, _)| preference(cycle, node))
        .collect();
    let most = preferences.iter().copied().max().unwrap_or_default();
    let taints: Vec<_> = nodes
        .iter()
        .map(|(node, _)| soft_taints(cycle, node))
        .collect();
    let most_taints = taints.iter().copied().max().unwrap_or_default();
    let neighbours = preferences::neighbours(cycle, nodes);
    let spread = preferences::score_spread(cycle, nodes);
    let images = preferences::images(cycle, nodes);
    let scored = nodes.iter().enumerate().map(|(at, (node, node_info))| {
        let preferred = if most > 0 {
            preferences[at] * 100 / most
        } else {
            0
        };
        let untainted = if most_taints > 0 {
            100 - taints[at] * 100 / most_taints
        } else {
            100
        };
        let score = TAINTS * untainted
            + AFFINITY * preferred
            + NEIGHBOURS * neighbours[at]
            + SPREAD * spread[at]
            + images[at]
            + room(cycle, node, node_info);
        (
            std::cmp::Reverse(score),
            node_info.pods.len(),
            node.name_any(),
        )
    });
    scored.min().map(|(_, _, name)| name)
}

/// Scores `LeastAllocated` and `BalancedAllocation` of CPU and memory.
fn room(cycle: &CycleState<'_>, node: &Node, node_info: &NodeInfo) -> i64 {
    let Some(allocatable) = &node_info.allocatable else {
        return 0;
    };
    let (used, count) = cycle.view.used_amounts(node, node_info);
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let mut shares = Vec::new();
    for (name, default) in DEFAULT_REQUESTS {
        let has = allocatable.get(name).copied().unwrap_or_default();
        if has <= 0 {
            continue;
        }
        let own = cycle.requests.get(name).copied().unwrap_or(default);
        let there = used
            .get(name)
            .copied()
            .unwrap_or_default()
            .max(count.saturating_mul(default));
        shares.push(
            (there.saturating_add(own))
                .saturating_mul(100)
                .checked_div(has)
                .unwrap_or(100)
                .min(100),
        );
    }
    let Some(mean) = shares
        .iter()
        .sum::<i64>()
        .checked_div(i64::try_from(shares.len()).unwrap_or(1))
    else {
        return 0;
    };
    let spread = shares
        .iter()
        .map(|share| (share - mean).abs())
        .max()
        .unwrap_or_default();
    (100 - mean) + (100 - spread)
}

/// Sums the weights of the preferred node affinity terms that match.
fn preference(cycle: &CycleState<'_>, node: &Node) -> i64 {
    let affinity = cycle
        .view
        .spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let terms = affinity.and_then(|one| {
        one.preferred_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let matching = terms
        .into_iter()
        .flatten()
        .filter(|term| affinity::matches(&term.preference, node));
    matching.map(|term| i64::from(term.weight)).sum()
}

/// Counts the untolerated taints with the effect `PreferNoSchedule`.
fn soft_taints(cycle: &CycleState<'_>, node: &Node) -> i64 {
    let tolerations = cycle.view.spec.tolerations.as_deref().unwrap_or_default();
    i64::try_from(affinity::untolerated_taints(tolerations, node, &["PreferNoSchedule"]).count())
        .unwrap_or(i64::MAX)
}
