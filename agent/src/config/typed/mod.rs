//! The configuration as the modules use it: checked, in Rust's own types.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use edged::{ControlGroups, Eviction, Housekeeping, NodeShutdown};

mod edge_mesh;
mod service_bus;
mod services;

pub use self::edge_mesh::{DNS_PORT, Dns, EdgeMesh, Network, ServiceFilter, Strategy};
pub use self::service_bus::{CertificateFiles, ServiceBus};
pub use self::services::{
    DeviceTwin, EdgeStream, EventBus, InternalAccess, MetaManager, MetaServer, MqttMode,
};

/// Where the keys of the database are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseKeys {
    /// In a file.
    File(PathBuf),
    /// In the kernel's keyring, as a key of type `user` with this description.
    Keyring(String),
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This node as the cluster sees it.
    pub node: Node,
    /// The connection to the cloud.
    pub edge_hub: EdgeHub,
    /// The path of EdgeCore's SQLite database; the store is beside it.
    pub database: PathBuf,
    /// The keys that encrypt Secrets and tokens on disk; `None` for no encryption.
    pub database_keys: Option<DatabaseKeys>,
    /// The pods.
    pub edged: Edged,
    /// The store and MetaServer.
    pub meta_manager: MetaManager,
    /// The MQTT brokers; `None` if disabled, as for all that follow.
    pub event_bus: Option<EventBus>,
    /// Devices and their mappers.
    pub device_twin: Option<DeviceTwin>,
    /// The tunnel for logs and exec.
    pub edge_stream: Option<EdgeStream>,
    /// Calls of local HTTP servers for the cloud, and of the cloud's for local programs.
    pub service_bus: Option<ServiceBus>,
    /// Node jobs of the cloud.
    pub task_manager: Option<TaskManager>,
    /// Services by name and address.
    pub edge_mesh: Option<EdgeMesh>,
    /// Whether MetaServer authenticates callers: the feature gate of this name.
    pub require_authorization: bool,
    /// The socket of `edge-agent status`.
    pub status: StatusSocket,
}

/// Node jobs of the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManager {
    /// Whether a job may change settings on which the connection to the cloud depends.
    pub allow_connection_updates: bool,
}

/// The socket on which the agent reports its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSocket {
    /// Its path.
    pub socket: PathBuf,
    /// The group that may connect, by name or number, beside root.
    pub group: Option<String>,
}

/// This node as the cluster sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name of the Node object, which is also in the certificate.
    pub name: String,
    /// The address to report; `None` for the one that reaches the cloud.
    pub ip: Option<IpAddr>,
    /// The network interface whose address is reported; it has priority over `ip`.
    pub interface: Option<String>,
    /// Whether the agent creates the Node object.
    pub register: bool,
    /// Whether the scheduler may place pods here from the start.
    pub schedulable: bool,
    /// Labels to register with.
    pub labels: BTreeMap<String, String>,
    /// Taints to register with.
    pub taints: Vec<Taint>,
    /// The validity of the node's lease.
    pub lease_duration: Duration,
    /// The time between two checks of the node's own state; a change is reported at once.
    pub status_update_frequency: Duration,
    /// The time between two reports of an unchanged state.
    pub status_report_frequency: Duration,
    /// The resources of a simulated node instead of those of the machine. No setting of the file has them.
    pub capacity: edged::Capacity,
    /// The most pods that may run here.
    pub max_pods: u32,
    /// The most pods for each core; 0 for no such limit.
    pub pods_per_core: u32,
    /// The most images in the node's status; `None` for all.
    pub max_images: Option<usize>,
    /// The resources that are reserved for Kubernetes components, quantities by resource name: `kubeReserved`.
    pub kube_reserved: BTreeMap<String, String>,
    /// The resources that are reserved for the operating system: `systemReserved`.
    pub system_reserved: BTreeMap<String, String>,
    /// The thresholds below which pods are evicted, by signal.
    pub eviction_hard: BTreeMap<String, String>,
}

