//! Everything that there is while it is decided where one pod goes, as that pod sees it. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kube::ResourceExt;
use kubeapi::resources::{Amounts, requests_of};

use super::{
    nodes::{Nodes, Place, add},
    storage::Storage,
};

/// What is known beside the pod, as it was when its turn came.
#[derive(Clone, Copy)]
pub(super) struct Snapshot<'a> {
    /// Nodes with their pods.
    pub(super) nodes: &'a Nodes,
    /// Claims, volumes and classes.
    pub(super) storage: &'a Storage,
    /// The labels of namespaces.
    pub(super) namespaces: &'a dyn Fn(&str) -> BTreeMap<String, String>,
    /// Pods that wait for room on the node that they are nominated to.
    pub(super) nominated: &'a [Arc<Pod>],
}

/// The snapshot as one pod sees it, which may leave out pods that would be preempted.
pub(super) struct PodView<'a> {
    /// The pod.
    pub(super) pod: &'a Pod,
    /// Its specification.
    pub(super) spec: &'a PodSpec,
    /// All else.
    pub(super) snapshot: Snapshot<'a>,
    /// Uids of pods that are looked at as if they were gone.
    pub(super) hidden: BTreeSet<String>,
}

/// The pod's priority.
pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or_default()
}

impl PodView<'_> {
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
        self.snapshot.nominated.iter().filter(move |other| {
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
