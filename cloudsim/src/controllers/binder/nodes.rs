//! The nodes and the pods that are on them, kept up to date by what the watches tell and by what the binder itself decides. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kubeapi::resources::{Amounts, amounts, requests_of};

use crate::controllers::workloads::pods::is_finished;

/// A node, and what is on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// The node, when there is one: pods may be bound to what was deleted.
    node: Option<Arc<Node>>,
    /// By uid: those that have not ended.
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    /// What they ask for together.
    pub(super) used: Amounts,
    /// What pods may use in all; nothing is known of a resource that is not in it.
    pub(super) allocatable: Option<Amounts>,
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    places: BTreeMap<String, Place>,
    /// The node of each pod, by uid.
    node_of: HashMap<String, String>,
    /// How many pods keep others away from them.
    repelling: usize,
}

/// The node of a pod, if it has one.
pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Whether the pod has a required anti-affinity.
pub(super) fn repels(pod: &Pod) -> bool {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.pod_anti_affinity.as_ref());
    affinity.is_some_and(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
            .is_some_and(|terms| !terms.is_empty())
    })
}

impl Nodes {
    /// The nodes that are there, by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Arc<Node>, &Place)> + Clone {
        self.places.values().filter_map(|place| Some((place.node.as_ref()?, place)))
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.all().count()
    }

    /// One of them.
    pub(super) fn get(&self, name: &str) -> Option<(&Arc<Node>, &Place)> {
        let place = self.places.get(name)?;
        Some((place.node.as_ref()?, place))
    }

    /// Whether any pod keeps others away from it.
    pub(super) fn has_repelling(&self) -> bool {
        self.repelling > 0
    }

    /// A node as it is now.
    pub(super) fn set_node(&mut self, node: Arc<Node>) {
        let place = self.places.entry(node.name_any()).or_default();
        place.allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref()).map(amounts);
        place.node = Some(node);
    }

    /// A node that is no more.
    pub(super) fn remove_node(&mut self, name: &str) {
        if let Some(place) = self.places.get_mut(name) {
            place.node = None;
            if place.pods.is_empty() {
                self.places.remove(name);
            }
        }
    }

    /// A pod as it is now. One that ended takes nothing.
    pub(super) fn set_pod(&mut self, pod: &Arc<Pod>) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.remove_pod(&uid);
        let Some(name) = node_of(pod).filter(|_| !is_finished(pod)) else { return };
        let place = self.places.entry(name.to_owned()).or_default();
        add(&mut place.used, &requests_of(pod), 1);
        self.repelling += usize::from(repels(pod));
        place.pods.insert(uid.clone(), Arc::clone(pod));
        self.node_of.insert(uid, name.to_owned());
    }

    /// A pod that is no more.
    pub(super) fn remove_pod(&mut self, uid: &str) {
        let Some(name) = self.node_of.remove(uid) else { return };
        let Some(place) = self.places.get_mut(&name) else { return };
        if let Some(pod) = place.pods.remove(uid) {
            add(&mut place.used, &requests_of(&pod), -1);
            self.repelling -= usize::from(repels(&pod));
        }
        if place.node.is_none() && place.pods.is_empty() {
            self.places.remove(&name);
        }
    }

    /// Whether the pod has its node here.
    pub(super) fn has_pod(&self, uid: &str) -> bool {
        self.node_of.contains_key(uid)
    }
}

/// Adds `times` as much.
pub(super) fn add(into: &mut Amounts, more: &Amounts, times: i64) {
    for (name, amount) in more {
        let sum = into.entry(name.clone()).or_default();
        *sum = sum.saturating_add(amount.saturating_mul(times));
    }
}
