//! Services by name and address on the edge node, also while the cloud is away.
//!
//! It reads Services, EndpointSlices and this node's labels; it answers DNS queries, and forwards connections from the addresses of
//! Services to their endpoints. Source: the Kubernetes pages "Virtual IPs and Service Proxies" and "DNS for Services and Pods".
//!
//! | file | what |
//! |---|---|
//! | `dns` | the names of Services; other names are forwarded to the node's resolvers |
//! | `snapshot` | Services with their endpoints, as DNS and the proxy read them |
//! | `permitted` | the watch of DestinationRules, once the node may read them |
//! | `source` | Services, EndpointSlices, Pods and the Node, watched through MetaServer |
//! | `objects` | from Kubernetes objects to a snapshot; pure |
//! | `destination_rules` | DestinationRules, applied to a snapshot; pure |
//! | `proxy` | the addresses of Services on this node: routes, listeners, forwarding |
//! | `exclusive` | one agent in each network namespace |
//! | `sockets` | sockets of forwarded connections |
//! | `dialer` | dials endpoints, directly or over the relay |
//! | `paths`, `path_table` | which of both has reached each endpoint; pure, and shared |
//! | `relay` | connections to and from other nodes, through the cloud |
//! | `metrics` | counters for `/metrics` |
//! | `task` | the owner of the state: publishes snapshots, and applies them to the proxy |

mod destination_rules;
mod dialer;
pub mod dns;
mod exclusive;
mod metrics;
mod objects;
mod path_table;
mod paths;
mod permitted;
mod proxy;
pub(crate) mod relay;
pub mod snapshot;
mod sockets;
mod source;
mod task;

use std::{collections::BTreeSet, io, net::SocketAddr, sync::Arc};

use componentbase::Metric;
use kube::Client;
use tokio::sync::watch;

pub use self::task::Task;
use self::{dialer::Dialer, metrics::MeshMetrics, path_table::PathTable, snapshot::Snapshots};
use crate::config;

/// What EdgeMesh needs.
#[derive(Clone)]
pub struct Config {
    /// This node's name.
    pub node: String,
    /// `modules.edgeMesh`.
    pub settings: config::EdgeMesh,
    /// MetaServer, for Services and EndpointSlices.
    pub services: Client,
    /// This node's own objects: its Node and its Pods.
    pub own: Client,
    /// The relay to nodes that this one does not reach; `None`: no relay is configured.
    pub(crate) relay: Option<relay::Config>,
    /// Where MetaServer is to serve the API on this node: the addresses of the Service `default/kubernetes`. `None`: connections to them
    /// are forwarded to the Service's endpoints.
    pub api: Option<watch::Sender<BTreeSet<SocketAddr>>>,
}

/// The handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct EdgeMesh {
    snapshots: Snapshots,
    metrics: Arc<MeshMetrics>,
    unserved: watch::Receiver<BTreeSet<String>>,
}

impl EdgeMesh {
    /// Returns a receiver of the newest snapshot.
    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.clone()
    }

    /// Returns a receiver of what cannot be served on this node, each in a sentence.
    pub(crate) fn unserved_names(&self) -> watch::Receiver<BTreeSet<String>> {
        self.unserved.clone()
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        self.metrics.metrics()
    }
}

/// Builds the handle, the task that runs EdgeMesh, and the task of its connection to the relay, if one is configured.
pub(crate) fn new(config: Config) -> (EdgeMesh, Task, Option<relay::Task>) {
    let (publish, snapshots) = watch::channel(Arc::default());
    let metrics = Arc::<MeshMetrics>::default();
    let paths = PathTable::default();
    let relay = config.relay.clone();
    let relay = relay.map(|relay| relay::new(relay, &metrics, snapshots.clone(), paths.clone()));
    let (relay, relay_task) = relay.unzip();
    let dialer = Dialer::new(relay, paths);
    let (publish_unserved, unserved) = watch::channel(BTreeSet::new());
    let mesh = EdgeMesh {
        snapshots,
        metrics: metrics.clone(),
        unserved,
    };
    (
        mesh,
        Task {
            config,
            publish,
            metrics,
            dialer,
            unserved: publish_unserved,
        },
        relay_task,
    )
}

/// Reports whether an agent manages the addresses of Services in this network namespace now.
pub(crate) fn is_running() -> bool {
    exclusive::is_locked()
}

/// Removes the routes that an agent, which may have been killed, has added for Services; returns their number.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn remove_addresses() -> io::Result<usize> {
    Ok(proxy::routes::remove_all()?)
}
