//! Settings of the modules around the pods.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{Endpoint, HostPort, Secret, TlsFiles};

/// The settings of MetaManager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaManager {
    /// How long the cloud may take to answer a request of this node.
    pub remote_query_timeout: Duration,
    /// The time between two reports of a pod's status that has not changed; `None` reports only changes.
    pub pod_status_sync_interval: Option<Duration>,
    /// The Kubernetes API for this node's pods.
    pub meta_server: Option<MetaServer>,
}

/// The Kubernetes API for this node's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaServer {
    /// The address to listen on.
    pub server: SocketAddr,
    /// The address of the dummy interface, for pods.
    pub dummy_server: SocketAddr,
    /// The server's certificate.
    pub tls: TlsFiles,
    /// The accepted issuers of service account tokens.
    pub issuers: Vec<String>,
    /// The accepted audiences; empty for the issuers.
    pub audiences: Vec<String>,
    /// The public keys that sign service account tokens.
    pub key_files: Vec<PathBuf>,
    /// Whether every program of this machine may call it without credentials, as with EdgeCore.
    pub anonymous_auth: bool,
    /// The group that may read its kubeconfig, by name or number.
    pub client_group: Option<String>,
    /// Host names beside the loopback interface's own under which it may be called.
    pub allowed_hosts: Vec<String>,
}

/// The settings of EventBus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBus {
    /// The brokers.
    pub mode: MqttMode,
    /// The address of the internal broker.
    pub internal_server: SocketAddr,
    /// Whether the internal broker uses TLS.
    pub internal_tls: bool,
    /// The access rules of the internal broker; `None` allows everybody everything.
    pub internal_access: Option<InternalAccess>,
    /// The address of the external broker.
    pub external_server: HostPort,
    /// MQTT quality of service, 0 to 2.
    pub qos: u8,
    /// Whether the broker retains the last message of a topic.
    pub retain: bool,
    /// The most messages that wait for a client.
    pub session_queue_size: u32,
    /// The client id; `None` for one that is derived from the node's name.
    pub client_id: Option<String>,
    /// The user name at the external broker.
    pub username: Option<String>,
    /// The password at the external broker.
    pub password: Option<Secret>,
    /// TLS to the external broker, and of the internal one if that uses TLS.
    pub tls: Option<TlsFiles>,
}

/// Who may connect to the internal broker, and use which topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalAccess {
    /// The file of users with their passwords, a line each.
    pub password_file: Option<PathBuf>,
    /// Whether anonymous clients are accepted.
    pub anonymous: bool,
    /// The first rule that matches decides; without rules everything is allowed.
    pub rules: Vec<mqtt::Rule>,
}

/// Which MQTT brokers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MqttMode {
    /// The internal broker in the agent.
    Internal,
    /// Both.
    Both,
    /// An external broker.
    External,
}

/// Devices and their mappers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceTwin {
    /// The folder of DMI's socket.
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
