//! The scheduler's messages about unschedulable pods. Pure.

use std::collections::BTreeMap;

/// The longest message of an event.
const MAX_MESSAGE: usize = 1024;

/// Counts the nodes' reasons: `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`
pub(super) fn of_nodes<'a>(count: usize, reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut texts: Vec<String> = counts
        .into_iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    // sorted as texts: ten comes before two
    texts.sort();
    if texts.is_empty() {
        return format!("0/{count} nodes are available.");
    }
    format!("0/{count} nodes are available: {}.", texts.join(", "))
}

/// Builds the message when a reason concerns the pod on all nodes.
pub(super) fn of_pod(count: usize, reason: &str) -> String {
    format!("0/{count} nodes are available: {reason}.")
}

/// Joins the reason of the nodes with that of the preemption.
pub(super) fn all(first: &str, preemption: &str) -> String {
    let mut text = format!("{first} preemption: {preemption}");
    if text.len() > MAX_MESSAGE {
        const MORE: &str = " ...";
        let mut end = MAX_MESSAGE - MORE.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(MORE);
    }
    text
}
