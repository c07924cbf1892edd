//! EdgeD: runs this node's pods. A small, exact kubelet.
//!
//! In: the pods of this node, ConfigMaps, Secrets and tokens, through a `kube::Client` that need not know where they come
//! from, and a container runtime that speaks CRI v1. Out: containers, pod statuses, the node object and its lease, through
//! the same two. There is no other way out of this room.
//!
//! | part | what |
//! |---|---|
//! | `plan`, `admit`, `status`, `convert`, `env`, `services`, `downward`, `quantity`, `specs`, `fields` | decisions, pure |
//! | `task`, `parts`, `background` | starts the parts and waits for them; what each of them is given; work that goes on beside them |
//! | `pods` | the controller: observe, plan, act, report, one pod at a time |
//! | `probes` | what runs, judged from outside; hooks |
//! | `events` | events of pods and of the node |
//! | `groups` | control groups of pods |
//! | `volume_source`, `volumes`, `termination_message`, `usage` | files of pods, and what they take |
//! | `runtime` | calls to the container runtime |
//! | `pleg` | what happens in the runtime, as triggers of the controller |
//! | `node` | registration, status, lease |
//! | `static_pods` | pods from files of this node |
//! | `pressure` | what the node is short of: conditions, refusal, eviction |
//! | `housekeeping` | containers, images and logs that nobody needs |
//! | `gc` | what pods that are gone left behind; pods that run here and that a store which was begun anew has lost |
//! | `metrics`, `stats` | what EdgeD has done; what node, pods and containers use |
//! | `server` | both of them, over HTTP, to read |
//! | `api` | the kubelet's API as the cloud uses it: logs, exec, attach, port-forward; called in process |

mod admit;
mod api;
mod background;
mod convert;
mod downward;
mod env;
pub(crate) mod events;
mod fields;
mod gc;
mod groups;
mod housekeeping;
mod inquire;
mod links;
mod metrics;
mod moment;
mod names;
mod node;
mod observed;
mod parts;
mod plan;
mod pleg;
mod pod_network;
mod pods;
mod pressure;
mod probes;
mod references;
mod runtime;
mod server;
mod services;
mod specs;
mod static_pods;
mod stats;
mod status;
mod storage;
mod task;
mod termination_message;
mod usage;
mod volume_source;
mod volumes;

use std::{
    collections::BTreeMap, fmt, fs::Permissions, io, net::SocketAddr, os::unix::fs::PermissionsExt,
    path::PathBuf, sync::Arc, time::Duration,
};

use k8s_openapi::api::core::v1::Taint;
use kubeapi::serve::BindError;
use tokio::sync::watch;
use tonic::transport::Channel;

pub(crate) use self::{
    api::{Answer, KubeletApi, OwnKubelet, Request},
    convert::parse_resolv_conf,
    gc::all_pods::{Removed, clear, end_pods, pods_on_disk},
    inquire::{NoRuntime, RuntimeFound, inquire},
};
pub use self::{
    convert::{MASKED_PATHS, READONLY_PATHS},
    node::AddressSource,
    pod_network::{Connection, PodNetwork},
    pressure::{Observation, Reading, Signals},
    static_pods::StaticPods,
    stats::{busy_nanos, idle},
    storage::Storage,
    task::Task,
};
use crate::{
    component,
    config::{ControlGroups, Eviction, Housekeeping},
    edgehub::Traffic,
    metamanager::{PodsComplete, Reconnections},
    rt::{Collector, HealthMonitor},
};

/// Who may look into the pods' directories: the kubelet's.
const PODS_MODE: u32 = 0o750;

