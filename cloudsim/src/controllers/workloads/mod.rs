//! Workload controllers: each reconciles one kind, from any state.
//!
//! They share one informer of each kind ([`Reflectors`]); each starts once the kinds that it reads have been listed ([`cluster!`]).

use std::{sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ObjectMeta;

pub(crate) mod affinity;
mod backoff;
mod cluster;
mod conditions;
pub(super) mod cron_job;
pub(super) mod daemon_set;
pub(crate) mod deployment;
mod hash;
mod history;
pub(super) mod job;
mod pod_control;
#[cfg(test)]
pub(crate) mod pod_states;
pub(crate) mod pods;
pub(super) mod replica_set;
mod shared;
pub(super) mod stateful_set;
mod triggers;

pub(crate) use cluster::{Listed, Reflectors, cluster};
pub(crate) use conditions::seconds;
pub(crate) use shared::{Shared, or_null, patch_status};

/// Returns when the next pod becomes available, which no event reports.
fn until_available(pods: &[Arc<Pod>], min_ready: Option<i32>, now: Timestamp) -> Action {
    let min_ready = min_ready.unwrap_or_default();
    let waits = pods
        .iter()
        .filter_map(|pod| pods::available_in(pod, min_ready, now))
        .filter(|left| !left.is_zero());
    match waits.min().and_then(|left| Duration::try_from(left).ok()) {
        Some(left) => Action::requeue(left),
        None => Action::await_change(),
    }
}

/// Reports whether an object may have been created since `start`; its timestamp has whole seconds.
pub(crate) fn is_created_since(object: &ObjectMeta, start: Timestamp) -> bool {
    object
        .creation_timestamp
        .as_ref()
        .is_none_or(|created| created.0.as_second() >= start.as_second())
}

#[cfg(test)]
mod tests;
