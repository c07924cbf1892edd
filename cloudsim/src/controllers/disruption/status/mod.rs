//! Computes a disruption budget's status from its pods. Pure.

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
        pods::{is_active, is_ready, phase},
    },
};

/// How long an evicted pod counts as disrupted; after that the eviction has failed.
const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_mins(2);
/// The condition that says whether a pod may be evicted now.
const ALLOWED: &str = "DisruptionAllowed";

/// Reports whether the budget selects the pod. A budget without a selector selects none, an empty selector all.
pub(super) fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    selector.is_some_and(|selector| selector.matches(pod.labels()))
}

/// Formats the selector for messages.
pub(super) fn selector_text(budget: &PodDisruptionBudget) -> String {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    selector
        .and_then(|selector| Selector::try_from(selector).ok())
        .map(|selector| selector.to_string())
        .unwrap_or_default()
}

/// Reports whether a change of a pod may change a budget.
pub(super) fn matters(change: &Change<Pod>) -> bool {
    let facts = |pod: &Pod| {
        let meta = &pod.metadata;
        let owners = meta.owner_references.clone();
        (
            is_ready(pod),
            phase(pod).to_owned(),
            meta.deletion_timestamp.is_some(),
            meta.labels.clone(),
            owners,
        )
    };
    change.gone
        || change
            .before
            .as_ref()
            .is_none_or(|before| facts(before) != facts(&change.object))
}

/// The expected number of pods, from which percentages are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected(i32);

impl Expected {
    /// Expects as many as exist.
    pub(super) fn pods(pods: &[Arc<Pod>]) -> Self {
        Self(i32::try_from(pods.len()).unwrap_or(i32::MAX))
    }

    /// Expects as many as the controllers want.
    pub(super) fn scale(replicas: i32) -> Self {
        Self(replicas)
    }
}

/// Reports whether the expected number comes from the pods' controllers: for a percentage, and for `maxUnavailable`.
pub(super) fn needs_scale(budget: &PodDisruptionBudget) -> bool {
    let Some(spec) = &budget.spec else {
        return false;
    };
    spec.max_unavailable.is_some() || matches!(spec.min_available, Some(IntOrString::String(_)))
}

/// Returns how many pods must be healthy.
fn desired_healthy(budget: &PodDisruptionBudget, Expected(expected): Expected) -> i32 {
    let Some(spec) = &budget.spec else { return 0 };
    match (&spec.max_unavailable, &spec.min_available) {
        // a percentage of `maxUnavailable` is rounded up as well
        (Some(most), _) => expected
            .saturating_sub(amount(Some(most), expected, true))
            .max(0),
        (None, Some(least)) => amount(Some(least), expected, true),
        (None, None) => 0,
    }
}

/// Returns the status, and when to compute it again without an event.
pub(super) fn status(
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
    expected: Expected,
    now: Timestamp,
) -> (PodDisruptionBudgetStatus, Option<Duration>) {
    let old = budget.status.clone().unwrap_or_default();
    let disrupted = still_disrupted(&old, pods, now);
    let is_healthy = |pod: &&Arc<Pod>| {
        is_ready(pod) && is_active(pod) && !disrupted.contains_key(&pod.name_any())
    };
    let current = i32::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i32::MAX);
    let desired = desired_healthy(budget, expected);
    let allowed = if expected.0 <= 0 {
        0
    } else {
        current.saturating_sub(desired).max(0)
    };
    let first = disrupted.values().map(|time| time.0).min();
    let left = first.map(|first| DELETION_TIMEOUT - now.duration_since(first));
    // a little later than due, since the clocks of timers and timestamps may differ
    let left = left
        .and_then(|left| Duration::try_from(left).ok())
        .map(|left| left + Duration::from_millis(100));
    let (holds, reason) = if allowed > 0 {
        (true, "SufficientPods")
    } else {
        (false, "InsufficientPods")
    };
    let status = PodDisruptionBudgetStatus {
        conditions: Some(conditions(budget, &old, holds, reason, "", now)),
        current_healthy: current,
        desired_healthy: desired,
        expected_pods: expected.0,
        disruptions_allowed: allowed,
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        observed_generation: budget.metadata.generation,
    };
    (status, left)
}

/// Returns the status when the expected number is unknown: no pod may be evicted.
pub(super) fn failed_status(
    budget: &PodDisruptionBudget,
    message: &str,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let old = budget.status.clone().unwrap_or_default();
    PodDisruptionBudgetStatus {
        conditions: Some(conditions(budget, &old, false, "SyncFailed", message, now)),
        disruptions_allowed: 0,
        observed_generation: budget.metadata.generation,
        ..old
    }
}

/// Returns the pods whose eviction was allowed, and that have neither begun to terminate nor exceeded the timeout.
fn still_disrupted(
    old: &PodDisruptionBudgetStatus,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> BTreeMap<String, Time> {
    let mut disrupted = old.disrupted_pods.clone().unwrap_or_default();
    disrupted.retain(|name, time| {
        let pod = pods
            .iter()
            .find(|pod| pod.metadata.name.as_ref() == Some(name));
        pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none())
            && now.duration_since(time.0) < DELETION_TIMEOUT
    });
    disrupted
}

fn conditions(
    budget: &PodDisruptionBudget,
    old: &PodDisruptionBudgetStatus,
    holds: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let status = if holds { "True" } else { "False" };
    let mut conditions = old.conditions.clone().unwrap_or_default();
    let known = conditions
        .iter()
        .position(|condition| condition.type_ == ALLOWED)
        .map(|at| conditions.remove(at));
    let since = known
        .filter(|known| known.status == status)
        .map(|known| known.last_transition_time);
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
