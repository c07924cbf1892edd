//! The state of the cluster while one pod is scheduled. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kube::ResourceExt;
use kubeapi::object::resources::{Amounts, requests_of};

use super::{
    nodes::{NodeInfo, Nodes, add, has_pod_affinity},
    storage::Storage,
};

/// The state besides the pod.
#[derive(Clone, Copy)]
pub(super) struct Snapshot<'a> {
    /// Nodes with their pods.
    pub(super) nodes: &'a Nodes,
    /// Claims, volumes and classes.
    pub(super) storage: &'a Storage,
    /// Returns the labels of a namespace.
    pub(super) namespaces: &'a dyn Fn(&str) -> BTreeMap<String, String>,
    /// Pods that are nominated to a node.
    pub(super) nominated: &'a [Arc<Pod>],
}

/// The snapshot for one pod, possibly without pods that would be preempted.
pub(super) struct PodView<'a> {
    /// The pod.
    pub(super) pod: &'a Pod,
    /// The pod's specification.
    pub(super) spec: &'a PodSpec,
    /// The state besides the pod.
    pub(super) snapshot: Snapshot<'a>,
    /// Uids of pods that are treated as deleted.
    pub(super) hidden: BTreeSet<String>,
}

/// Returns the pod's priority.
pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.priority)
        .unwrap_or_default()
}

impl PodView<'_> {
    /// Returns the pods on a node, including nominated ones of at least the same priority.
    pub(super) fn pods_on<'b>(
        &'b self,
        node: &'b Node,
        node_info: &'b NodeInfo,
    ) -> impl Iterator<Item = &'b Arc<Pod>> {
        let there = node_info
            .pods
            .iter()
            .filter(|(uid, _)| !self.hidden.contains(*uid))
            .map(|(_, pod)| pod);
        there.chain(self.nominated_to(node))
    }

    /// Returns the nodes whose pods count for terms about other pods: all if this pod has such terms, and otherwise those with pods that
    /// have some.
    pub(super) fn nodes_for_terms(
        &self,
        has_terms: bool,
    ) -> Box<dyn Iterator<Item = (&Arc<Node>, &NodeInfo)> + '_> {
        let Snapshot {
            nodes, nominated, ..
        } = self.snapshot;
        if has_terms || nominated.iter().any(|pod| has_pod_affinity(pod)) {
            return Box::new(nodes.all());
        }
        Box::new(nodes.with_affinity())
    }

    fn nominated_to<'b>(&'b self, node: &'b Node) -> impl Iterator<Item = &'b Arc<Pod>> {
        let name = node.metadata.name.as_deref();
        self.snapshot.nominated.iter().filter(move |other| {
            let nominated = other
                .status
                .as_ref()
                .and_then(|status| status.nominated_node_name.as_deref());
            nominated == name
                && other.metadata.uid != self.pod.metadata.uid
                && priority(other) >= priority(self.pod)
        })
    }

    /// Returns the sum of requests on a node, and the number of pods.
    pub(super) fn used_amounts(&self, node: &Node, node_info: &NodeInfo) -> (Amounts, usize) {
        let mut used = node_info.used.clone();
        let mut count = node_info.pods.len();
        for uid in &self.hidden {
            if let Some(pod) = node_info.pods.get(uid) {
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

    /// Returns the pod's namespace.
    pub(super) fn namespace(&self) -> String {
        self.pod.namespace().unwrap_or_default()
    }
}
