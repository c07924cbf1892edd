//! Plans the pods of a daemon set to create and delete. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Node, Pod},
};
use kube::ResourceExt;

use super::{
    placement::{node_of, should_run},
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
    let mut by_node: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        by_node.entry(node_of(pod).unwrap_or_default()).or_default().push(pod);
    }
    let mut running = Vec::new();
    let mut surge = Surge::of(set, revision, nodes, now);
    for node in nodes {
        let name = node.name_any();
        let here = by_node.remove(name.as_str()).unwrap_or_default();
        if !should_run(set, node) {
            plan.delete
                .extend(here.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).cloned());
            continue;
        }
        let (ending, mut kept): (Vec<_>, Vec<_>) =
            here.into_iter().partition(|pod| pod.metadata.deletion_timestamp.is_some());
        let finished: Vec<_> = kept.extract_if(.., |pod| is_finished(pod)).cloned().collect();
        plan.delete.extend(finished);
        kept.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
        if let Some(surge) = surge.as_mut().filter(|_| !kept.is_empty()) {
            surge.plan_node(&kept, ending.is_empty().then_some(name), (&mut plan.delete, &mut plan.create));
            continue;
        }
        plan.delete.extend(kept.iter().skip(1).map(|pod| Arc::clone(pod)));
        match kept.first() {
            Some(pod) => running.push(Arc::clone(pod)),
            // the next one is created when this one is gone
            None if ending.is_empty() => plan.create.push(name),
            None => {}
        }
    }
    match surge {
        Some(surge) => plan.create.extend(surge.next()),
        None => {
            plan.delete.extend(outdated(set, revision, &running, plan.create.len(), nodes.len(), now));
        }
    }
    plan
}

/// Returns the pods of old revisions to delete now: as many as may be unavailable, and those that are not available anyway.
fn outdated(
    set: &DaemonSet,
    revision: &str,
    running: &[Arc<Pod>],
    missing: usize,
    nodes: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    let Some(spec) = &set.spec else { return Vec::new() };
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    if strategy.type_.as_deref() == Some("OnDelete") {
        return Vec::new();
    }
    let min_ready = spec.min_ready_seconds.unwrap_or_default();
    let rolling = strategy.rolling_update.unwrap_or_default();
    let wanted = i32::try_from(nodes).unwrap_or(i32::MAX);
    let allowed =
        rolling.max_unavailable.as_ref().map_or(1, |value| amount(Some(value), wanted, true)).max(1);
    let is_old = |pod: &&Arc<Pod>| pod.labels().get(hash::REVISION).is_none_or(|own| own != revision);
    let works = |pod: &&Arc<Pod>| is_available(pod, min_ready, now);
    let unavailable = running.iter().filter(|pod| !works(pod)).count() + missing;
    let room = usize::try_from(allowed).unwrap_or_default().saturating_sub(unavailable);
    let broken = running.iter().filter(is_old).filter(|pod| !works(pod));
    let rest = running.iter().filter(is_old).filter(works).take(room);
    broken.chain(rest).cloned().collect()
}

#[cfg(test)]
mod tests;
