//! Settings of the modules around the pods.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{Endpoint, HostPort, Secret, TlsFiles};

/// The store's own settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaManager {
    /// How long the cloud may take to answer what this node asks of it.
    pub remote_query_timeout: Duration,
    /// Time between two reports of a pod's status that has not changed; `None`: only what has changed is reported.
    pub pod_status_sync_interval: Option<Duration>,
    /// The Kubernetes API for this node's pods.
    pub meta_server: Option<MetaServer>,
}

/// The Kubernetes API for this node's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaServer {
    /// Where it listens.
    pub server: SocketAddr,
    /// Address on a dummy interface, for pods.
    pub dummy_server: SocketAddr,
    /// Its certificate.
    pub tls: TlsFiles,
    /// Issuers of service account tokens that are accepted.
    pub issuers: Vec<String>,
    /// Audiences that are accepted; empty: the issuers.
    pub audiences: Vec<String>,
    /// Keys that sign service account tokens.
    pub key_files: Vec<PathBuf>,
    /// Whether every program of this machine may use it without credentials, as with EdgeCore.
    pub anonymous_auth: bool,
    /// The group that may read its kubeconfig, by name or number.
    pub client_group: Option<String>,
    /// Names beside the loopback interface's own under which it may be asked.
    pub allowed_hosts: Vec<String>,
}

/// The MQTT broker and its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBus {
    /// Which brokers there are.
    pub mode: MqttMode,
    /// Where the broker inside the agent listens.
    pub internal_server: SocketAddr,
    /// Whether it does so over TLS.
    pub internal_tls: bool,
    /// Who may do what there; `None`: everybody everything.
    pub internal_access: Option<InternalAccess>,
    /// The broker beside it.
    pub external_server: HostPort,
    /// MQTT quality of service, 0 to 2.
    pub qos: u8,
    /// Whether the broker keeps the last message of a topic.
    pub retain: bool,
    /// Messages that wait for a client.
    pub session_queue_size: u32,
    /// Client identifier; `None`: one is made of the node's name.
    pub client_id: Option<String>,
    /// User name at the broker.
    pub username: Option<String>,
    /// Password at the broker.
    pub password: Option<Secret>,
    /// TLS with the broker beside the agent, and that inside where it listens over TLS.
    pub tls: Option<TlsFiles>,
}

/// Who may connect to the broker inside the agent, and use which topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalAccess {
    /// Users with their passwords, a line each.
    pub password_file: Option<PathBuf>,
    /// Whether clients without a user are let in.
    pub anonymous: bool,
    /// The first that fits decides; none: everything is allowed.
    pub rules: Vec<mqtt::Rule>,
}

/// Which MQTT brokers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MqttMode {
    /// One inside the agent.
    Internal,
    /// Both.
    Both,
    /// One beside it.
    External,
}

/// Devices and their mappers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTwin {
    /// Folder of the device management socket.
    pub dmi_socket_dir: PathBuf,
}

/// The tunnel for logs and exec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeStream {
    /// The cloud's end.
    pub endpoint: Endpoint,
    /// Identity on the tunnel.
    pub tls: TlsFiles,
}
