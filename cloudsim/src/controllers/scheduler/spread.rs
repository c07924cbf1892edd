//! Topology spread: the filter `PodTopologySpread` for hard constraints, and the counts for the score of soft ones. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, TopologySpreadConstraint};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

use super::{snapshot::PodView, status::Status, terms::selector};
use crate::controllers::workloads::affinity;

/// The number of matching pods in each domain, for each constraint.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    hard: Vec<Counted>,
    soft: Vec<Counted>,
}

#[derive(Clone, Debug)]
pub(super) struct Counted {
    key: String,
    max_skew: i64,
    /// What the pod itself adds to the count.
    own: i64,
    counts: BTreeMap<String, i64>,
    least: i64,
}

impl Spread {
    /// Counts the pods, if the pod has constraints.
    pub(super) fn count(view: &PodView<'_>) -> Self {
        let of = |what: &str| {
            let all = view.spec.topology_spread_constraints.iter().flatten();
            let such: Vec<_> = all.filter(|one| one.when_unsatisfiable == what).collect();
            such.iter()
                .map(|constraint| count_pods(view, constraint, &such))
                .collect()
        };
        Self {
            hard: of("DoNotSchedule"),
            soft: of("ScheduleAnyway"),
        }
    }

    /// Returns the soft constraints (`ScheduleAnyway`).
    pub(super) fn soft(&self) -> &[Counted] {
        &self.soft
    }

    /// Returns why the pod does not fit on the node; `None` if it does.
    pub(super) fn filter(&self, node: &Node) -> Option<Status> {
        const REASON: &str = "node(s) didn't match pod topology spread constraints";
        for one in &self.hard {
            let Some(domain) = node.labels().get(&one.key) else {
                return Some(Status::unresolvable(format!(
                    "{REASON} (missing required label)"
                )));
            };
            let there = one.counts.get(domain).copied().unwrap_or_default();
            if there + one.own - one.least > one.max_skew {
                return Some(Status::unschedulable(REASON));
            }
        }
        None
    }
}

impl Counted {
    /// Returns the weighted number of pods in the node's domain; `None` if the node lacks the label.
    pub(super) fn weighted_count(&self, node: &Node) -> Option<f64> {
        let domain = node.labels().get(&self.key)?;
        let there = self.counts.get(domain).copied().unwrap_or_default();
        // numbers of pods and domains fit into a double
        #[allow(clippy::cast_precision_loss)]
        let (there, domains, skew) = (
            there as f64,
            self.counts.len() as f64,
            (self.max_skew - 1) as f64,
        );
        Some(there * (domains + 2.0).ln() + skew)
    }
}

fn count_pods(
    view: &PodView<'_>,
    constraint: &TopologySpreadConstraint,
    all: &[&TopologySpreadConstraint],
) -> Counted {
    let selector = selector(
        constraint.label_selector.as_ref(),
        constraint.match_label_keys.as_ref(),
        view.pod,
    );
    let matches = |labels: &BTreeMap<String, String>| {
        selector
            .as_ref()
            .is_some_and(|one: &Selector| one.matches(labels))
    };
    let namespace = view.namespace();
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for (node, node_info) in view.snapshot.nodes.all() {
        let has_all = all
            .iter()
            .all(|one| node.labels().contains_key(&one.topology_key));
        if !has_all || !is_eligible(view, constraint, node) {
            continue;
        }
        let Some(domain) = node.labels().get(&constraint.topology_key) else {
            continue;
        };
        let counts_here = view.pods_on(node, node_info).filter(|other| {
            other.metadata.namespace.as_ref() == Some(&namespace)
                && other.metadata.deletion_timestamp.is_none()
                && matches(other.labels())
        });
        *counts.entry(domain.clone()).or_default() +=
            i64::try_from(counts_here.count()).unwrap_or(i64::MAX);
    }
    let enough = usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1);
    let least = if counts.len() < enough {
        0
    } else {
        counts.values().copied().min().unwrap_or_default()
    };
    Counted {
        key: constraint.topology_key.clone(),
        max_skew: constraint.max_skew.into(),
        own: i64::from(matches(view.pod.labels())),
        counts,
        least,
    }
}

/// Reports whether the node counts: one on which the pod cannot run does not, unless the constraint includes it.
fn is_eligible(view: &PodView<'_>, constraint: &TopologySpreadConstraint, node: &Node) -> bool {
    let tolerations = view.spec.tolerations.as_deref().unwrap_or_default();
    let honours_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
    let is_wanted = constraint.node_affinity_policy.as_deref() == Some("Ignore")
        || affinity::matches_node(view.spec, node);
    is_wanted
        && !(honours_taints
            && affinity::untolerated_taints(tolerations, node, &["NoSchedule", "NoExecute"])
                .next()
                .is_some())
}
