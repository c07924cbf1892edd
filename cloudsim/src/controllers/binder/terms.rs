//! Selectors of pods, as affinities and spreads have them. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Pod, PodAffinityTerm},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

/// Which pods: by labels, and the namespaces that they are in.
#[derive(Clone, Debug)]
pub(super) struct Term {
    selector: Option<Selector>,
    namespaces: Vec<String>,
    /// Namespaces by their labels, besides.
    of_namespaces: Option<Selector>,
    /// The label whose value says what is near.
    pub(super) key: String,
}

/// The selector, in which the values of these keys are those of `pod`.
pub(super) fn selector(
    selector: Option<&LabelSelector>,
    same: Option<&Vec<String>>,
    pod: &Pod,
) -> Option<Selector> {
    let mut selector = selector?.clone();
    for key in same.into_iter().flatten() {
        if let Some(value) = pod.labels().get(key) {
            selector.match_labels.get_or_insert_default().insert(key.clone(), value.clone());
        }
    }
    // what cannot be read selects nothing
    Selector::try_from(selector).ok()
}

impl Term {
    /// A term of this pod's affinity.
    pub(super) fn of(term: &PodAffinityTerm, pod: &Pod) -> Self {
        let mut namespaces = term.namespaces.clone().unwrap_or_default();
        let of_namespaces = term.namespace_selector.clone().and_then(|one| Selector::try_from(one).ok());
        if namespaces.is_empty() && of_namespaces.is_none() {
            namespaces.extend(pod.namespace());
        }
        let selector = selector(term.label_selector.as_ref(), term.match_label_keys.as_ref(), pod);
        Self { selector, namespaces, of_namespaces, key: term.topology_key.clone() }
    }

    /// Whether the term is about the pod.
    pub(super) fn matches(&self, pod: &Pod, labels_of: &dyn Fn(&str) -> BTreeMap<String, String>) -> bool {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let is_there = self.namespaces.iter().any(|own| own == namespace)
            || self.of_namespaces.as_ref().is_some_and(|selector| selector.matches(&labels_of(namespace)));
        is_there && self.selector.as_ref().is_some_and(|selector| selector.matches(pod.labels()))
    }
}
