//! EdgeD: runs this node's pods, as the kubelet does.
//!
//! Input: the pods of this node, ConfigMaps, Secrets and tokens, through a `kube::Client` that may be served by any API, and a
//! container runtime that implements CRI v1. Output: containers, pod statuses, the node object and its lease, through the same
//! two.
//!
//! | part | what |
//! |---|---|
//! | `plan`, `admit`, `status`, `convert`, `env`, `services`, `downward`, `specs`, `fields` | decisions without input or output |
//! | `task`, `parts`, `background` | starting and wiring the parts; background tasks |
//! | `pods` | the pod controller: observe, plan, act, report, one pod at a time |
//! | `probes` | probes of running containers, and lifecycle hooks |
//! | `events` | events of pods and of the node |
//! | `cgroups` | control groups of pods |
//! | `volume_source`, `volumes`, `termination_message`, `disk_usage` | files of pods, and their disk usage |
//! | `device_manager` | devices of plugins, and the containers that use them |
//! | `runtime` | calls to the container runtime |
//! | `pleg`, `trigger` | changes in the runtime, as triggers of pod syncs |
//! | `node` | the node's registration, status and lease |
//! | `static_pods` | pods from files of this node |
//! | `pressure`, `eviction` | resource pressure: node conditions and refusal of pods; the loop that evicts pods |
//! | `node_shutdown`, `shutdown_status`, `ended_pods` | the end of pods when the machine shuts down |
//! | `housekeeping` | removal of ended containers and unused images, rotation of logs |
//! | `gc`, `removals` | garbage collection of deleted pods; recovery of pods that run here and that a new, empty store has lost |
//! | `settings` | settings of control groups, housekeeping, eviction and node shutdown |
//! | `metrics`, `stats` | counters of EdgeD's work; resource usage of node, pods and containers |
//! | `server` | HTTP server of health, pods, metrics and stats |
//! | `api` | the kubelet's API as the cloud uses it: logs, exec, attach, port-forward; called in process |

mod admit;
mod annotations;
mod api;
mod background;
mod cgroups;
mod convert;
mod device_manager;
mod disk_usage;
mod downward;
mod ended_pods;
mod env;
pub mod events;
mod eviction;
mod fields;
mod gc;
pub mod hold;
mod housekeeping;
mod image_puller;
mod known_pods;
mod log_links;
mod metrics;
mod names;
mod node;
mod node_shutdown;
mod observed;
mod parts;
mod plan;
mod pleg;
mod pod_network;
mod pods;
mod pressure;
mod probes;
mod references;
mod removals;
mod resize;
mod restart;
mod runtime;
mod runtime_channel;
mod runtime_info;
mod runtime_state;
mod server;
mod services;
mod settings;
mod shutdown_status;
mod specs;
mod static_pods;
mod stats;
mod status;
mod storage;
mod task;
mod termination_message;
mod timestamps;
mod trigger;
mod volume_source;
mod volumes;

use std::{
    collections::BTreeMap, fmt, fs::Permissions, io, net::SocketAddr, os::unix::fs::PermissionsExt,
    path::PathBuf, sync::Arc, time::Duration,
};

use componentbase::{Collector, HealthMonitor, Link, PodsComplete, Reconnections};
use k8s_openapi::api::core::v1::Taint;
use kubeapi::serve::BindError;
use tokio::sync::watch;
use wire::names::is_path_component;

use self::task::Publishers;
pub use self::{
    api::{KubeletApi, KubeletRequest, KubeletResponse, LocalKubelet},
    convert::{MASKED_PATHS, READONLY_PATHS, parse_resolv_conf},
    device_manager::device_files,
    gc::all_pods::{
        EndProgress, FoundPods, RemovedPods, end_pods, find_pods, pods_on_disk, remove_pod_files,
    },
    image_puller::ImagePuller,
    node::AddressSource,
    pod_network::{
        CONNECTED, Connection, PodNetwork, REFUSED, RuntimeNetwork, pod_socket, read_line,
    },
    pressure::{
        Observation, Reading, Shortage, Signals, disk as disk_space, low_signals, machine_signals,
    },
    restart::restart_containers,
    runtime::CallError,
    runtime_channel::RuntimeChannel,
    runtime_info::{
        CniDirectories, RuntimeInfo, RuntimeInfoError, SIMULATED_RUNTIME, runtime_info,
    },
    runtime_state::{RuntimeState, runtime_state},
    settings::{
        CgroupDriver, ControlGroups, Eviction, Housekeeping, NodeShutdown, ShutdownPeriod, Signal,
        Threshold, ThresholdValue,
    },
    specs::is_terminal,
    static_pods::StaticPods,
    stats::{busy_nanos, idle},
    storage::Storage,
    task::Task,
};

/// Mode of the pods' directory, as the kubelet's.
const PODS_MODE: u32 = 0o750;

