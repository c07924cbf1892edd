//! Services by name and address on the edge node, also while the cloud is away.
//!
//! What comes in: Services, EndpointSlices and this node's labels. What goes out: DNS answers, and connections from a Service's
//! addresses to its endpoints. Source: the Kubernetes pages "Virtual IPs and Service Proxies" and "DNS for Services and Pods".
//!
//! | part | what |
//! |---|---|
//! | `dns` | names of Services, and the node's resolvers for all else |
//! | `snapshot` | Services with their endpoints, as DNS and the proxy read them |
//! | `source` | the edge to MetaServer: what is read |
//! | `objects` | from what is read to a snapshot, pure |
//! | `destination_rules` | what DestinationRules say of Services, pure |
//! | `proxy` | the addresses of Services on this machine |
//! | `dialer`, `paths` | whether an endpoint is reached directly or over the relay |
//! | `relay` | connections to and of other nodes, over the cloud |
//! | `figures` | what is counted |
//! | `task` | the one owner: publishes snapshots, and has the proxy follow them |

mod destination_rules;
mod dialer;
pub mod dns;
mod figures;
mod objects;
mod paths;
mod proxy;
pub(crate) mod relay;
pub mod snapshot;
mod source;
mod task;

use std::{collections::BTreeSet, io, net::SocketAddr, sync::Arc};

use kube::Client;
use tokio::sync::watch;

pub use self::task::Task;
use self::{dialer::Dialer, figures::Figures, snapshot::Snapshot};
use crate::{config, rt::Metric};

/// What the room needs.
#[derive(Clone)]
pub struct Config {
    /// This node's name.
    pub node: String,
    /// What is set of it.
    pub settings: config::EdgeMesh,
    /// Services and EndpointSlices: MetaServer.
    pub services: Client,
    /// This node's own objects, of which its Node is read.
    pub own: Client,
    /// The relay to nodes that this one does not reach; `None`: there is none.
    pub(crate) relay: Option<relay::Config>,
    /// Who serves the API at the addresses of the Service `default/kubernetes` on this machine, and is told where; `None`: they lead to
    /// the Service's endpoints.
    pub api: Option<watch::Sender<BTreeSet<SocketAddr>>>,
}

/// The handle: what the room knows. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EdgeMesh {
    snapshots: Snapshots,
    figures: Arc<Figures>,
    unserved: watch::Receiver<BTreeSet<String>>,
}

/// The newest snapshot, to be read or awaited.
pub type Snapshots = watch::Receiver<Arc<Snapshot>>;

impl EdgeMesh {
    /// The Services of now.
    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.clone()
    }

    /// What of Services cannot be served on this machine, each in a sentence.
    pub(crate) fn unserved(&self) -> watch::Receiver<BTreeSet<String>> {
        self.unserved.clone()
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        self.figures.metrics()
    }
}

/// Builds the room; [`Task`] runs it, and the other task its connection to the relay, where there is one.
pub(crate) fn new(config: Config) -> (EdgeMesh, Task, Option<relay::Task>) {
    let (publish, snapshots) = watch::channel(Arc::default());
    let figures = Arc::<Figures>::default();
    let (relay, beginning) = config.relay.clone().map(|relay| relay::new(relay, &figures)).unzip();
    let dialer = Dialer::new(relay);
    let relayed = beginning.map(|beginning| beginning.task(snapshots.clone(), dialer.clone()));
    let (tell, unserved) = watch::channel(BTreeSet::new());
    let mesh = EdgeMesh { snapshots, figures: figures.clone(), unserved };
    (mesh, Task { config, publish, figures, dialer, unserved: tell }, relayed)
}

/// Removes what an agent that has ended, however it has, added to the machine for Services; how many addresses that were.
///
/// # Errors
/// The kernel does not let it.
pub(crate) fn remove_addresses() -> io::Result<usize> {
    Ok(proxy::routes::remove_all()?)
}
