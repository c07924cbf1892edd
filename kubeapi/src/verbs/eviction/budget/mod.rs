//! Decides whether a disruption budget allows an eviction. Pure.
//!
//! Source: Kubernetes' `pkg/registry/core/pod/storage/eviction.go`.

use serde_json::{Value, json};

use crate::{
    object::{as_map, child, items, text},
    status::StatusError,
};

/// The most pods that may be on their way out and not yet seen to be: more, and whoever counts them is gone.
const MAX_DISRUPTED: usize = 2000;
/// The seconds after which a client should retry where the budget's status is outdated.
const NOT_YET: u64 = 10;

/// Reports whether the pod's eviction counts in the budget of this name; an error where it is not allowed.
pub(super) fn counts(name: &str, budget: &Value, pod: &Value) -> Result<bool, StatusError> {
    let number = |pointer: &str| {
        budget
            .pointer(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    let (healthy, desired) = (
        number("/status/currentHealthy"),
        number("/status/desiredHealthy"),
    );
    if !is_ready(pod) {
        let always = text(budget, "/spec/unhealthyPodEvictionPolicy") == Some("AlwaysAllow");
        if always || (healthy >= desired && desired > 0) {
            return Ok(false);
        }
    }
    if number("/status/observedGeneration") < number("/metadata/generation") {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(StatusError::budget_used_up(&cause, Some(NOT_YET)));
    }
    let allowed = number("/status/disruptionsAllowed");
    if allowed < 0 {
        return Err(StatusError::budget_broken(
            name,
            "pdb disruptions allowed is negative",
        ));
    }
    let disrupted = budget
        .pointer("/status/disruptedPods")
        .and_then(Value::as_object);
    if disrupted.is_some_and(|disrupted| disrupted.len() > MAX_DISRUPTED) {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(StatusError::budget_broken(name, why));
    }
    if allowed > 0 {
        return Ok(true);
    }
    let mut conditions = items(budget, "/status/conditions").iter();
    let condition =
        conditions.find(|condition| text(condition, "/type") == Some("DisruptionAllowed"));
    let failed = condition.filter(|condition| text(condition, "/reason") == Some("SyncFailed"));
    let cause = match failed {
        Some(failed) => {
            let why = text(failed, "/message").unwrap_or_default();
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {why}"
            )
        }
        None if healthy <= desired => {
            format!(
                "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
            )
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    Err(StatusError::budget_used_up(&cause, None))
}

fn is_ready(pod: &Value) -> bool {
    let mut conditions = items(pod, "/status/conditions").iter();
    conditions.any(|condition| {
        text(condition, "/type") == Some("Ready") && text(condition, "/status") == Some("True")
    })
}

/// Returns the budget with the pod of this name in `disruptedPods`.
pub(super) fn add_disrupted(mut budget: Value, pod: &str, now: &str) -> Value {
    let status = child(as_map(&mut budget), "status");
    let left = status
        .get("disruptionsAllowed")
        .and_then(Value::as_i64)
        .unwrap_or_default()
        .saturating_sub(1);
    status.insert("disruptionsAllowed".into(), left.into());
    if let (0, Some(Value::Array(conditions))) = (left, status.get_mut("conditions")) {
        for condition in conditions
            .iter_mut()
            .filter(|one| text(one, "/type") == Some("DisruptionAllowed"))
        {
            let condition = as_map(condition);
            condition.insert("status".into(), json!("False"));
            condition.insert("reason".into(), json!("InsufficientPods"));
            condition.insert("lastTransitionTime".into(), now.into());
        }
    }
    child(status, "disruptedPods").insert(pod.to_owned(), now.into());
    budget
}

#[cfg(test)]
mod tests;
