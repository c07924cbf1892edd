//! Which pods of a daemon set are missing, too many or of an old template. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{
        Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec,
        Toleration,
    },
};
use kube::ResourceExt;

use crate::controllers::{
    informers::Change,
    workloads::{
        affinity,
        deployment::amount,
        hash,
        pods::{from_template, is_available, is_finished},
    },
};

mod surge;

use self::surge::Surge;

/// What to do.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) delete: Vec<Arc<Pod>>,
    /// The nodes that get a pod.
    pub(super) create: Vec<String>,
}

/// Whether a change of a node can change where pods should be: heartbeats cannot.
pub(super) fn concerns_daemons(change: &Change<Node>) -> bool {
    let placement =
        |node: &Node| (node.metadata.labels.clone(), node.spec.clone().and_then(|spec| spec.taints));
    change.gone || change.before.as_ref().is_none_or(|before| placement(before) != placement(&change.object))
}

/// The node of a pod, or the one that it is meant for.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.as_deref().filter(|name| !name.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity.required_during_scheduling_ignored_during_execution.as_ref()?.node_selector_terms;
    let field = terms.first()?.match_fields.as_ref()?.first()?;
    field.values.as_ref()?.first().map(String::as_str)
}

/// Whether the set's pod belongs on the node.
pub(super) fn should_run(set: &DaemonSet, node: &Node) -> bool {
    let Some(spec) = set.spec.as_ref().and_then(|spec| spec.template.spec.clone()) else { return false };
    if spec.node_name.as_ref().is_some_and(|name| !name.is_empty() && *name != node.name_any()) {
        return false;
    }
    let tolerations = tolerations(&spec);
    affinity::wants(&spec, node)
        && affinity::untolerated(&tolerations, node, &["NoSchedule", "NoExecute"]).next().is_none()
}

/// A daemon's pod is to stay whatever happens to its node.
fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let mut tolerations = spec.tolerations.clone().unwrap_or_default();
    let mut always = vec![
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    // a node that is not heard of is no reason to count its pod as wrong
    always.extend([("unreachable", "NoSchedule"), ("not-ready", "NoSchedule")]);
    if spec.host_network == Some(true) {
        always.push(("network-unavailable", "NoSchedule"));
    }
    for (key, effect) in always {
        let toleration = Toleration {
            key: Some(format!("node.kubernetes.io/{key}")),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    tolerations
}

/// The set's pod for a node.
pub(super) fn pod(set: &DaemonSet, revision: &str, node: &str) -> Pod {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut pod = from_template(&template, set);
    pod.labels_mut().insert(hash::REVISION.into(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.tolerations = Some(tolerations(spec));
    // bound at once, as it may be nowhere else; the affinity says so to those who look for it
    spec.node_name = Some(node.to_owned());
    let field = NodeSelectorRequirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    let term = NodeSelectorTerm { match_fields: Some(vec![field]), ..NodeSelectorTerm::default() };
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    pod
}

/// What to do with the set's `pods`, given the nodes; `revision` is the present template's.
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
            surge.look_at(&kept, ending.is_empty().then_some(name), &mut plan);
            continue;
        }
        plan.delete.extend(kept.iter().skip(1).map(|pod| Arc::clone(pod)));
        match kept.first() {
            Some(pod) => running.push(Arc::clone(pod)),
            // the next one begins when this one is gone
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

/// The pods of old templates that may go now: as many as may be missing, and those that do not work anyway.
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
