//! Computes a deployment's status. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use kube::ResourceExt;

use super::rollout::Limits;
use crate::controllers::workloads::conditions::Condition;

const PROGRESSING: &str = "Progressing";
/// The reason of a complete rollout.
const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
/// The reason of a rollout without progress.
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
/// The reason of a paused rollout.
const PAUSED: &str = "DeploymentPaused";
/// The deadline that means none.
const NO_DEADLINE: i32 = i32::MAX;

/// Returns the status from the replica sets: that of the present template, if there is one, and the others.
pub(super) fn status(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    old: &[&ReplicaSet],
    now: Timestamp,
) -> DeploymentStatus {
    let sum = |of: fn(&ReplicaSet) -> i32| {
        new.into_iter()
            .chain(old.iter().copied())
            .map(of)
            .sum::<i32>()
    };
    let replicas = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
    let available = sum(|set| {
        set.status
            .as_ref()
            .and_then(|status| status.available_replicas)
            .unwrap_or_default()
    });
    let total = sum(|set| {
        set.spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or_default()
    });
    let some = |number: i32| (number > 0).then_some(number);
    let before = deployment.status.clone().unwrap_or_default();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(sum(replicas)),
        updated_replicas: some(new.map_or(0, replicas)),
        ready_replicas: some(sum(|set| {
            set.status
                .as_ref()
                .and_then(|status| status.ready_replicas)
                .unwrap_or_default()
        })),
        available_replicas: some(available),
        unavailable_replicas: some(total - available),
        collision_count: before.collision_count,
        conditions: before.conditions.clone(),
        terminating_replicas: before.terminating_replicas,
    };
    let mut conditions = before.conditions.clone().unwrap_or_default();
    availability(deployment, available, &mut conditions, now);
    failure(
        new.into_iter().chain(old.iter().copied()),
        &mut conditions,
        now,
    );
    progress(deployment, new, &before, &status, &mut conditions, now);
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
    status.conditions = Some(conditions);
    status
}

