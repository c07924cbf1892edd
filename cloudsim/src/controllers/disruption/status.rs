//! What a disruption budget's status says of the pods that it selects. Pure.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
    },
    apimachinery::pkg::{
        apis::meta::v1::{Condition, Time},
        util::intstr::IntOrString,
    },
};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

use crate::controllers::{
    informers::Change,
    workloads::{
        deployment::amount,
        pods::{is_ready, phase},
    },
};

/// How long an evicted pod counts as gone before it is: afterwards the eviction has come to nothing.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
/// The condition that says whether any pod may be evicted now.
const ALLOWED: &str = "DisruptionAllowed";

/// Whether the budget is about the pod. One without a selector is about none, an empty selector about all.
pub(super) fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    selector.is_some_and(|selector| selector.matches(pod.labels()))
}

/// The selector as people write it.
pub(super) fn selector_text(budget: &PodDisruptionBudget) -> String {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    selector
        .and_then(|selector| Selector::try_from(selector).ok())
        .map(|selector| selector.to_string())
        .unwrap_or_default()
}

/// Whether a change of a pod can change a budget.
pub(super) fn matters(change: &Change<Pod>) -> bool {
    let facts = |pod: &Pod| {
        let meta = &pod.metadata;
        let owners = meta.owner_references.clone();
        (is_ready(pod), phase(pod).to_owned(), meta.deletion_timestamp.is_some(), meta.labels.clone(), owners)
    };
    change.gone || change.before.as_ref().is_none_or(|before| facts(before) != facts(&change.object))
}

/// How many pods there should be, of which the budget takes its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected(i32);

impl Expected {
    /// As many as there are.
    pub(super) fn pods(pods: &[Arc<Pod>]) -> Self {
        Self(i32::try_from(pods.len()).unwrap_or(i32::MAX))
    }

    /// As many as their controllers want.
    pub(super) fn scale(replicas: i32) -> Self {
        Self(replicas)
    }
}

/// Whether the number of expected pods comes from the pods' controllers: for a percentage, and for what may be missing.
pub(super) fn needs_scale(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else { return false };
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// How many pods must stay healthy.
fn desired(budget: &PodDisruptionBudget, Expected(expected): Expected) -> i32 {
    let Some(spec) = &budget.spec else { return 0 };
    match (&spec.max_unavailable, &spec.min_available) {
        // a percentage of what may be missing is rounded up as well
        (Some(most), _) => expected.saturating_sub(amount(Some(most), expected, true)).max(0),
        (None, Some(least)) => amount(Some(least), expected, true),
        (None, None) => 0,
    }
}

/// The status, and when it is to be looked at again without any event.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    expected: Expected,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Duration>) {
    let old = budget.status.clone().unwrap_or_default();
    let disrupted = still_disrupted(&old, pods, now);
    let is_healthy = |pod: &&Arc<Pod>| {
        is_ready(pod) && pod.metadata.deletion_timestamp.is_none() && !disrupted.contains_key(&pod.name_any())
    };
    let current = i32::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i32::MAX);
    let desired = desired(budget, expected);
    let allowed = if expected.0 <= 0 { 0 } else { current.saturating_sub(desired).max(0) };
    let first = disrupted.values().map(|time| time.0).min();
    let left = first.map(|first| DELETION_TIMEOUT - now.duration_since(first));
    // a little later than due, as clocks of timers and times may differ
    let left =
        left.and_then(|left| Duration::try_from(left).ok()).map(|left| left + Duration::from_millis(100));
    let (holds, reason) = if allowed > 0 { (true, "SufficientPods") } else { (false, "InsufficientPods") };
    let status = PodDisruptionBudgetStatus {
        conditions: Some(conditions(budget, &old, (holds, reason, ""), now)),
        current_healthy: current,
        desired_healthy: desired,
        expected_pods: expected.0,
        disruptions_allowed: allowed,
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        observed_generation: budget.metadata.generation,
    };
    (status, left)
}

/// The status when it is not known how many pods there should be: none may go.
pub(super) fn failed(
    budget: &PodDisruptionBudget,
    message: &str,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let old = budget.status.clone().unwrap_or_default();
    PodDisruptionBudgetStatus {
        conditions: Some(conditions(budget, &old, (false, "SyncFailed", message), now)),
        disruptions_allowed: 0,
        observed_generation: budget.metadata.generation,
        ..old
    }
}

/// The pods whose eviction was allowed, and that have neither begun to go nor had too long to.
fn still_disrupted(
    old: &PodDisruptionBudgetStatus,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> BTreeMap<String, Time> {
    let mut disrupted = old.disrupted_pods.clone().unwrap_or_default();
    disrupted.retain(|name, time| {
        let pod = pods.iter().find(|pod| pod.metadata.name.as_ref() == Some(name));
        pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none())
            && now.duration_since(time.0) < DELETION_TIMEOUT
    });
    disrupted
}

fn conditions(
    budget: &PodDisruptionBudget,
    old: &PodDisruptionBudgetStatus,
    (holds, reason, message): (bool, &str, &str),
    now: Timestamp,
) -> Vec<Condition> {
    let status = if holds { "True" } else { "False" };
    let mut conditions = old.conditions.clone().unwrap_or_default();
    let known =
        conditions.iter().position(|condition| condition.type_ == ALLOWED).map(|at| conditions.remove(at));
    let since = known.filter(|known| known.status == status).map(|known| known.last_transition_time);
    let this_second = || Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    conditions.push(Condition {
        type_: ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: budget.metadata.generation,
        last_transition_time: since.unwrap_or_else(this_second),
    });
    conditions
}

#[cfg(test)]
mod tests;
