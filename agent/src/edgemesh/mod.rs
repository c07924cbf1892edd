//! Services by name and address on the edge node, also while the cloud is away.
//!
//! What comes in: Services, EndpointSlices and this node's labels. What goes out: DNS answers, and connections from a Service's
//! addresses to its endpoints. Source: the Kubernetes pages "Virtual IPs and Service Proxies" and "DNS for Services and Pods".
//!
//! | part | what |
//! |---|---|
//! | `dns` | names of Services, and the node's resolvers for all else |
//! | `snapshot` | Services with their endpoints, as DNS and the proxy read them |
//! | `task` | the one owner: publishes snapshots |

pub mod dns;
pub mod snapshot;
mod task;

use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;

use self::snapshot::Snapshot;
pub use self::task::Task;
use crate::config;

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
}

/// The handle: what the room knows. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EdgeMesh {
    snapshots: Snapshots,
}

/// The newest snapshot, to be read or awaited.
pub type Snapshots = watch::Receiver<Arc<Snapshot>>;

impl EdgeMesh {
    /// The Services of now.
    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.clone()
    }
}

/// Builds the room; [`Task`] runs it.
pub fn new(config: Config) -> (EdgeMesh, Task) {
    let (publish, snapshots) = watch::channel(Arc::default());
    (EdgeMesh { snapshots }, Task { config, publish })
}
