//! The controllers of Kubernetes' controller manager that standalone mode needs, each of which can be switched off.

use tokio_util::sync::CancellationToken;

use super::{
    device::missing_nodes,
    disruption, edge_applications, endpoints, eviction, garbage_collector, namespace_lifecycle,
    node_groups, node_jobs, pod_gc, policy, volume_binder, volume_protection, volume_provisioner,
    workloads::{self, Reflectors, Shared},
};
use crate::tasks::Tasks;

mod controller_manager;
mod switches;

pub(crate) use switches::ControllerName;
pub use switches::{Switches, UnknownController};

/// Starts the controllers that are switched on; they run until `stop`.
pub(crate) fn spawn(
    shared: Shared,
    tasks: &Tasks,
    switches: &Switches,
    stop: &CancellationToken,
) -> Reflectors {
    let reflectors = Reflectors::new(shared.clone(), tasks, stop);
    let client = &shared.client;
    for controller in ControllerName::ALL
        .iter()
        .copied()
        .filter(|controller| switches.is_on(*controller))
    {
        macro_rules! start {
            ($controller:path) => {
                reflectors.start(controller.as_str(), $controller)
            };
        }
        match controller {
            ControllerName::Deployment => start!(workloads::deployment::run),
            ControllerName::ReplicaSet => start!(workloads::replica_set::run),
            ControllerName::ReplicationController => {
                start!(workloads::replica_set::run_replication)
            }
            ControllerName::DaemonSet => start!(workloads::daemon_set::run),
            ControllerName::StatefulSet => start!(workloads::stateful_set::run),
            ControllerName::Job => start!(workloads::job::run),
            ControllerName::CronJob => start!(workloads::cron_job::run),
            ControllerName::Disruption => start!(disruption::run),
            ControllerName::Endpoint => start!(endpoints::run_core_v1),
            ControllerName::EndpointSlice => start!(endpoints::run),
            ControllerName::EndpointSliceMirroring => start!(endpoints::run_mirroring),
            ControllerName::TaintEviction => start!(eviction::run),
            ControllerName::PodGarbageCollector => start!(pod_gc::run),
            ControllerName::PersistentVolumeBinder => start!(volume_binder::run),
            ControllerName::PersistentVolumeClaimProtection => {
                start!(volume_protection::run_claims)
            }
            ControllerName::PersistentVolumeProtection => start!(volume_protection::run_volumes),
            ControllerName::PersistentVolumeProvisioner => start!(volume_provisioner::run),
            ControllerName::ServiceAccountAccess => start!(policy::run),
            ControllerName::TaskManager => start!(node_jobs::run),
            ControllerName::NodeGroup => start!(node_groups::run),
            ControllerName::EdgeApplication => start!(edge_applications::run),
            ControllerName::GarbageCollector => {
                let collector =
                    garbage_collector::run(client.clone(), tasks.clone(), stop.child_token());
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
    reflectors.start("missing nodes of devices", missing_nodes::run);
    reflectors
}

/// Runs only the controllers that KubeEdge adds to a cluster with its own controller manager, until `stop`; those of node groups if
/// `node_groups`.
pub(crate) async fn run_kubeedges(
    shared: Shared,
    node_groups: bool,
    tasks: Tasks,
    stop: CancellationToken,
) {
    let tasks = tasks.nested();
    let reflectors = Reflectors::new(shared, &tasks, &stop);
    reflectors.start(ControllerName::ServiceAccountAccess.as_str(), policy::run);
    reflectors.start("missing nodes of devices", missing_nodes::run);
    let (of_manager, among) = (reflectors.clone(), tasks.clone());
    reflectors.start("controller manager of KubeEdge", move |pods, stop| {
        controller_manager::run(pods, of_manager, node_groups, among, stop)
    });
    stop.cancelled().await;
    tasks.close();
    // a panic is one of the cloud's tasks, too
    let _ = tasks.wait().await;
}
