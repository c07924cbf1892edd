//! The options of a cloud.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use objectstore::Store;
use record::Recorder;

use super::{Addresses, ClusterOptions};
use crate::{
    controllers::manager, faults::Faults, hub::Limits, kubeconfig::Destination,
    pki::ServiceAccountTokens, router::RouterOptions, snapshot::TakeSnapshot,
    streams::KubeletOptions,
};

/// The name of the store's file in the data directory.
pub const DATABASE: &str = "cloudsim.db";

/// The options of a cloud.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address on which servers listen.
    pub address: IpAddr,
    /// The names and addresses of the cloud, for its certificates. The first one is used in the kubeconfig.
    pub names: Vec<String>,
    /// The port of the API; 0 for any free one.
    pub api_port: u16,
    /// The port of the enrolment endpoints; 0 for any free one.
    pub https_port: u16,
    /// The port of CloudHub's WebSocket; 0 for any free one.
    pub ws_port: u16,
    /// The UDP port of CloudHub's QUIC, 0 for any free one; `None` if it is not served.
    pub quic_port: Option<u16>,
    /// The port for nodes' stream tunnels, which carry logs, exec, attach and port-forward; 0 for any free one. `None` if it is not
    /// served.
    pub tunnel_port: Option<u16>,
    /// The UDP port of the relay between nodes, 0 for any free one; `None` if it is not served.
    pub relay_port: Option<u16>,
    /// The endpoint for kubelets behind an external API server; `None` if it is not served.
    pub kubelets: Option<KubeletOptions>,
    /// The router's REST listener; `None` if it is not served.
    pub router: Option<RouterOptions>,
    /// The directory for the state; `None` keeps it in memory.
    pub data_dir: Option<PathBuf>,
    /// The store of the state if there is no data directory, for one that outlives the cloud; `None` for a new one in memory.
    pub store: Option<Arc<dyn Store>>,
    /// Takes snapshots of this cloud with its nodes; `None` if it cannot be done.
    pub snapshots: Option<Arc<dyn TakeSnapshot>>,
    /// The file with the keys that encrypt stored Secrets; `None` stores them in plain text.
    pub key_file: Option<PathBuf>,
    /// The files to merge a kubeconfig into.
    pub kubeconfig: Option<Destination>,
    /// How old a node's lease may become before the node is NotReady.
    pub lease_grace: Duration,
    /// The cluster controllers that run.
    pub controllers: manager::Switches,
    /// Whether RBAC authorizes service accounts and other callers. Without it, only `system:masters` has access.
    pub rbac: bool,
    /// The limits of the hub.
    pub limits: Limits,
    /// The number of hub replicas behind one address; connections go to them round-robin.
    pub hubs: usize,
    /// How long after its end a node's certificate can be renewed.
    pub renewal_grace: Duration,
    /// The longest lifetime of a service account token.
    pub max_token_lifetime: Duration,
    /// The existing cluster; `None` if the API and the cluster's controllers are the cloud's own.
    pub cluster: Option<ClusterOptions>,
    /// Names that no node gets: those that were explicitly given to this cloud.
    pub reserved: Vec<String>,
    /// The seed of faults' random decisions.
    pub seed: u64,
    /// Faults that outlive the cloud; `None` for new ones with `seed`.
    pub faults: Option<Faults>,
    /// Records what is exchanged with nodes.
    pub recorder: Recorder,
    /// Whether the live page is served beside the API.
    pub page: bool,
}

impl Default for Options {
    /// KubeEdge's ports on the loopback interface, and state in memory.
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
            store: None,
            snapshots: None,
            key_file: None,
            kubeconfig: None,
            lease_grace: Duration::from_secs(40),
            controllers: manager::Switches::default(),
            rbac: true,
            limits: Limits::default(),
            hubs: 1,
            renewal_grace: Duration::ZERO,
            max_token_lifetime: ServiceAccountTokens::MAX_LIFETIME,
            cluster: None,
            reserved: Vec::new(),
            seed: 1,
            faults: None,
            recorder: Recorder::default(),
            page: false,
        }
    }
}

impl Options {
    /// Uses the ports that a cloud with these options has taken from [`Self::any_ports`], to start it again in the same places.
    #[must_use]
    pub fn ports_of(self, taken: &Addresses) -> Self {
        let port = |address: Option<SocketAddr>| address.map(|address| address.port());
        let router = self.router.map(|router| RouterOptions {
            port: port(taken.router).unwrap_or(router.port),
            ..router
        });
        Self {
            api_port: port(taken.api).unwrap_or(self.api_port),
            https_port: taken.https.port(),
            ws_port: taken.websocket.port(),
            quic_port: port(taken.quic),
            tunnel_port: port(taken.tunnel),
            relay_port: port(taken.relay),
            router,
            ..self
        }
    }

    /// Uses free ports, for tests and for several clouds on one machine.
    pub fn any_ports(self) -> Self {
        let tunnel_port = self.tunnel_port.map(|_| 0);
        let relay_port = self.relay_port.map(|_| 0);
        let router = self
            .router
            .map(|router| RouterOptions { port: 0, ..router });
        Self {
            api_port: 0,
            https_port: 0,
            ws_port: 0,
            tunnel_port,
            relay_port,
            router,
            ..self
        }
    }
}
