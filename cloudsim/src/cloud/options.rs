//! What a cloud is started with.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use super::ClusterOptions;
use crate::{
    controllers::manager, hub::Limits, pki::ServiceAccountTokens, router::RouterOptions,
    streams::KubeletOptions,
};

/// The file of the store in a data directory.
pub const DATABASE: &str = "cloudsim.db";

/// What a cloud is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where its servers listen.
    pub address: IpAddr,
    /// Names and addresses by which it is reached; they stand in its certificates. The first one stands in the kubeconfig.
    pub names: Vec<String>,
    /// Port of the API; 0 for any.
    pub api_port: u16,
    /// Port of the enrolment endpoints; 0 for any.
    pub https_port: u16,
    /// Port of CloudHub's WebSocket; 0 for any.
    pub ws_port: u16,
    /// UDP port of CloudHub's QUIC, 0 for any; `None`: it is not served.
    pub quic_port: Option<u16>,
    /// Port that nodes dial for their stream tunnels, over which logs, exec, attach and port-forward go; 0 for any. `None`: it is not
    /// served.
    pub tunnel_port: Option<u16>,
    /// UDP port of the relay between nodes, 0 for any; `None`: it is not served.
    pub relay_port: Option<u16>,
    /// What an API server that stands elsewhere asks nodes' kubelets by; `None`: it is not served.
    pub kubelets: Option<KubeletOptions>,
    /// The router's REST listener; `None`: it is not served.
    pub router: Option<RouterOptions>,
    /// Where to keep its state; `None` keeps it in memory.
    pub data_dir: Option<PathBuf>,
    /// The keys that Secrets are encrypted with on the disk; `None`: they lie there in plain text.
    pub key_file: Option<PathBuf>,
    /// Where to write a kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// How old a node's lease may get before the node is NotReady.
    pub lease_grace: Duration,
    /// Which controllers of a cluster run.
    pub controllers: manager::Switches,
    /// Whether stored roles and bindings say what service accounts and other callers of the API may do. Without, only
    /// `system:masters` get in.
    pub rbac: bool,
    /// What the hub allows.
    pub limits: Limits,
    /// How many replicas of the hub stand behind its address; connections go to one after the other.
    pub hubs: usize,
    /// How long after its end a node's certificate is good for its own renewal.
    pub renewal_grace: Duration,
    /// The longest that a token of a service account lives.
    pub max_token_lifetime: Duration,
    /// The cluster before whose API server it stands; `None`: its API is its own, and what the cluster has already is its own, too.
    pub cluster: Option<ClusterOptions>,
    /// Names that no node gets: those that this cloud was given on purpose.
    pub reserved: Vec<String>,
    /// What chance is drawn from where links are bad on purpose.
    pub seed: u64,
}

impl Default for Options {
    /// KubeEdge's ports on the loopback interface, state in memory.
    fn default() -> Self {
        Self {
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            names: vec!["127.0.0.1".to_owned(), "localhost".to_owned()],
            api_port: 6443,
            https_port: 10002,
            ws_port: 10000,
            quic_port: None,
            tunnel_port: Some(10004),
            relay_port: None,
            kubelets: None,
            router: None,
            data_dir: None,
            key_file: None,
            kubeconfig: None,
            lease_grace: Duration::from_secs(40),
            controllers: manager::Switches::default(),
            rbac: false,
            limits: Limits::default(),
            hubs: 1,
            renewal_grace: Duration::ZERO,
            max_token_lifetime: ServiceAccountTokens::MAX_LIFETIME,
            cluster: None,
            reserved: Vec::new(),
            seed: 1,
        }
    }
}

impl Options {
    /// Ports that are free, for tests and for several clouds on one machine.
    pub fn any_ports(self) -> Self {
        let tunnel_port = self.tunnel_port.map(|_| 0);
        let relay_port = self.relay_port.map(|_| 0);
        let router = self.router.map(|router| RouterOptions { port: 0, ..router });
        Self { api_port: 0, https_port: 0, ws_port: 0, tunnel_port, relay_port, router, ..self }
    }
}
