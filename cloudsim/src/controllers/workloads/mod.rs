//! The controllers of a cluster that standalone mode lacks: what in Kubernetes is the controller manager.
//!
//! They share one watch of each kind ([`Cluster`]); each of them brings one thing to where it should be, from
//! any state, and can be switched off.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, runtime::controller::Action};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) mod affinity;
mod cluster;
mod conditions;
mod cron_job;
mod daemon_set;
mod deployment;
mod hash;
mod history;
mod job;
pub(crate) mod pods;
mod replica_set;
mod stateful_set;
mod switches;
mod triggers;

pub(crate) use cluster::Cluster;
pub use switches::{Switches, UnknownController};

/// Starts the controllers that are switched on; they run until `stop`.
pub fn spawn(tasks: &TaskTracker, client: &Client, switches: &Switches, stop: &CancellationToken) {
    let cluster = Cluster::new(client.clone());
    macro_rules! start {
        ($($name:literal => $controller:path),* $(,)?) => {
            $(if switches.is_on($name) {
                tasks.spawn($controller(cluster.clone(), stop.child_token()));
            })*
        };
    }
    start! {
        "deployment" => deployment::run,
        "replicaset" => replica_set::run,
        "daemonset" => daemon_set::run,
        "statefulset" => stateful_set::run,
        "job" => job::run,
        "cronjob" => cron_job::run,
        "endpointslice" => super::endpoints::run,
        "taint-eviction" => super::eviction::run,
        "pod-garbage-collector" => super::pod_gc::run,
    }
    if switches.is_on("garbage-collector") {
        tasks.spawn(super::garbage::run(client.clone(), stop.child_token()));
    }
    if switches.is_on("namespace") {
        tasks.spawn(super::namespace_lifecycle::run(client.clone(), stop.child_token()));
    }
    // last, so that everyone listens before there is anything to hear
    cluster.spawn(tasks, stop);
}

/// To look again when the next pod will have been ready for long enough, which no event tells.
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