/// A taint to register with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// The key of the taint.
    pub key: String,
    /// The value of the taint, may be empty.
    pub value: String,
    /// The effect on pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// The effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaintEffect {
    /// New pods are not placed here.
    NoSchedule,
    /// New pods are placed elsewhere if possible.
    PreferNoSchedule,
    /// Running pods are evicted.
    NoExecute,
}

impl TaintEffect {
    /// Returns the effect's name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// The connection to the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeHub {
    /// The transport of messages.
    pub transport: Transport,
    /// The servers of CloudHub, at least one; the first that answers is used.
    pub servers: Vec<HostPort>,
    /// How long dialling and handshakes may take.
    pub handshake_timeout: Duration,
    /// How long writing one message may take.
    pub write_deadline: Duration,
    /// The HTTPS servers that issue certificates, at least one; the first that answers is used.
    pub http_servers: Vec<HostPort>,
    /// The join token, needed until there is a certificate.
    pub token: Option<Secret>,
    /// The time between two keepalive messages.
    pub heartbeat: Duration,
    /// Upward messages a second; 0 for no limit.
    pub qps: u32,
    /// The burst of upward messages.
    pub burst: u32,
    /// First element of the URL path and header `Project_id`.
    pub project_id: String,
    /// The cloud's CA, this node's certificate and key; the agent writes them.
    pub tls: TlsFiles,
    /// Whether the certificate is renewed before it expires.
    pub rotate_certificates: bool,
}

/// The transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// WebSocket over TLS over TCP.
    WebSocket,
    /// KubeEdge's own framing over QUIC.
    Quic,
}

/// A server of the cloud and its timeouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The address of the server.
    pub server: HostPort,
    /// How long dialling and handshakes may take.
    pub handshake_timeout: Duration,
    /// How long the connection may be silent.
    pub read_deadline: Duration,
    /// How long writing one message may take.
    pub write_deadline: Duration,
}

/// A host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Name or address, an IPv6 address without brackets.
    pub host: String,
    /// Port, not 0.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The three PEM files of one end of a TLS connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the CA that the other end must have.
    pub ca: PathBuf,
    /// The own certificate.
    pub cert: PathBuf,
    /// The own private key.
    pub key: PathBuf,
}

/// Text that is not shown in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The settings of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edged {
    /// Whether this node runs pods.
    pub enable: bool,
    /// The directory of pods' volumes and state.
    pub root_dir: PathBuf,
    /// The directory of containers' logs.
    pub pod_logs_dir: PathBuf,
    /// The folder of static pods' manifests; `None` if disabled.
    pub static_pod_path: Option<PathBuf>,
    /// The time between two reads of that folder.
    pub file_check_frequency: Duration,
    /// The time between two full syncs of all pods.
    pub sync_frequency: Duration,
    /// The CRI socket for containers, such as `unix:///run/containerd/containerd.sock`.
    pub runtime_endpoint: String,
    /// The CRI socket for images.
    pub image_endpoint: String,
    /// The most images pulled at the same time; `None` for no limit.
    pub parallel_image_pulls: Option<u32>,
    /// The garbage collection of containers and images, and log rotation.
    pub housekeeping: Housekeeping,
    /// When pods are evicted.
    pub eviction: Eviction,
    /// How long pods may take to end when the machine shuts down.
    pub shutdown: NodeShutdown,
    /// The control groups of pods.
    pub groups: ControlGroups,
    /// The image of sandboxes, as configured: it is never removed.
    pub sandbox_image: String,
    /// The name servers of pods; empty for the node's own.
    pub cluster_dns: Vec<IpAddr>,
    /// The domain that pods search first.
    pub cluster_domain: String,
    /// The node's resolver configuration; `None` if pods get none of it.
    pub resolv_conf: Option<PathBuf>,
    /// The address of this node's own HTTP server (logs, exec, metrics).
    pub server: SocketAddr,
    /// Whether events are sent to the cloud.
    pub report_events: bool,
    /// The sysctls that pods may set beside the safe ones: names, or prefixes that end with `*`.
    pub allowed_sysctls: Vec<String>,
    /// The kubelet's settings that are used, under its own names: `/configz`.
    pub settings: Arc<serde_json::Value>,
}
