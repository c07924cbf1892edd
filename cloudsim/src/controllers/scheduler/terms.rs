//! Pod selectors of affinities and topology spreads. Pure.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Pod, PodAffinityTerm},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

/// Selects pods by labels and namespaces.
#[derive(Clone, Debug)]
pub(super) struct Term {
    selector: Option<Selector>,
    namespaces: Vec<String>,
    /// Selects further namespaces by labels.
    of_namespaces: Option<Selector>,
    /// The topology key.
    pub(super) key: String,
}

/// Converts a selector, with the pod's own values of `matchLabelKeys` and the like.
pub(super) fn selector(
    selector: Option<&LabelSelector>,
    same: Option<&Vec<String>>,
    pod: &Pod,
) -> Option<Selector> {
    let mut selector = selector?.clone();
    for key in same.into_iter().flatten() {
        if let Some(value) = pod.labels().get(key) {
            selector
                .match_labels
                .get_or_insert_default()
                .insert(key.clone(), value.clone());
        }
    }
    // an invalid selector selects nothing
    Selector::try_from(selector).ok()
}

impl Term {
    /// Converts a term of this pod's affinity.
    pub(super) fn of(term: &PodAffinityTerm, pod: &Pod) -> Self {
        let mut namespaces = term.namespaces.clone().unwrap_or_default();
        let of_namespaces = term
            .namespace_selector
            .clone()
            .and_then(|one| Selector::try_from(one).ok());
        if namespaces.is_empty() && of_namespaces.is_none() {
            namespaces.extend(pod.namespace());
        }
        let selector = selector(
            term.label_selector.as_ref(),
            term.match_label_keys.as_ref(),
            pod,
        );
        Self {
            selector,
            namespaces,
            of_namespaces,
            key: term.topology_key.clone(),
        }
    }

    /// Reports whether the term selects the pod.
    pub(super) fn matches(
        &self,
        pod: &Pod,
        labels_of: &dyn Fn(&str) -> BTreeMap<String, String>,
    ) -> bool {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let is_there = self.namespaces.iter().any(|own| own == namespace)
            || self
                .of_namespaces
                .as_ref()
                .is_some_and(|selector| selector.matches(&labels_of(namespace)));
        is_there
            && self
                .selector
                .as_ref()
                .is_some_and(|selector| selector.matches(pod.labels()))
    }
}
