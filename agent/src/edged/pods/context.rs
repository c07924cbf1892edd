//! What the sync of a pod needs.

use std::{path::PathBuf, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client,
    runtime::{controller::Action, reflector::Store},
};
use tokio::sync::{Notify, mpsc};

use super::{
    admission::Admitter, cache::PodCache, images::ImagePuller, sandbox_limit::SandboxLimit, trigger::Trigger,
};
use crate::edged::{
    background::Background,
    convert::{self, Means, NodeDns},
    downward::Allocatable,
    events::Recorder,
    gc::removing::Removing,
    groups::Groups,
    metrics::Metrics,
    moment,
    names::Dirs,
    node::Addresses,
    observed::{Observed, Sandbox},
    probes::Probes,
    runtime::Runtime,
};

/// What the sync of a pod needs, of all pods.
pub(crate) struct Context {
    /// The API.
    pub(crate) client: Client,
    /// The container runtime.
    pub(crate) runtime: Runtime,
    /// The pods' control groups.
    pub(crate) groups: Groups,
    /// Where pods live on disk.
    pub(crate) dirs: Dirs,
    /// What pods learn of the node.
    pub(crate) node: NodeContext,
    /// This node's pods.
    pub(crate) pods: Store<Pod>,
    /// What is remembered of pods between two syncs.
    pub(crate) pod_cache: PodCache,
    /// Records events.
    pub(crate) events: Recorder,
    /// Counts syncs and their duration.
    pub(crate) metrics: Metrics,
    /// The probes of all pods.
    pub(crate) probes: Arc<Probes>,
    /// Decides which pods may run.
    pub(crate) admitter: Admitter,
    /// Pulls images.
    pub(crate) images: ImagePuller,
    /// Permits to make sandboxes.
    pub(crate) sandbox_limit: Arc<SandboxLimit>,
    /// What is being removed of pods that are gone.
    pub(crate) removing: Removing,
    /// Wakes PLEG: a sandbox or container was started, or its start failed.
    pub(crate) runtime_changed: Arc<Notify>,
    /// Triggers of this controller.
    pub(crate) triggers: mpsc::Sender<Trigger>,
    /// Where stops and hooks run.
    pub(crate) background: Background,
    /// Each pod is synced this often, without any trigger.
    pub(crate) resync: Duration,
}

/// What pods learn of the node, and find on it.
pub(crate) struct NodeContext {
    /// The node's name.
    pub(crate) name: String,
    /// The node's addresses.
    pub(crate) addresses: Addresses,
    /// How pods resolve names.
    pub(crate) dns: NodeDns,
    /// The node's own resolver configuration.
    pub(crate) resolv_conf: PathBuf,
    /// The API as it has Services.
    pub(crate) services: Client,
    /// An authority of the API, PEM, that pods are told of beside the cluster's.
    pub(crate) api_ca: Option<Arc<str>>,
    /// What a container may use that sets no limit.
    pub(crate) allocatable: Allocatable,
    /// The machine, as far as it counts for what containers may use.
    pub(crate) means: Means,
}

impl NodeContext {
    /// The addresses at which the pod can be reached, whose sandbox has these.
    fn pod_ips(&self, pod: &Pod, sandbox: &[String]) -> Vec<String> {
        if convert::is_host_network(pod) { self.addresses.ips() } else { sandbox.to_vec() }
    }
}

impl Context {
    /// The addresses at which the pod can be reached.
    pub(super) fn pod_ips(&self, pod: &Pod, observed: &Observed) -> Vec<String> {
        self.node.pod_ips(pod, observed.ips())
    }

    /// The first of them; empty when it has none.
    pub(super) fn pod_ip(&self, pod: &Pod, observed: &Observed) -> String {
        self.pod_ips(pod, observed).into_iter().next().unwrap_or_default()
    }

    /// The addresses of the pod in this sandbox.
    pub(super) fn sandbox_ips(&self, pod: &Pod, sandbox: &Sandbox) -> Vec<String> {
        self.node.pod_ips(pod, &sandbox.ips)
    }

    /// Syncs the pod again at `wake`, and after the resync period in any case.
    pub(super) fn requeue(&self, wake: Option<Timestamp>) -> Action {
        let wait = wake.map_or(self.resync, |at| moment::until(at, Timestamp::now()));
        Action::requeue(wait.min(self.resync))
    }
}
