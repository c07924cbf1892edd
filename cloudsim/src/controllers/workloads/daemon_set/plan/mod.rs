//! Plans the pods of a daemon set to create and delete. Pure.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use kube::ResourceExt;

use super::{
    placement::{Placement, by_node},
    surge::Surge,
};
use crate::controllers::workloads::{
    deployment::amount,
    hash,
    pods::{is_available, is_finished},
};

/// The pods to create and delete.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) delete: Vec<Arc<Pod>>,
    /// The nodes that get a pod.
    pub(super) create: Vec<String>,
}

/// Plans for the set's `pods`, given the nodes; `revision` is the present template's.
pub(super) fn plan(
    set: &DaemonSet,
    revision: &str,
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    let (placement, mut by_node) = (Placement::of(set), by_node(pods));
    let min_ready = set
        .spec
        .as_ref()
        .and_then(|spec| spec.min_ready_seconds)
        .unwrap_or_default();
    let works = |pod: &Pod| is_available(pod, min_ready, now);
    // the nodes that should run a pod: each has one that is kept, or none
    let mut kept_pods: Vec<Option<Arc<Pod>>> = Vec::new();
    let mut surge = Surge::of(set, revision, nodes, &placement, now);
    for node in nodes {
        let name = node.name_any();
        let here = by_node.remove(name.as_str()).unwrap_or_default();
        if !placement.should_run(node) {
            plan.delete.extend(
                here.into_iter()
                    .filter(|pod| pod.metadata.deletion_timestamp.is_none())
                    .cloned(),
            );
            continue;
        }
        let (ending, mut kept): (Vec<_>, Vec<_>) = here
            .into_iter()
            .partition(|pod| pod.metadata.deletion_timestamp.is_some());
        let finished: Vec<_> = kept
            .extract_if(.., |pod| is_finished(pod))
            .cloned()
            .collect();
        plan.delete.extend(finished);
        // of several pods an available one is kept, and of these the oldest
        kept.sort_by_key(|pod| (!works(pod), pod.metadata.creation_timestamp.clone()));
        if let Some(surge) = surge.as_mut().filter(|_| !kept.is_empty()) {
            surge.plan_node(
                &kept,
                ending.is_empty().then_some(name),
                &mut plan.delete,
                &mut plan.create,
            );
            continue;
        }
        plan.delete
            .extend(kept.iter().skip(1).map(|pod| Arc::clone(pod)));
        kept_pods.push(kept.first().map(|pod| Arc::clone(pod)));
        // the next one is created when the terminating one is gone
        if kept.is_empty() && ending.is_empty() {
            plan.create.push(name);
        }
    }
    match surge {
        Some(surge) => plan.create.extend(surge.next()),
        None => plan
            .delete
            .extend(outdated_pods(set, revision, &kept_pods, works)),
    }
    plan
}

/// Returns the pods of old revisions to delete now: those that are not available anyway, and as many others as may be unavailable. A node
/// without a pod that is kept is unavailable, whether its pod was never created, is terminating or has failed.
fn outdated_pods(
    set: &DaemonSet,
    revision: &str,
    kept_pods: &[Option<Arc<Pod>>],
    works: impl Fn(&Pod) -> bool,
) -> Vec<Arc<Pod>> {
    let Some(spec) = &set.spec else {
        return Vec::new();
    };
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    if strategy.type_.as_deref() == Some("OnDelete") {
        return Vec::new();
    }
    let rolling = strategy.rolling_update.unwrap_or_default();
    let wanted = i32::try_from(kept_pods.len()).unwrap_or(i32::MAX);
    let allowed = rolling
        .max_unavailable
        .as_ref()
        .map_or(1, |value| amount(Some(value), wanted, true))
        .max(1);
    let (available, broken): (Vec<_>, Vec<_>) =
        kept_pods.iter().flatten().partition(|pod| works(pod));
    let unavailable = kept_pods.len() - available.len();
    let room = usize::try_from(allowed)
        .unwrap_or_default()
        .saturating_sub(unavailable);
    let is_old = |pod: &&Arc<Pod>| {
        pod.labels()
            .get(hash::REVISION)
            .is_none_or(|own| own != revision)
    };
    broken
        .into_iter()
        .filter(is_old)
        .chain(available.into_iter().filter(is_old).take(room))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests;