/// What EdgeD needs.
#[derive(Clone)]
pub struct Config {
    /// The node's name.
    pub node_name: String,
    /// The API: pods of this node, ConfigMaps, Secrets, tokens, nodes, leases.
    pub client: kube::Client,
    /// The API as it has Services: the same, where there is no other.
    pub services: kube::Client,
    /// An authority of the API, PEM, that pods are told of beside those of their ConfigMap `kube-root-ca.crt`.
    pub api_ca: Option<Arc<str>>,
    /// Whether the API has all pods of this node: until then, what runs of pods that it never had is kept.
    pub pods_complete: PodsComplete,
    /// Word that the cloud is connected again.
    pub online: Reconnections,
    /// The container runtime, CRI v1.
    pub runtime: Channel,
    /// Where pods' volumes are, kubelet's root: `/var/lib/kubelet`.
    pub root_dir: PathBuf,
    /// Where containers log to: `/var/log/pods`.
    pub log_dir: PathBuf,
    /// Whether volumes of Secrets, tokens and the downward API are in memory, which needs root. A node without containers of its own
    /// has them on disk: nobody is to mount something for pods that only seem to run.
    pub secrets_in_memory: bool,
    /// Whether the API is told of events.
    pub report_events: bool,
    /// Where static pods come from, if they do.
    pub static_pods: Option<StaticPods>,
    /// Settings of the kernel that pods may have beside the safe ones; those that end with `*` are beginnings.
    pub allowed_sysctls: Vec<String>,
    /// The node's own resolver configuration.
    pub resolv_conf: PathBuf,
    /// Where images are, if not at the runtime.
    pub images: Option<Channel>,
    /// How the node presents itself.
    pub node: NodeConfig,
    /// How often things are synced.
    pub sync: SyncConfig,
    /// Where health, pods and metrics are served to whoever asks, without TLS or names; `None`: nowhere. Port 0 is any.
    pub server: Option<SocketAddr>,
    /// What is shown of other rooms.
    pub shown: Shown,
    /// What is kept of what has ended, and of logs and images.
    pub housekeeping: Housekeeping,
    /// When pods are evicted.
    pub eviction: Eviction,
    /// Control groups of pods.
    pub groups: ControlGroups,
    /// The image of sandboxes, which is never removed.
    pub sandbox_image: String,
    /// The kubelet's settings that are kept to, as `/configz` tells them.
    pub settings: serde_json::Value,
    /// What there is of memory, disks and process ids, where that is not to be this machine's.
    pub signals: Option<Arc<dyn Signals>>,
    /// How pods are reached, where that is not over this machine's network.
    pub pod_network: Option<Arc<dyn PodNetwork>>,
}

/// What is shown of other rooms beside EdgeD's own.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// What goes to the cloud and comes from it.
    pub traffic: Traffic,
    /// How the agent's parts are.
    pub vitals: HealthMonitor,
    /// What the agent stores.
    pub storage: Storage,
    /// All other figures.
    pub metrics: Collector,
}

impl fmt::Debug for Config {
    /// All settings; not what they are about.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("node_name", &self.node_name)
            .field("root_dir", &self.root_dir)
            .field("log_dir", &self.log_dir)
            .field("report_events", &self.report_events)
            .field("allowed_sysctls", &self.allowed_sysctls)
            .field("resolv_conf", &self.resolv_conf)
            .field("images", &self.images)
            .field("static_pods", &self.static_pods)
            .field("node", &self.node)
            .field("sync", &self.sync)
            .field("server", &self.server)
            .field("housekeeping", &self.housekeeping)
            .field("eviction", &self.eviction)
            .field("groups", &self.groups)
            .field("sandbox_image", &self.sandbox_image)
            .finish_non_exhaustive()
    }
}

/// How the node presents itself.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Labels beside those that every node has; they win.
    pub labels: BTreeMap<String, String>,
    /// Annotations beside those that every node has; they win.
    pub annotations: BTreeMap<String, String>,
    /// Taints at registration.
    pub taints: Vec<Taint>,
    /// Where its address is taken from.
    pub address: AddressSource,
    /// How many pods fit.
    pub max_pods: u32,
    /// How many pods fit for each core; 0 for no such limit.
    pub pods_per_core: u32,
    /// What is kept from pods, by resource, `kubeReserved`: quantities.
    pub kube_reserved: BTreeMap<String, String>,
    /// The same for the operating system, `systemReserved`.
    pub system_reserved: BTreeMap<String, String>,
    /// Thresholds below which pods are evicted, by signal: quantities or percentages.
    pub eviction_hard: BTreeMap<String, String>,
    /// How many images the node's status names, the largest; `None` for all.
    pub max_images: Option<usize>,
    /// Whether the node registers itself.
    pub register: bool,
    /// Whether pods may be scheduled at once.
    pub register_schedulable: bool,
    /// What the node says of its kubelet: `v1.32.10-kubeedge-v1.23.0`.
    pub kubelet_version: String,
    /// Port of the kubelet's API on this node.
    pub kubelet_port: u16,
    /// How long the lease lasts; it is renewed four times as often.
    pub lease_duration: Duration,
    /// How often the node's status is computed.
    pub status_frequency: Duration,
    /// How often it is reported although nothing changed.
    pub report_frequency: Duration,
    /// DNS servers of pods; none means the node's resolv.conf.
    pub cluster_dns: Vec<String>,
    /// Domain of the cluster's services: `cluster.local`.
    pub cluster_domain: String,
}

