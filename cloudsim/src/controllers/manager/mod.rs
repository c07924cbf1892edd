//! The controllers of a cluster that standalone mode lacks, each switchable: what in Kubernetes is the controller manager.

#[cfg(test)]
use kube::Client;
use tokio_util::sync::CancellationToken;

#[cfg(test)]
use super::events::Recorder;
use super::{
    disruption, endpoints, eviction, garbage, namespace_lifecycle, pod_gc, policy, volume_binder,
    workloads::{self, Cluster},
};
use crate::tasks::Tasks;

mod switches;

pub use switches::{Switches, UnknownController};

/// Starts the controllers that are switched on, in a cluster of which nothing is known yet.
#[cfg(test)]
pub(crate) fn spawn(
    tasks: &Tasks,
    client: &Client,
    events: &Recorder,
    switches: &Switches,
    stop: &CancellationToken,
) {
    spawn_for(Cluster::new(client.clone(), events.clone()), tasks, switches, stop);
}

/// Starts the controllers that are switched on; they run until `stop`.
pub(crate) fn spawn_for(cluster: Cluster, tasks: &Tasks, switches: &Switches, stop: &CancellationToken) {
    let client = cluster.client.clone();
    macro_rules! start {
        ($($name:literal => $controller:path),* $(,)?) => {
            $(if switches.is_on($name) {
                tasks.spawn($name, $controller(cluster.clone(), stop.child_token()));
            })*
        };
    }
    start! {
        "deployment" => workloads::deployment::run,
        "replicaset" => workloads::replica_set::run,
        "replicationcontroller" => workloads::replica_set::run_replication,
        "daemonset" => workloads::daemon_set::run,
        "statefulset" => workloads::stateful_set::run,
        "job" => workloads::job::run,
        "cronjob" => workloads::cron_job::run,
        "disruption" => disruption::run,
        "endpointslice" => endpoints::run,
        "endpointslicemirroring" => endpoints::run_mirroring,
        "taint-eviction" => eviction::run,
        "pod-garbage-collector" => pod_gc::run,
        "persistentvolume-binder" => volume_binder::run,
        "serviceaccountaccess" => policy::run,
    }
    if switches.is_on("garbage-collector") {
        tasks.spawn("garbage-collector", garbage::run(client.clone(), tasks.clone(), stop.child_token()));
    }
    if switches.is_on("namespace") {
        tasks.spawn("namespace", namespace_lifecycle::run(client.clone(), stop.child_token()));
    }
    // last, so that everyone listens before there is anything to hear
    cluster.spawn(tasks, stop);
}

/// What of them KubeEdge adds to a cluster, whose own controller manager does the rest; it runs until `stop`.
pub(crate) async fn run_kubeedges(cluster: Cluster, stop: CancellationToken) {
    tokio::join!(
        policy::run(cluster.clone(), stop.child_token()),
        cluster.run_pods_and_nodes(stop.child_token())
    );
}
