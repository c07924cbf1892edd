//! What a pod sync needs.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client,
    runtime::{controller::Action, reflector::Store},
};
use tokio::sync::{Notify, mpsc};

use super::{
    admission::Admitter, cache::PodCache, images::ImagePuller, sandbox_limit::SandboxLimit,
};
use crate::{
    background::Background,
    cgroups::Cgroups,
    convert::{self, MachineResources, NodeDns},
    device_manager::DeviceManager,
    downward::Allocatable,
    events::Recorder,
    metrics::Metrics,
    names::Dirs,
    node::Addresses,
    observed::{ObservedPod, Sandbox},
    probes::Probes,
    removals::RemovalsInProgress,
    runtime::Runtime,
    timestamps,
    trigger::Trigger,
};

/// What a pod sync needs, shared by all pods.
pub(crate) struct Context {
    /// The API.
    pub(crate) client: Client,
    /// The container runtime.
    pub(crate) runtime: Runtime,
    /// The pods' control groups.
    pub(crate) groups: Cgroups,
    /// The directories of pods.
    pub(crate) dirs: Dirs,
    /// What pods need to know of the node.
    pub(crate) node: NodeContext,
    /// This node's pods.
    pub(crate) pods: Store<Pod>,
    /// The state of pods between two syncs.
    pub(crate) pod_cache: PodCache,
    /// Records events.
    pub(crate) events: Recorder,
    /// Measures syncs.
    pub(crate) metrics: Metrics,
    /// The probes of all pods.
    pub(crate) probes: Arc<Probes>,
    /// Decides which pods may run.
    pub(crate) admitter: Admitter,
    /// The devices of plugins.
    pub(crate) devices: DeviceManager,
    /// Pulls images.
    pub(crate) images: ImagePuller,
    /// Limits the concurrent creation of sandboxes.
    pub(crate) sandbox_limit: Arc<SandboxLimit>,
    /// Removals in progress of deleted pods.
    pub(crate) removing: RemovalsInProgress,
    /// Wakes PLEG when a sandbox or container was started or its start failed.
    pub(crate) runtime_changed: Arc<Notify>,
    /// Triggers this controller.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// Runs stops and hooks.
    pub(crate) background: Background,
    /// Interval of syncs of each pod without any trigger.
    pub(crate) resync: Duration,
}

/// What pods need to know of the node.
pub(crate) struct NodeContext {
    /// The node's name.
    pub(crate) name: String,
    /// The node's addresses.
    pub(crate) addresses: Addresses,
    /// DNS settings for pods.
    pub(crate) dns: NodeDns,
    /// Path of the node's resolver configuration.
    pub(crate) resolv_conf: PathBuf,
    /// The API for Services.
    pub(crate) services: Client,
    /// CA certificate of the API, PEM, which pods are given in addition to the cluster's.
    pub(crate) api_ca: Option<Arc<str>>,
    /// The node's allocatable resources, which stand in for limits that are not set.
    pub(crate) allocatable: Allocatable,
    /// The machine's properties that determine containers' resources.
    pub(crate) machine_resources: MachineResources,
}

impl NodeContext {
    /// Returns the pod's IP addresses, given those of its sandbox.
    fn pod_ips(&self, pod: &Pod, sandbox: &[String]) -> Vec<String> {
        if convert::is_host_network(pod) {
            self.addresses.ips()
        } else {
            sandbox.to_vec()
        }
    }
}

impl Context {
    /// Returns the pod's IP addresses.
    pub(super) fn pod_ips(&self, pod: &Pod, observed: &ObservedPod) -> Vec<String> {
        self.node.pod_ips(pod, observed.ips())
    }

    /// Returns the pod's first IP address, empty if it has none.
    pub(super) fn pod_ip(&self, pod: &Pod, observed: &ObservedPod) -> String {
        self.pod_ips(pod, observed)
            .into_iter()
            .next()
            .unwrap_or_default()
    }

    /// Returns the IP addresses of the pod in this sandbox.
    pub(super) fn sandbox_ips(&self, pod: &Pod, sandbox: &Sandbox) -> Vec<String> {
        self.node.pod_ips(pod, &sandbox.ips)
    }

    /// Returns the action that syncs the pod again at `at`, or after the resync interval if that is earlier.
    pub(super) fn requeue(&self, at: Option<Timestamp>) -> Action {
        let wait = at.map_or(self.resync, |at| timestamps::until(at, clock::now()));
        Action::requeue(wait.min(self.resync))
    }
}