/// Configuration and dependencies of EdgeD.
#[derive(Clone)]
pub struct Config {
    /// The node's name.
    pub node_name: String,
    /// The API: pods of this node, ConfigMaps, Secrets, tokens, nodes, leases.
    pub client: kube::Client,
    /// The API for Services: the same client, unless another one serves them.
    pub services: kube::Client,
    /// CA certificate of the API, PEM, which pods are given in addition to those of the ConfigMap `kube-root-ca.crt`.
    pub api_ca: Option<Arc<str>>,
    /// Whether the API has all pods of this node. Until then, containers of unknown pods are kept.
    pub pods_complete: PodsComplete,
    /// Notifies when the cloud is connected again.
    pub online: Reconnections,
    /// The container runtime, CRI v1.
    pub runtime: RuntimeChannel,
    /// Directory of pods' volumes, the kubelet's root: `/var/lib/kubelet`.
    pub root_dir: PathBuf,
    /// Directory of containers' logs: `/var/log/pods`.
    pub log_dir: PathBuf,
    /// Whether volumes of Secrets, tokens and the downward API are in memory, which needs root. A node with simulated containers
    /// has them on disk, so that nothing is mounted for them.
    pub secrets_in_memory: bool,
    /// Whether device plugins may register, on a socket below `root_dir`. Simulated containers use no devices.
    pub device_plugins: bool,
    /// Whether events are reported to the API.
    pub report_events: bool,
    /// Where static pods are read from, if enabled.
    pub static_pods: Option<StaticPods>,
    /// Sysctls that pods may set in addition to the safe ones. A `*` at the end matches any suffix.
    pub allowed_sysctls: Vec<String>,
    /// Path of the node's resolver configuration.
    pub resolv_conf: PathBuf,
    /// The image service, if it is separate from the runtime.
    pub images: Option<RuntimeChannel>,
    /// The node object.
    pub node: NodeConfig,
    /// Intervals and concurrency of syncs.
    pub sync: SyncConfig,
    /// Address at which health, pods and metrics are served, without TLS and authentication; `None` disables the server. Port 0
    /// selects a free port.
    pub server: Option<SocketAddr>,
    /// State of other parts of the agent that the server shows.
    pub diagnostics: Diagnostics,
    /// Limits of ended containers, logs and images.
    pub housekeeping: Housekeeping,
    /// Thresholds of eviction.
    pub eviction: Eviction,
    /// How long pods may take to end when the machine shuts down.
    pub shutdown: NodeShutdown,
    /// Settings of pods' control groups.
    pub groups: ControlGroups,
    /// The image of sandboxes, which is never removed.
    pub sandbox_image: String,
    /// The kubelet's settings that take effect, for `/configz`.
    pub settings: Arc<serde_json::Value>,
    /// Source of the signals of memory, disks and process ids, if not this machine.
    pub signals: Option<Arc<dyn Signals>>,
    /// How pods are connected to, if not over this machine's network.
    pub pod_network: Option<Arc<dyn PodNetwork>>,
}

/// State of other parts of the agent that EdgeD's server shows.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    /// The connection to the cloud; `None` without EdgeHub.
    pub link: Option<watch::Receiver<Link>>,
    /// Health of the agent's parts.
    pub vitals: HealthMonitor,
    /// The agent's store.
    pub storage: Storage,
    /// All other metrics.
    pub metrics: Collector,
}

impl fmt::Debug for Config {
    /// Prints the settings without the dependencies.
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
            .field("shutdown", &self.shutdown)
            .field("groups", &self.groups)
            .field("sandbox_image", &self.sandbox_image)
            .finish_non_exhaustive()
    }
}

/// Configuration of the node object.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Labels in addition to those that every node has, which they override.
    pub labels: BTreeMap<String, String>,
    /// Annotations in addition to those that every node has, which they override.
    pub annotations: BTreeMap<String, String>,
    /// Taints at registration.
    pub taints: Vec<Taint>,
    /// Where the node's address is taken from.
    pub address: AddressSource,
    /// The resources of the node, if it is simulated, instead of those of the machine.
    pub capacity: Capacity,
    /// Maximum number of pods.
    pub max_pods: u32,
    /// Maximum number of pods for each core; 0 for no such limit.
    pub pods_per_core: u32,
    /// Resources reserved for the agent, `kubeReserved`: quantities by resource.
    pub kube_reserved: BTreeMap<String, String>,
    /// Resources reserved for the operating system, `systemReserved`: quantities by resource.
    pub system_reserved: BTreeMap<String, String>,
    /// Hard eviction thresholds by signal: quantities or percentages.
    pub eviction_hard: BTreeMap<String, String>,
    /// Maximum number of images in the node's status, the largest first; `None` for all.
    pub max_images: Option<usize>,
    /// Whether the node registers itself.
    pub register: bool,
    /// Whether pods may be scheduled on the node right after registration.
    pub register_schedulable: bool,
    /// The kubelet version in the node's status: `v1.32.10-kubeedge-v1.23.0`.
    pub kubelet_version: String,
    /// Port of the kubelet's API on this node.
    pub kubelet_port: u16,
    /// Duration of the lease, which is renewed four times in that time.
    pub lease_duration: Duration,
    /// How often the node's status is computed.
    pub status_frequency: Duration,
    /// How often the node's status is reported although it has not changed.
    pub report_frequency: Duration,
    /// DNS servers of pods; if empty, pods use the node's resolv.conf.
    pub cluster_dns: Vec<String>,
    /// Domain of the cluster's services: `cluster.local`.
    pub cluster_domain: String,
}

