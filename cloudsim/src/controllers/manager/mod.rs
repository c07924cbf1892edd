//! The controllers of Kubernetes' controller manager that standalone mode needs, each of which can be switched off.

#[cfg(test)]
use kube::Client;
use tokio_util::sync::CancellationToken;

#[cfg(test)]
use super::events::Recorder;
use super::{
    device::missing_nodes,
    disruption, endpoints, eviction, garbage_collector, namespace_lifecycle, pod_gc, policy, volume_binder,
    workloads::{self, Cluster},
};
use crate::tasks::Tasks;

mod switches;

pub(crate) use switches::ControllerName;
pub use switches::{Switches, UnknownController};

/// Starts the controllers that are switched on, with empty informers.
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
    let client = &cluster.client;
    for controller in ControllerName::ALL.iter().copied().filter(|controller| switches.is_on(*controller)) {
        macro_rules! start {
            ($controller:path) => {
                tasks.spawn(controller.as_str(), $controller(cluster.clone(), stop.child_token()))
            };
        }
        match controller {
            ControllerName::Deployment => start!(workloads::deployment::run),
            ControllerName::ReplicaSet => start!(workloads::replica_set::run),
            ControllerName::ReplicationController => start!(workloads::replica_set::run_replication),
            ControllerName::DaemonSet => start!(workloads::daemon_set::run),
            ControllerName::StatefulSet => start!(workloads::stateful_set::run),
            ControllerName::Job => start!(workloads::job::run),
            ControllerName::CronJob => start!(workloads::cron_job::run),
            ControllerName::Disruption => start!(disruption::run),
            ControllerName::EndpointSlice => start!(endpoints::run),
            ControllerName::EndpointSliceMirroring => start!(endpoints::run_mirroring),
            ControllerName::TaintEviction => start!(eviction::run),
            ControllerName::PodGarbageCollector => start!(pod_gc::run),
            ControllerName::PersistentVolumeBinder => start!(volume_binder::run),
            ControllerName::ServiceAccountAccess => start!(policy::run),
            ControllerName::GarbageCollector => {
                let collector = garbage_collector::run(client.clone(), tasks.clone(), stop.child_token());
                tasks.spawn(controller.as_str(), collector);
            }
            ControllerName::Namespace => {
                let lifecycle = namespace_lifecycle::run(client.clone(), stop.child_token());
                tasks.spawn(controller.as_str(), lifecycle);
            }
            // controllers that need more than the cluster are started in `cloud/standalone.rs`
            ControllerName::CsrApproving
            | ControllerName::CsrCleaner
            | ControllerName::CsrSigning
            | ControllerName::NodeLifecycle
            | ControllerName::RootCaCertificatePublisher
            | ControllerName::Scheduler
            | ControllerName::ServiceAccount => {}
        }
    }
    // CloudCore's, always on
    tasks.spawn("missing nodes of devices", missing_nodes::run(cluster.clone(), stop.child_token()));
    // last, so that all controllers listen before there are changes
    cluster.spawn(tasks, stop);
}

/// Runs only the controllers that KubeEdge adds to a cluster with its own controller manager, until `stop`.
pub(crate) async fn run_kubeedges(cluster: Cluster, stop: CancellationToken) {
    tokio::join!(
        policy::run(cluster.clone(), stop.child_token()),
        missing_nodes::run(cluster.clone(), stop.child_token()),
        cluster.run_pods_and_nodes(stop.child_token())
    );
}
