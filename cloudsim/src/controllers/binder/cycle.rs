//! One pod and everything that there is, while it is decided where the pod goes. Pure.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kube::ResourceExt;
use kubeapi::resources::{Amounts, requests_of};

use super::{
    nodes::{Nodes, Place, add},
    pod_affinity::Neighbours,
    spread::Spread,
    storage::{Storage, Volumes},
};

/// What is known beside the pod.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) storage: &'a Storage,
    /// The labels of namespaces.
    pub(super) namespaces: &'a dyn Fn(&str) -> std::collections::BTreeMap<String, String>,
    /// Pods that wait for room on the node that they are nominated to.
    pub(super) nominated: &'a [Arc<Pod>],
}

/// Why a node does not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reasons: Vec<String>,
    /// Whether the node would do if pods went away from it.
    pub(super) is_resolvable: bool,
}

impl Refusal {
    /// Room is missing.
    pub(super) fn of_room(reason: impl Into<String>) -> Self {
        Self { reasons: vec![reason.into()], is_resolvable: true }
    }

    /// It is another node than the pod wants.
    pub(super) fn of_node(reason: impl Into<String>) -> Self {
        Self { reasons: vec![reason.into()], is_resolvable: false }
    }
}

/// What is asked of every node.
pub(super) struct Cycle<'a> {
    pub(super) pod: &'a Pod,
    pub(super) spec: &'a PodSpec,
    pub(super) known: Known<'a>,
    pub(super) requests: Amounts,
    pub(super) volumes: Volumes,
    pub(super) spread: Spread,
    pub(super) neighbours: Neighbours,
    /// Uids of pods that are looked at as if they were gone.
    hidden: BTreeSet<String>,
}

/// The pod's priority.
pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}

impl<'a> Cycle<'a> {
    /// Looks at everything once; an error is why no node can do.
    pub(super) fn new(pod: &'a Pod, spec: &'a PodSpec, known: Known<'a>) -> Result<Self, String> {
        let volumes = known.storage.volumes(pod, spec)?;
        let (spread, neighbours) = (Spread::default(), Neighbours::default());
        let requests = requests_of(pod);
        let hidden = BTreeSet::new();
        let mut cycle = Self { pod, spec, known, requests, volumes, spread, neighbours, hidden };
        cycle.count();
        Ok(cycle)
    }

    /// The same as if these pods were gone.
    pub(super) fn hide(&mut self, uids: BTreeSet<String>) {
        self.hidden = uids;
        self.count();
    }

    fn count(&mut self) {
        self.spread = Spread::count(self);
        self.neighbours = Neighbours::count(self);
    }

    /// The pods on a node, those that are nominated to it and go before this one included.
    pub(super) fn pods_on<'b>(
        &'b self,
        node: &'b Node,
        place: &'b Place,
    ) -> impl Iterator<Item = &'b Arc<Pod>> {
        let there = place.pods.iter().filter(|(uid, _)| !self.hidden.contains(*uid)).map(|(_, pod)| pod);
        there.chain(self.nominated_to(node))
    }

    fn nominated_to<'b>(&'b self, node: &'b Node) -> impl Iterator<Item = &'b Arc<Pod>> {
        let name = node.metadata.name.as_deref();
        self.known.nominated.iter().filter(move |other| {
            let nominated = other.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
            nominated == name
                && other.metadata.uid != self.pod.metadata.uid
                && priority(other) >= priority(self.pod)
        })
    }

    /// What the pods on a node ask for together, and how many they are.
    pub(super) fn used(&self, node: &Node, place: &Place) -> (Amounts, usize) {
        let mut used = place.used.clone();
        let mut count = place.pods.len();
        for uid in &self.hidden {
            if let Some(pod) = place.pods.get(uid) {
                add(&mut used, &requests_of(pod), -1);
                count -= 1;
            }
        }
        for pod in self.nominated_to(node) {
            add(&mut used, &requests_of(pod), 1);
            count += 1;
        }
        (used, count)
    }

    /// The pod's namespace.
    pub(super) fn namespace(&self) -> String {
        self.pod.namespace().unwrap_or_default()
    }
}