impl Default for NodeConfig {
    /// EdgeCore's defaults.
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            address: AddressSource::Route,
            max_pods: 110,
            pods_per_core: 0,
            kube_reserved: BTreeMap::new(),
            system_reserved: BTreeMap::new(),
            eviction_hard: BTreeMap::new(),
            max_images: Some(0),
            register: true,
            register_schedulable: true,
            kubelet_version: "v1.32.10-kubeedge-v1.23.0".into(),
            kubelet_port: 10350,
            lease_duration: Duration::from_secs(40),
            status_frequency: Duration::from_secs(10),
            report_frequency: Duration::from_secs(300),
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".into(),
        }
    }
}

/// How often things are synced although no event asked for it, and how much is done at once.
#[derive(Clone, Debug)]
pub struct SyncConfig {
    /// Each pod: the net below the events.
    pub resync: Duration,
    /// The runtime, while it has no events to offer.
    pub relist: Duration,
    /// What pods that are gone left behind.
    pub orphans: Duration,
    /// Pods worked on at the same time.
    pub concurrency: u16,
    /// Images pulled at the same time; `None` for no limit.
    pub pulls: Option<u32>,
}

impl Default for SyncConfig {
    fn default() -> Self {
        Self {
            resync: Duration::from_secs(60),
            relist: Duration::from_secs(1),
            orphans: Duration::from_secs(60),
            concurrency: 64,
            pulls: None,
        }
    }
}

/// Why EdgeD cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory cannot be made or used.
    #[error(
        "cannot use {path} for {purpose}: run the agent as a user who may write there, or configure another one"
    )]
    Directory {
        /// Where.
        path: PathBuf,
        /// What for.
        purpose: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The server cannot listen.
    #[error(
        "health and metrics cannot be served; stop the other agent, or change tailoredKubeletConfig.readOnlyPort (0: not at all)"
    )]
    Server(#[from] BindError),
    /// The node has no usable name.
    #[error("node name {0:?} is not a DNS name: use lower-case letters, digits, '-' and '.'")]
    NodeName(String),
}

/// What is known of EdgeD from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The first list of pods is complete.
    pub pods_listed: bool,
    /// The node is registered and has reported its status.
    pub node_reported: bool,
}

/// The running EdgeD, seen from outside.
#[derive(Clone, Debug)]
pub struct Edged {
    progress: watch::Receiver<Progress>,
    api: KubeletApi,
}

impl Edged {
    /// How far it is.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// The kubelet's API, to be called in process.
    pub(crate) fn api(&self) -> KubeletApi {
        self.api.clone()
    }

    /// Waits until pods are listed and the node has reported; false when EdgeD ended before.
    pub async fn ready(&mut self) -> bool {
        let ready = |progress: &Progress| progress.pods_listed && progress.node_reported;
        self.progress.wait_for(ready).await.is_ok()
    }
}

/// Makes the directories and all parts; nothing runs before [`Task::run`].
pub fn new(config: Config) -> Result<(Edged, Task), Error> {
    if !component::is_component(&config.node_name) || config.node_name.bytes().any(|b| b.is_ascii_uppercase())
    {
        return Err(Error::NodeName(config.node_name));
    }
    let dirs = names::Dirs {
        root: config.root_dir.clone(),
        logs: config.log_dir.clone(),
        secrets_in_memory: config.secrets_in_memory,
    };
    for (path, purpose) in [(dirs.pods(), "the pods' volumes"), (dirs.logs.clone(), "the pods' logs")] {
        std::fs::create_dir_all(&path).map_err(|source| Error::Directory { path, purpose, source })?;
    }
    // nobody else on the machine is to read what pods have
    let private = std::fs::set_permissions(dirs.pods(), Permissions::from_mode(PODS_MODE));
    private.map_err(|source| Error::Directory { path: dirs.pods(), purpose: "the pods' volumes", source })?;
    let (sender, progress) = watch::channel(Progress::default());
    let (parts, api) = watch::channel(None);
    Ok((Edged { progress, api: KubeletApi::new(api) }, Task::new(config, dirs, (sender, parts))))
}

/// What an API error says to a person.
fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// An error and its causes in one line, as pod statuses have it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
