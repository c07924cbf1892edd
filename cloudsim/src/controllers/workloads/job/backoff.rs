//! The back-off of failed pods of jobs. Pure.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use crate::controllers::workloads::{backoff, pods::phase};

/// The longest back-off.
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_mins(10);
/// The back-off after the first failure; it doubles with each.
const BACKOFF: SignedDuration = SignedDuration::from_secs(10);

/// Returns when a pod ended: its last container, else when it was no longer ready, else its deletion.
pub(super) fn ended_at(pod: &Pod) -> Option<Timestamp> {
    let status = pod.status.as_ref();
    let containers = status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let ends = containers.filter_map(|container| {
        container
            .state
            .as_ref()?
            .terminated
            .as_ref()?
            .finished_at
            .as_ref()
    });
    let not_ready = || {
        let mut conditions = status?.conditions.iter().flatten();
        let condition = conditions.find(|one| one.type_ == "Ready" && one.status == "False")?;
        condition.last_transition_time.as_ref().map(|time| time.0)
    };
    let deleted = || {
        let grace = pod
            .metadata
            .deletion_grace_period_seconds
            .unwrap_or_default();
        let end = pod.metadata.deletion_timestamp.as_ref()?.0;
        end.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    let created = || pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    ends.map(|time| time.0)
        .max()
        .or_else(not_ready)
        .or_else(deleted)
        .or_else(created)
}

/// Returns the rest of the back-off after this many failures in a row.
pub(super) fn remaining_delay(
    failures: usize,
    last: Option<Timestamp>,
    now: Timestamp,
) -> Option<Duration> {
    backoff::remaining_delay(BACKOFF, LONGEST_BACKOFF, failures, last?, now)
}

/// Returns the rest of the back-off after the failures since the last success. `has_failed` decides whether a pod that ended has failed.
pub(super) fn of_job(
    pods: &[Arc<Pod>],
    has_failed: impl Fn(&Pod) -> bool,
    now: Timestamp,
) -> Option<Duration> {
    let last_success = pods
        .iter()
        .filter(|pod| phase(pod) == "Succeeded")
        .filter_map(|pod| ended_at(pod))
        .max();
    let ends = pods
        .iter()
        .filter(|pod| has_failed(pod))
        .filter_map(|pod| ended_at(pod));
    let since: Vec<_> = ends
        .filter(|end| last_success.is_none_or(|success| *end > success))
        .collect();
    remaining_delay(since.len(), since.iter().copied().max(), now)
}
