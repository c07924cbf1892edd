//! The configuration as the rooms take it: checked, in Rust's own types.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

mod edge_mesh;
mod groups;
mod resources;
mod service_bus;
mod services;

pub use self::edge_mesh::{DNS_PORT, Dns, EdgeMesh, Network, ServiceFilter, Strategy};
pub use self::groups::{CgroupDriver, ControlGroups};
pub use self::resources::{Amount, Eviction, Housekeeping, Signal, Threshold};
pub use self::service_bus::{CertificateFiles, ServiceBus};
pub use self::services::{
    DeviceTwin, EdgeStream, EventBus, InternalAccess, MetaManager, MetaServer, MqttMode,
};

/// Where the keys of the database are.
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
    /// The door to the cloud.
    pub edge_hub: EdgeHub,
    /// SQLite file that holds what the cloud said.
    pub database: PathBuf,
    /// Keys that Secrets and tokens are encrypted with on the disk; `None`: they are not.
    pub database_keys: Option<DatabaseKeys>,
    /// Running pods.
    pub edged: Edged,
    /// The store's own settings.
    pub meta_manager: MetaManager,
    /// The MQTT broker and its clients; `None` when switched off, as for all that follow.
    pub event_bus: Option<EventBus>,
    /// Devices and their mappers.
    pub device_twin: Option<DeviceTwin>,
    /// The tunnel for logs and exec.
    pub edge_stream: Option<EdgeStream>,
    /// Calls of local HTTP servers for the cloud, and of the cloud's for local programs.
    pub service_bus: Option<ServiceBus>,
    /// Services by name and address.
    pub edge_mesh: Option<EdgeMesh>,
    /// Whether MetaServer asks who calls: the feature gate of this name.
    pub require_authorization: bool,
}

/// This node as the cluster sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name of the Node object; the certificate is made for it.
    pub name: String,
    /// Address to report; `None`: the one that reaches the cloud.
    pub ip: Option<IpAddr>,
    /// Network interface whose address is reported; goes before `ip`.
    pub interface: Option<String>,
    /// Whether the agent creates the Node object.
    pub register: bool,
    /// Whether the scheduler may place pods here from the start.
    pub schedulable: bool,
    /// Labels to register with.
    pub labels: BTreeMap<String, String>,
    /// Taints to register with.
    pub taints: Vec<Taint>,
    /// Validity of the node's lease.
    pub lease_duration: Duration,
    /// Time between two looks at the node's own state; a change is reported at once.
    pub status_update_frequency: Duration,
    /// Time between two reports of an unchanged state.
    pub status_report_frequency: Duration,
    /// Most pods that may run here.
    pub max_pods: u32,
    /// Most pods for each core; 0 for no such limit.
    pub pods_per_core: u32,
    /// Most images that the node's status names; `None` for all.
    pub max_images: Option<usize>,
    /// What the node keeps from pods, by resource name: quantities as written, `kubeReserved`.
    pub kube_reserved: BTreeMap<String, String>,
    /// The same for the operating system, `systemReserved`.
    pub system_reserved: BTreeMap<String, String>,
    /// Thresholds below which pods are evicted, by signal.
    pub eviction_hard: BTreeMap<String, String>,
}

/// A taint to register with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, may be empty.
    pub value: String,
    /// What it does to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaintEffect {
    /// New pods are not placed here.
    NoSchedule,
    /// New pods are placed elsewhere if possible.
    PreferNoSchedule,
    /// Running pods leave.
    NoExecute,
}

impl TaintEffect {
    /// Its name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// The door to the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeHub {
    /// How messages travel.
    pub transport: Transport,
    /// The servers that carry the messages, at least one; the first that answers is taken.
    pub servers: Vec<HostPort>,
    /// Limit of dialling and handshakes.
    pub handshake_timeout: Duration,
    /// Limit of writing one message.
    pub write_deadline: Duration,
    /// The HTTPS servers that hand out certificates, at least one; the first that answers is taken.
    pub http_servers: Vec<HostPort>,
    /// The join token, needed until there is a certificate.
    pub token: Option<Secret>,
    /// Time between two signs of life.
    pub heartbeat: Duration,
    /// Upward messages a second; 0 for no limit.
    pub qps: u32,
    /// Upward messages that may go out at once.
    pub burst: u32,
    /// First element of the URL path and header `Project_id`.
    pub project_id: String,
    /// The cloud's CA, this node's certificate and key; the agent writes them.
    pub tls: TlsFiles,
    /// Whether the certificate is renewed before it ends.
    pub rotate_certificates: bool,
}

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// WebSocket over TLS over TCP.
    WebSocket,
    /// KubeEdge's own framing over QUIC.
    Quic,
}

/// A server of the cloud and how long to wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where it is.
    pub server: HostPort,
    /// Limit of dialling and handshakes.
    pub handshake_timeout: Duration,
    /// Limit of waiting for one message while a read is due.
    pub read_deadline: Duration,
    /// Limit of writing one message.
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
    /// Certificate of the CA that the other end must have.
    pub ca: PathBuf,
    /// Own certificate.
    pub cert: PathBuf,
    /// Own private key.
    pub key: PathBuf,
}

/// Text that is not shown in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Running pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edged {
    /// Whether this node runs pods.
    pub enable: bool,
    /// Pods' volumes and state.
    pub root_dir: PathBuf,
    /// Containers' logs.
    pub pod_logs_dir: PathBuf,
    /// Pods from files of this folder run without the cloud; `None` when switched off.
    pub static_pod_path: Option<PathBuf>,
    /// Time between two looks into that folder.
    pub file_check_frequency: Duration,
    /// Time between two full comparisons of what runs and what should.
    pub sync_frequency: Duration,
    /// CRI socket for containers, such as `unix:///run/containerd/containerd.sock`.
    pub runtime_endpoint: String,
    /// CRI socket for images.
    pub image_endpoint: String,
    /// Most images pulled at the same time; `None` for no limit.
    pub parallel_image_pulls: Option<u32>,
    /// What is kept of what has ended, and of logs and images.
    pub housekeeping: Housekeeping,
    /// When pods are evicted.
    pub eviction: Eviction,
    /// Control groups of pods.
    pub groups: ControlGroups,
    /// The image of sandboxes, as configured: it is never removed.
    pub sandbox_image: String,
    /// Name servers for pods; empty: the node's own.
    pub cluster_dns: Vec<IpAddr>,
    /// Domain that pods search first.
    pub cluster_domain: String,
    /// The node's resolver configuration; `None`: pods get none of it.
    pub resolv_conf: Option<PathBuf>,
    /// Where this node's own HTTP server listens (logs, exec, metrics).
    pub server: SocketAddr,
    /// Whether events are sent to the cloud.
    pub report_events: bool,
    /// Settings of the kernel that pods may have beside the safe ones: names, or beginnings that end with `*`.
    pub allowed_sysctls: Vec<String>,
    /// The kubelet's settings that are kept to, under its own names: `/configz`.
    pub settings: serde_json::Value,
}