/// The version of Kubernetes whose kubelet EdgeD replaces.
pub const KUBERNETES_VERSION: &str = "v1.32.10";

/// Resources of a node that replace those of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct Capacity {
    /// The number of cores.
    pub cpus: Option<i64>,
    /// The memory in bytes.
    pub memory: Option<i64>,
}

impl Default for NodeConfig {
    /// EdgeCore's defaults.
    fn default() -> Self {
        Self {
            capacity: Capacity::default(),
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
            kubelet_version: format!("{KUBERNETES_VERSION}-kubeedge-{}", wire::version::KUBEEDGE),
            kubelet_port: 10350,
            lease_duration: Duration::from_secs(40),
            status_frequency: Duration::from_secs(10),
            report_frequency: Duration::from_secs(300),
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".into(),
        }
    }
}

/// Intervals of syncs that no event triggers, and limits of concurrency.
#[derive(Clone, Debug)]
pub struct SyncConfig {
    /// Interval of syncs of each pod without any event.
    pub resync: Duration,
    /// Interval of comparing the runtime's lists while it has no events.
    pub relist: Duration,
    /// Interval of the garbage collection of deleted pods.
    pub orphans: Duration,
    /// Maximum number of pods synced at the same time.
    pub concurrency: u16,
    /// Maximum number of images pulled at the same time; `None` for no limit.
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

/// Why EdgeD cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory cannot be created or used.
    #[error(
        "cannot use {path} for {purpose}: run the agent as a user with write permission, or configure another path"
    )]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// What the directory is used for.
        purpose: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The server cannot listen.
    #[error(
        "cannot serve health and metrics; stop the other agent, or change tailoredKubeletConfig.readOnlyPort (0 disables them)"
    )]
    Server(#[from] BindError),
    /// The node has no usable name.
    #[error("node name {0:?} is not a DNS name: use lower-case letters, digits, '-' and '.'")]
    NodeName(String),
}

/// The progress of EdgeD's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whether the first list of pods is complete.
    pub pods_listed: bool,
    /// Whether the node is registered and has reported its status.
    pub node_reported: bool,
}

/// Handle to the running EdgeD.
#[derive(Clone, Debug)]
pub struct Edged {
    progress: watch::Receiver<Progress>,
    api: KubeletApi,
}

impl Edged {
    /// Returns the progress of EdgeD's start.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Returns the kubelet's API, to be called in process.
    pub fn api(&self) -> KubeletApi {
        self.api.clone()
    }

    /// Waits until pods are listed and the node has reported. Returns false if EdgeD ended before.
    pub async fn ready(&mut self) -> bool {
        let ready = |progress: &Progress| progress.pods_listed && progress.node_reported;
        self.progress.wait_for(ready).await.is_ok()
    }
}

/// Creates the directories and all parts. Nothing runs before [`Task::run`].
pub fn new(config: Config) -> Result<(Edged, Task), Error> {
    if !is_path_component(&config.node_name)
        || config.node_name.bytes().any(|b| b.is_ascii_uppercase())
    {
        return Err(Error::NodeName(config.node_name));
    }
    let dirs = names::Dirs {
        root: config.root_dir.clone(),
        logs: config.log_dir.clone(),
        secrets_in_memory: config.secrets_in_memory,
    };
    for (path, purpose) in [
        (dirs.pods(), "the pods' volumes"),
        (dirs.logs.clone(), "the pods' logs"),
    ] {
        std::fs::create_dir_all(&path).map_err(|source| Error::Directory {
            path,
            purpose,
            source,
        })?;
    }
    // other users of the machine must not read pods' files
    let private = std::fs::set_permissions(dirs.pods(), Permissions::from_mode(PODS_MODE));
    private.map_err(|source| Error::Directory {
        path: dirs.pods(),
        purpose: "the pods' volumes",
        source,
    })?;
    let (sender, progress) = watch::channel(Progress::default());
    let (parts, api) = watch::channel(None);
    Ok((
        Edged {
            progress,
            api: KubeletApi::new(api),
        },
        Task::new(
            config,
            dirs,
            Publishers {
                progress: sender,
                api: parts,
            },
        ),
    ))
}

/// Returns the API's message of an error, or the error's own text.
fn api_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}