fn availability(
    deployment: &Deployment,
    available: i32,
    conditions: &mut Vec<DeploymentCondition>,
    now: Timestamp,
) {
    let limits = Limits::of(deployment);
    let holds = available >= limits.desired - limits.unavailable;
    let (reason, message) = if holds {
        (
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    Condition {
        type_: "Available",
        holds,
        reason,
        message: message.into(),
    }
    .set_deployment(conditions, now);
}

/// Copies the replica sets' failures to create pods, since users look here first.
fn failure<'a>(
    sets: impl Iterator<Item = &'a ReplicaSet>,
    conditions: &mut Vec<DeploymentCondition>,
    now: Timestamp,
) {
    let mut failures = sets.flat_map(|set| {
        set.status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
    });
    match failures
        .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True")
    {
        Some(failure) => Condition {
            type_: "ReplicaFailure",
            holds: true,
            reason: failure.reason.as_deref().unwrap_or_default(),
            message: failure.message.clone().unwrap_or_default(),
        }
        .set_deployment(conditions, now),
        None => conditions.retain(|condition| condition.type_ != "ReplicaFailure"),
    }
}

fn progress(
    deployment: &Deployment,
    new: Option<&ReplicaSet>,
    before: &DeploymentStatus,
    status: &DeploymentStatus,
    conditions: &mut Vec<DeploymentCondition>,
    now: Timestamp,
) {
    let set = |holds, reason, message: String, conditions: &mut Vec<DeploymentCondition>| {
        Condition {
            type_: PROGRESSING,
            holds,
            reason,
            message,
        }
        .set_deployment(conditions, now);
    };
    let name = deployment.name_any();
    let subject = new.map_or_else(
        || format!("Deployment \"{name}\""),
        |set| format!("ReplicaSet \"{}\"", set.name_any()),
    );
    if deployment
        .spec
        .as_ref()
        .is_some_and(|spec| spec.paused == Some(true))
    {
        // the deadline does not run while it is paused
        let current = conditions
            .iter()
            .find(|condition| condition.type_ == PROGRESSING);
        if current
            .is_none_or(|condition| condition.reason.as_deref() != Some(NEW_REPLICA_SET_AVAILABLE))
        {
            set_unknown(conditions, PAUSED, "Deployment is paused", now);
        }
        return;
    }
    let current = conditions
        .iter()
        .find(|condition| condition.type_ == PROGRESSING);
    let reason = current.and_then(|condition| condition.reason.as_deref());
    if is_complete(deployment, status) {
        set(
            true,
            NEW_REPLICA_SET_AVAILABLE,
            format!("{subject} has successfully progressed."),
            conditions,
        );
    } else if current.is_none() && new.is_some() {
        set(
            true,
            "NewReplicaSetCreated",
            format!(
                "Created new replica set {:?}",
                new.map(ResourceExt::name_any).unwrap_or_default()
            ),
            conditions,
        );
    } else if has_progressed(before, status)
        || reason == Some(PAUSED)
        || (reason == Some(NEW_REPLICA_SET_AVAILABLE) && has_started(before, status))
    {
        // the time of progress is updated, even if the message stays the same
        conditions.retain(|condition| {
            condition.type_ != PROGRESSING
                || condition.status == "True" && condition.reason.as_deref() != Some(TIMED_OUT)
        });
        let since = conditions
            .iter()
            .find(|condition| condition.type_ == PROGRESSING)
            .cloned();
        conditions.retain(|condition| condition.type_ != PROGRESSING);
        set(
            true,
            "ReplicaSetUpdated",
            format!("{subject} is progressing."),
            conditions,
        );
        if let (Some(since), Some(own)) = (
            since,
            conditions
                .iter_mut()
                .find(|condition| condition.type_ == PROGRESSING),
        ) {
            own.last_transition_time = since.last_transition_time;
        }
    } else if deadline_in(deployment, status, now).is_some_and(|left| left.is_zero()) {
        set(
            false,
            TIMED_OUT,
            format!("{subject} has timed out progressing."),
            conditions,
        );
    }
}

fn set_unknown(
    conditions: &mut Vec<DeploymentCondition>,
    reason: &'static str,
    message: &str,
    now: Timestamp,
) {
    let known = conditions
        .iter()
        .any(|old| old.type_ == PROGRESSING && old.reason.as_deref() == Some(reason));
    if known {
        return;
    }
    Condition {
        type_: PROGRESSING,
        holds: true,
        reason,
        message: message.into(),
    }
    .set_deployment(conditions, now);
    if let Some(condition) = conditions
        .iter_mut()
        .find(|condition| condition.type_ == PROGRESSING)
    {
        condition.status = "Unknown".into();
    }
}

fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let desired = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let is_desired = |number: Option<i32>| number.unwrap_or_default() == desired;
    is_desired(status.updated_replicas)
        && is_desired(status.replicas)
        && is_desired(status.available_replicas)
}

fn has_progressed(before: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    let number = |number: Option<i32>| number.unwrap_or_default();
    let old = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    number(status.updated_replicas) > number(before.updated_replicas)
        || old(status) < old(before)
        || number(status.ready_replicas) > number(before.ready_replicas)
        || number(status.available_replicas) > number(before.available_replicas)
}

/// Reports whether a new rollout began.
fn has_started(before: &DeploymentStatus, status: &DeploymentStatus) -> bool {
    before.observed_generation != status.observed_generation
        && status.updated_replicas.unwrap_or_default() < before.updated_replicas.unwrap_or_default()
}

/// Returns how long until the progress deadline; `None` if no deadline runs.
pub(super) fn deadline_in(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let spec = deployment.spec.as_ref()?;
    let seconds = spec
        .progress_deadline_seconds
        .filter(|seconds| *seconds != NO_DEADLINE)?;
    if spec.paused == Some(true) || is_complete(deployment, status) {
        return None;
    }
    let condition = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == PROGRESSING)?;
    if matches!(
        condition.reason.as_deref(),
        Some(NEW_REPLICA_SET_AVAILABLE | TIMED_OUT)
    ) {
        return None;
    }
    let since = condition.last_update_time.as_ref()?.0;
    let left = SignedDuration::from_secs(seconds.into()) - now.duration_since(since);
    Some(Duration::try_from(left).unwrap_or_default())
}

#[cfg(test)]
mod tests;
