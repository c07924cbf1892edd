//! Required affinity and anti-affinity between pods: the filter `InterPodAffinity`. Pure.

use clock::{HashMap, HashSet};

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm};
use kube::ResourceExt;

use super::{nodes::has_anti_affinity, snapshot::PodView, status::Status, terms::Term};

/// A topology domain: a label of nodes and its value.
type Domain = (String, String);

/// The domains of the pods that the pod's affinity concerns, and of those whose anti-affinity concerns the pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    /// The pod's affinity and anti-affinity terms.
    near: Vec<Term>,
    far: Vec<Term>,
    /// Domains with pods that match all affinity terms; with the index of the term.
    wanted: HashSet<(usize, Domain)>,
    /// Domains with pods that match an anti-affinity term.
    avoided: HashSet<Domain>,
    /// Domains with pods whose anti-affinity matches this pod.
    repelling: HashSet<Domain>,
    /// Whether the pod matches its own affinity terms: the first such pod may be anywhere.
    is_one_of_them: bool,
}

fn terms(terms: Option<&Vec<PodAffinityTerm>>, pod: &Pod) -> Vec<Term> {
    terms
        .into_iter()
        .flatten()
        .map(|term| Term::of(term, pod))
        .collect()
}

fn far_terms(pod: &Pod) -> Vec<Term> {
    let affinity = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.affinity.as_ref()?.pod_anti_affinity.as_ref());
    terms(
        affinity.and_then(|one| {
            one.required_during_scheduling_ignored_during_execution
                .as_ref()
        }),
        pod,
    )
}

fn domain(node: &Node, key: &str) -> Option<Domain> {
    node.labels()
        .get(key)
        .map(|value| (key.to_owned(), value.clone()))
}

impl Neighbours {
    /// Counts over all pods, if any term requires it.
    pub(super) fn count(view: &PodView<'_>) -> Self {
        let pod = view.pod;
        let affinity = view
            .spec
            .affinity
            .as_ref()
            .and_then(|affinity| affinity.pod_affinity.as_ref());
        let near = affinity.and_then(|one| {
            one.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        let mut found = Self {
            near: terms(near, pod),
            far: far_terms(pod),
            ..Self::default()
        };
        let labels_of = view.snapshot.namespaces;
        found.is_one_of_them = found.near.iter().all(|term| term.matches(pod, labels_of));
        let has_terms = !found.near.is_empty() || !found.far.is_empty();
        for (node, node_info) in view.nodes_for_terms(has_terms) {
            for other in view.pods_on(node, node_info) {
                if !found.near.is_empty()
                    && found.near.iter().all(|term| term.matches(other, labels_of))
                {
                    let domains = found
                        .near
                        .iter()
                        .map(|term| domain(node, &term.key))
                        .enumerate();
                    found
                        .wanted
                        .extend(domains.filter_map(|(at, domain)| Some((at, domain?))));
                }
                let far = found
                    .far
                    .iter()
                    .filter(|term| term.matches(other, labels_of));
                found
                    .avoided
                    .extend(far.filter_map(|term| domain(node, &term.key)));
                if has_anti_affinity(other) {
                    let own = far_terms(other);
                    let away = own.iter().filter(|term| term.matches(pod, labels_of));
                    found
                        .repelling
                        .extend(away.filter_map(|term| domain(node, &term.key)));
                }
            }
        }
        found
    }

    /// Returns why the pod does not fit on the node; `None` if it does.
    pub(super) fn filter(&self, node: &Node) -> Option<Status> {
        let labels: HashMap<_, _> = node.labels().iter().collect();
        let is_first = self.wanted.is_empty() && self.is_one_of_them;
        let is_near = self.near.iter().enumerate().all(|(at, term)| {
            domain(node, &term.key)
                .is_some_and(|domain| is_first || self.wanted.contains(&(at, domain)))
        });
        if !is_near {
            return Some(Status::unresolvable(
                "node(s) didn't match pod affinity rules",
            ));
        }
        let is_in = |domain: &Domain| labels.get(&domain.0) == Some(&&domain.1);
        if self.avoided.iter().any(is_in) {
            return Some(Status::unschedulable(
                "node(s) didn't match pod anti-affinity rules",
            ));
        }
        self.repelling.iter().any(is_in).then(|| {
            Status::unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
        })
    }
}
