//! Scores by a node's neighbourhood: `InterPodAffinity`, `PodTopologySpread` of soft constraints, and `ImageLocality`. Pure.
//!
//! Source: kube-scheduler's plugins of these names.

use clock::HashMap;
use k8s_openapi::api::core::v1::{Affinity, Node, Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use kube::ResourceExt;

use super::{cycle_state::CycleState, nodes::NodeInfo, terms::Term};

/// The weight of a required term of another pod that matches this pod.
const HARD_POD_AFFINITY_WEIGHT: i64 = 1;
/// Image sizes: smaller ones score 0, and those above the larger threshold, for each container, score the maximum.
const SMALL_IMAGE: i64 = 23 << 20;
const LARGE_IMAGE: i64 = 1000 << 20;

/// A topology domain: a label of nodes and its value.
type Domain = (String, String);

/// Returns the sum of these scores for each node, in order; each plugin gives 0 to 100.
pub(super) fn neighbours(cycle: &CycleState<'_>, nodes: &[(&Node, &NodeInfo)]) -> Vec<i64> {
    let sums = affinity_sums(cycle);
    let raw = nodes.iter().map(|(node, _)| {
        let of_domain = |((key, value), sum): (&Domain, &i64)| {
            if node.labels().get(key) == Some(value) {
                *sum
            } else {
                0
            }
        };
        sums.iter().map(of_domain).sum::<i64>()
    });
    let raw: Vec<i64> = raw.collect();
    let (least, most) = (raw.iter().min().copied(), raw.iter().max().copied());
    let (least, most) = (least.unwrap_or_default(), most.unwrap_or_default());
    let scaled = |score: i64| {
        if most > least {
            100 * (score - least) / (most - least)
        } else {
            0
        }
    };
    raw.into_iter().map(scaled).collect()
}

/// Sums the preferences of the pod about others, and of others about it, by domain.
fn affinity_sums(cycle: &CycleState<'_>) -> HashMap<Domain, i64> {
    let mut sums = HashMap::default();
    let (pod, labels_of) = (cycle.view.pod, cycle.view.snapshot.namespaces);
    let own = preferred_terms(pod);
    for (node, node_info) in cycle.view.nodes_for_terms(!own.is_empty()) {
        for other in cycle.view.pods_on(node, node_info) {
            let mut add = |key: &str, weight: i64| {
                if let Some(value) = node.labels().get(key) {
                    *sums.entry((key.to_owned(), value.clone())).or_default() += weight;
                }
            };
            for (term, weight) in own
                .iter()
                .filter(|(term, _)| term.matches(other, labels_of))
            {
                add(&term.key, *weight);
            }
            let theirs = preferred_terms(other)
                .into_iter()
                .chain(required_terms(other));
            for (term, weight) in theirs.filter(|(term, _)| term.matches(pod, labels_of)) {
                add(&term.key, weight);
            }
        }
    }
    sums
}

fn affinity(pod: &Pod) -> Option<&Affinity> {
    pod.spec.as_ref()?.affinity.as_ref()
}

/// Returns the pod's preferred terms with their weights, which are negative for anti-affinity.
fn preferred_terms(pod: &Pod) -> Vec<(Term, i64)> {
    let Some(affinity) = affinity(pod) else {
        return Vec::new();
    };
    let near = affinity.pod_affinity.as_ref();
    let near = near.and_then(|one| {
        one.preferred_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let far = affinity.pod_anti_affinity.as_ref();
    let far = far.and_then(|one| {
        one.preferred_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let term = |one: &WeightedPodAffinityTerm, sign: i64| {
        (
            Term::of(&one.pod_affinity_term, pod),
            sign * i64::from(one.weight),
        )
    };
    let near = near.into_iter().flatten().map(|one| term(one, 1));
    near.chain(far.into_iter().flatten().map(|one| term(one, -1)))
        .collect()
}

/// Returns the required affinity terms of another pod.
fn required_terms(pod: &Pod) -> Vec<(Term, i64)> {
    let near = affinity(pod).and_then(|affinity| affinity.pod_affinity.as_ref());
    let near = near.and_then(|one| {
        one.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let term = |term: &PodAffinityTerm| (Term::of(term, pod), HARD_POD_AFFINITY_WEIGHT);
    near.into_iter().flatten().map(term).collect()
}

/// Scores soft constraints: fewer matching pods in a node's domains are better. Nodes without the labels get 0.
pub(super) fn score_spread(cycle: &CycleState<'_>, nodes: &[(&Node, &NodeInfo)]) -> Vec<i64> {
    let counted = cycle.spread.soft();
    if counted.is_empty() {
        return vec![0; nodes.len()];
    }
    let raw: Vec<Option<i64>> = nodes
        .iter()
        .map(|(node, _)| {
            let sums = counted
                .iter()
                .map(|one| one.weighted_count(node))
                .collect::<Option<Vec<f64>>>()?;
            // small numbers: rounding does not matter
            #[allow(clippy::cast_possible_truncation)]
            let sum = sums.into_iter().sum::<f64>().round() as i64;
            Some(sum)
        })
        .collect();
    let known = || raw.iter().flatten().copied();
    let (least, most) = (
        known().min().unwrap_or_default(),
        known().max().unwrap_or_default(),
    );
    let scaled = |score: Option<i64>| match score {
        None => 0,
        Some(_) if most == 0 => 100,
        Some(score) => 100 * (most + least - score) / most,
    };
    raw.into_iter().map(scaled).collect()
}

/// Scores images that are present: larger ones, and those on more nodes, are better.
pub(super) fn images(cycle: &CycleState<'_>, nodes: &[(&Node, &NodeInfo)]) -> Vec<i64> {
    let containers = cycle
        .view
        .spec
        .init_containers
        .iter()
        .flatten()
        .chain(&cycle.view.spec.containers);
    let wanted: Vec<String> = containers
        .filter_map(|one| one.image.as_deref())
        .map(complete)
        .collect();
    let sizes: Vec<Vec<Option<i64>>> = nodes
        .iter()
        .map(|(node, _)| wanted.iter().map(|image| size_of(image, node)).collect())
        .collect();
    let having: Vec<i64> = (0..wanted.len())
        .map(|at| sizes.iter().map(|own| i64::from(own[at].is_some())).sum())
        .collect();
    let count = i64::try_from(wanted.len()).unwrap_or(1).max(1);
    let total = i64::try_from(nodes.len()).unwrap_or(1).max(1);
    let score = |own: &Vec<Option<i64>>| {
        let shares = own.iter().zip(&having);
        let shares = shares.filter_map(|(size, having)| Some((*size)? * having / total));
        let most = LARGE_IMAGE * count;
        100 * (shares.sum::<i64>().clamp(SMALL_IMAGE, most) - SMALL_IMAGE) / (most - SMALL_IMAGE)
    };
    sizes.iter().map(score).collect()
}

/// Returns the size of an image on the node; `None` if it is not there.
fn size_of(image: &str, node: &Node) -> Option<i64> {
    let mut images = node
        .status
        .iter()
        .flat_map(|status| status.images.iter().flatten());
    let image = images.find(|one| one.names.iter().flatten().any(|name| name == image))?;
    Some(image.size_bytes.unwrap_or_default())
}

/// Returns the image's name with its tag.
fn complete(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or_default();
    if last.contains([':', '@']) {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}
