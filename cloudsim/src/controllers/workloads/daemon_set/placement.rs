//! The nodes of a daemon set's pods, and the pods for them. Pure.

use std::sync::Arc;

use clock::HashMap;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{
        Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
        PodSpec, Toleration,
    },
};
use kube::ResourceExt;

use crate::controllers::{
    informers::Change,
    workloads::{affinity, hash, pods::from_template},
};

/// Reports whether a change of a node may change placements: heartbeats do not.
pub(super) fn concerns_daemons(change: &Change<Node>) -> bool {
    let placement = |node: &Node| {
        (
            node.metadata.labels.clone(),
            node.spec.clone().and_then(|spec| spec.taints),
        )
    };
    change.gone
        || change
            .before
            .as_ref()
            .is_none_or(|before| placement(before) != placement(&change.object))
}

/// Returns the node of a pod, or the one to which its affinity binds it.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.as_deref().filter(|name| !name.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let terms = &affinity
        .required_during_scheduling_ignored_during_execution
        .as_ref()?
        .node_selector_terms;
    let field = terms.first()?.match_fields.as_ref()?.first()?;
    field.values.as_ref()?.first().map(String::as_str)
}

/// Returns the pods of each node.
pub(super) fn by_node(pods: &[Arc<Pod>]) -> HashMap<&str, Vec<&Arc<Pod>>> {
    let mut by_node: HashMap<&str, Vec<&Arc<Pod>>> = HashMap::default();
    for pod in pods {
        let node = node_of(pod).unwrap_or_default();
        by_node.entry(node).or_default().push(pod);
    }
    by_node
}

/// What decides about the nodes of a set, computed once for all nodes.
pub(super) struct Placement<'a> {
    /// `None`: it runs nowhere.
    spec: Option<&'a PodSpec>,
    tolerations: Vec<Toleration>,
}

impl<'a> Placement<'a> {
    /// Returns what decides about the nodes of this set.
    pub(super) fn of(set: &'a DaemonSet) -> Self {
        let spec = set.spec.as_ref();
        let spec = spec.and_then(|spec| spec.template.spec.as_ref());
        let tolerations = spec.map(tolerations).unwrap_or_default();
        Self { spec, tolerations }
    }

    /// Reports whether the node should run the set's pod.
    pub(super) fn should_run(&self, node: &Node) -> bool {
        let Some(spec) = self.spec else { return false };
        let only = spec.node_name.as_deref().filter(|name| !name.is_empty());
        only.is_none_or(|name| node.metadata.name.as_deref() == Some(name))
            && affinity::matches_node(spec, node)
            && affinity::untolerated_taints(&self.tolerations, node, &["NoSchedule", "NoExecute"])
                .next()
                .is_none()
    }
}

/// Returns the template's tolerations and those of all daemon pods, which stay whatever happens to their node.
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
    // pods on an unreachable node are not misplaced
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

/// Builds the set's pod for a node.
pub(super) fn pod(set: &DaemonSet, revision: &str, node: &str) -> Pod {
    let template = set
        .spec
        .as_ref()
        .map(|spec| spec.template.clone())
        .unwrap_or_default();
    let mut pod = from_template(&template, set);
    pod.labels_mut()
        .insert(hash::REVISION.into(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.tolerations = Some(tolerations(spec));
    // bound at once; the affinity is for clients that look for it
    spec.node_name = Some(node.to_owned());
    let field = NodeSelectorRequirement {
        key: "metadata.name".into(),
        operator: "In".into(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let affinity: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    let term = NodeSelectorTerm {
        match_fields: Some(vec![field]),
        ..NodeSelectorTerm::default()
    };
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![term],
    });
    pod
}
