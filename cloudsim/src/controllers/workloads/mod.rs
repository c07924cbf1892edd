//! Workload controllers: each reconciles one kind, from any state.
//!
//! They share one informer of each kind ([`Cluster`]).

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::controller::Action;

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
pub(crate) mod pods;
pub(super) mod replica_set;
pub(super) mod stateful_set;
mod triggers;

pub(crate) use cluster::{Cluster, or_null};
pub(crate) use conditions::seconds;

/// Returns when the next pod becomes available, which no event reports.
fn until_available(pods: &[Arc<Pod>], min_ready: Option<i32>, now: Timestamp) -> Action {
    let min_ready = min_ready.unwrap_or_default();
    let waits =
        pods.iter().filter_map(|pod| pods::available_in(pod, min_ready, now)).filter(|left| !left.is_zero());
    match waits.min().and_then(|left| Duration::try_from(left).ok()) {
        Some(left) => Action::requeue(left),
        None => Action::await_change(),
    }
}

#[cfg(test)]
mod tests;
