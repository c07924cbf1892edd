//! The nodes with their pods, updated by the watches and by the scheduler's own decisions. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use clock::HashMap;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kubeapi::object::resources::{Amounts, amounts, requests_of};

use crate::controllers::workloads::pods::is_finished;

/// A node with its pods; kube-scheduler's `NodeInfo`.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeInfo {
    /// The node; `None` if pods are bound to a node that does not exist.
    node: Option<Arc<Node>>,
    /// Pods that have not ended, by uid.
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    /// The sum of the pods' requests.
    pub(super) used: Amounts,
    /// The allocatable resources; a resource that is missing here is not known.
    pub(super) allocatable: Option<Amounts>,
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    node_infos: BTreeMap<String, NodeInfo>,
    /// The node of each pod, by the pod's uid.
    node_of: HashMap<String, String>,
    /// The names of nodes with pods that have an affinity or anti-affinity to other pods.
    with_affinity: BTreeSet<String>,
}

/// Returns the node of a pod, if it has one.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec
        .as_ref()?
        .node_name
        .as_deref()
        .filter(|name| !name.is_empty())
}

/// Reports whether the pod has a required anti-affinity.
pub(super) fn has_anti_affinity(pod: &Pod) -> bool {
    let affinity = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.affinity.as_ref()?.pod_anti_affinity.as_ref());
    affinity.is_some_and(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
            .is_some_and(|terms| !terms.is_empty())
    })
}

/// Reports whether the pod has an affinity or anti-affinity to other pods, required or preferred.
pub(super) fn has_pod_affinity(pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    affinity.is_some_and(|affinity| {
        affinity.pod_affinity.is_some() || affinity.pod_anti_affinity.is_some()
    })
}

impl Nodes {
    /// Returns the existing nodes by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<Node>, &NodeInfo)> + Clone {
        self.node_infos
            .values()
            .filter_map(|node_info| Some((node_info.node.as_ref()?, node_info)))
    }

    /// Returns all existing nodes in their order, beginning after the one of this name.
    pub(super) fn all_after(
        &self,
        name: &str,
    ) -> impl Iterator<Item = (&Arc<Node>, &NodeInfo)> + Clone {
        let later = (Bound::Excluded(name), Bound::Unbounded);
        let later = self.node_infos.range::<str, _>(later);
        let earlier = (Bound::Unbounded, Bound::Included(name));
        let earlier = self.node_infos.range::<str, _>(earlier);
        let all = later.chain(earlier);
        all.filter_map(|(_, node_info)| Some((node_info.node.as_ref()?, node_info)))
    }

    /// Returns the number of existing nodes.
    pub(super) fn count(&self) -> usize {
        self.all().count()
    }

    /// Returns an existing node.
    pub(super) fn get(&self, name: &str) -> Option<(&Arc<Node>, &NodeInfo)> {
        let node_info = self.node_infos.get(name)?;
        Some((node_info.node.as_ref()?, node_info))
    }

    /// Returns the existing nodes with pods that have an affinity or anti-affinity to other pods.
    pub(super) fn with_affinity(&self) -> impl Iterator<Item = (&Arc<Node>, &NodeInfo)> {
        self.with_affinity.iter().filter_map(|name| self.get(name))
    }

    /// Adds or updates a node.
    pub(super) fn set_node(&mut self, node: Arc<Node>) {
        let node_info = self.node_infos.entry(node.name_any()).or_default();
        node_info.allocatable = node
            .status
            .as_ref()
            .and_then(|status| status.allocatable.as_ref())
            .map(amounts);
        node_info.node = Some(node);
    }

    /// Removes a node.
    pub(super) fn remove_node(&mut self, name: &str) {
        if let Some(node_info) = self.node_infos.get_mut(name) {
            node_info.node = None;
            if node_info.pods.is_empty() {
                self.node_infos.remove(name);
            }
        }
    }

    /// Adds or updates a pod. A pod that has ended uses nothing.
    pub(super) fn set_pod(&mut self, pod: &Arc<Pod>) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.remove_pod(&uid);
        let Some(name) = node_of(pod).filter(|_| !is_finished(pod)) else {
            return;
        };
        let node_info = self.node_infos.entry(name.to_owned()).or_default();
        add(&mut node_info.used, &requests_of(pod), 1);
        if has_pod_affinity(pod) {
            self.with_affinity.insert(name.to_owned());
        }
        node_info.pods.insert(uid.clone(), Arc::clone(pod));
        self.node_of.insert(uid, name.to_owned());
    }

    /// Removes a pod.
    pub(super) fn remove_pod(&mut self, uid: &str) {
        let Some(name) = self.node_of.remove(uid) else {
            return;
        };
        let Some(node_info) = self.node_infos.get_mut(&name) else {
            return;
        };
        if let Some(pod) = node_info.pods.remove(uid) {
            add(&mut node_info.used, &requests_of(&pod), -1);
            let mut others = node_info.pods.values();
            if has_pod_affinity(&pod) && !others.any(|other| has_pod_affinity(other)) {
                self.with_affinity.remove(&name);
            }
        }
        if node_info.node.is_none() && node_info.pods.is_empty() {
            self.node_infos.remove(&name);
        }
    }

    /// Reports whether the pod is on a node.
    pub(super) fn has_pod(&self, uid: &str) -> bool {
        self.node_of.contains_key(uid)
    }
}

/// Adds `more`, multiplied by `times`.
pub(super) fn add(into: &mut Amounts, more: &Amounts, times: i64) {
    for (name, amount) in more {
        let sum = into.entry(name.clone()).or_default();
        *sum = sum.saturating_add(amount.saturating_mul(times));
    }
}
