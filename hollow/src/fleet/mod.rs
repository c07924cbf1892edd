//! Hollow nodes: the real agent on the simulated runtime, as many as you like in this process.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agent::{app, config};
use clock::HashSet;
use cloudsim::{Cloud, InProcess, faults::Faults, tasks::TaskPanicked};
use edged::{Capacity, Signals};
use futures::{StreamExt, TryStreamExt, stream};
use objectstore::StoreError;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

pub(crate) use self::node::lay_over;
pub use self::{
    endpoints::Endpoints,
    identity::forget_useless,
    node::{HollowNode, edgecore_yaml},
    open_files::TooFewFiles,
    ready::NotReady,
    state::{NodeHandle, NodeState},
};
use crate::runtime;

pub(crate) mod endpoints;
mod faulty_store;
mod identity;
mod in_process;
mod node;
mod open_files;
mod private_file;
mod ready;
mod rejoin;
mod state;

/// How many nodes are started at a time.
const CONCURRENT_STARTS: usize = 16;
/// How long the start of further nodes waits until a node is connected. After one that is not, it waits for none.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A node that differs from the others.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Machine {
    /// The name of the node.
    pub name: String,
    /// The cores and the memory that it reports.
    pub capacity: Capacity,
    /// Settings that override those of `modules.edged`.
    pub edged: serde_json::Value,
    /// The state with which it starts, if it is in memory; `None` for a new node.
    pub state: Option<Arc<NodeState>>,
}

/// The options of a fleet.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of nodes.
    pub nodes: usize,
    /// Nodes that differ from each other, beside those `nodes`.
    pub machines: Vec<Machine>,
    /// The prefix of the nodes' names: `<prefix>-1`, `<prefix>-2`, …
    pub prefix: String,
    /// The directory with one subdirectory per node, of its name: configuration, certificate, store, volumes, runtime.
    pub directory: PathBuf,
    /// The keys with which Secrets and tokens in the nodes' stores are encrypted.
    pub key_file: Option<PathBuf>,
    /// How many messages a node may send in a second; 0 means no limit.
    pub qps: u32,
    /// How long a node's lease lasts, in whole seconds; it is renewed four times as often.
    pub lease: Duration,
    /// Where a node serves health, pods and metrics, which only one node at a time can do. `None` means nowhere.
    pub server: Option<SocketAddr>,
    /// Settings that override those of `modules.edged` of a hollow node; null for none.
    pub edged: serde_json::Value,
    /// The cores and the memory that the nodes report, instead of those of this machine.
    pub capacity: Capacity,
    /// The memory, disks and process ids of the nodes; `None` means those of this machine.
    pub signals: Option<Arc<dyn Signals>>,
    /// Where a node's `MetaServer` listens, port 0 for any. `None` means that it has none.
    pub meta_server: Option<SocketAddr>,
    /// Settings that override those of `modules.eventBus` of a hollow node, which has no MQTT by default; null for none.
    pub event_bus: serde_json::Value,
    /// The faults of a cloud in the same process, which may slow down the disks of the nodes.
    pub faults: Option<Faults>,
    /// The servers of a cloud in the same process, which the nodes reach without sockets. `None`: the nodes dial its addresses over TLS.
    pub in_process: Option<InProcess>,
    /// Whether databases, certificates and the state of the runtimes are only in memory. They outlive an agent, and not its node.
    pub in_memory: bool,
    /// The state with which a node starts, if it is in memory; `None` for a new node.
    pub state: Option<Arc<NodeState>>,
    /// Whether programs of this machine reach the nodes: by manifests of static pods in their directories, and as mappers at their sockets.
    pub is_reachable: bool,
}

impl Options {
    /// Returns options for this many nodes called `edge-…` below `directory`, at EdgeCore's rates.
    pub fn new(nodes: usize, directory: impl Into<PathBuf>) -> Self {
        Self {
            nodes,
            machines: Vec::new(),
            prefix: "edge".to_owned(),
            directory: directory.into(),
            key_file: None,
            qps: 30,
            lease: Duration::from_secs(40),
            server: None,
            edged: serde_json::Value::Null,
            capacity: Capacity::default(),
            signals: None,
            meta_server: None,
            event_bus: serde_json::Value::Null,
            faults: None,
            in_process: None,
            in_memory: false,
            state: None,
            // files and sockets are no events of virtual time, and closing a watch of a folder takes milliseconds
            is_reachable: !clock::is_simulated(),
        }
    }

    /// Returns the same options for nodes in the process of this cloud: links without sockets, and the cloud's faults.
    #[must_use]
    pub fn beside(self, cloud: &Cloud) -> Self {
        Self {
            faults: Some(cloud.faults().clone()),
            in_process: Some(cloud.in_process().clone()),
            ..self
        }
    }

    /// Returns the number of all nodes.
    pub fn count(&self) -> usize {
        self.nodes + self.machines.len()
    }

    /// Returns the names of the nodes.
    fn names(&self) -> impl Iterator<Item = String> {
        let equal = (1..=self.nodes).map(|number| format!("{}-{number}", self.prefix));
        equal.chain(self.machines.iter().map(|machine| machine.name.clone()))
    }

    /// Returns the options of a node that differs from the others.
    pub(crate) fn of(&self, machine: &Machine) -> Self {
        let mut options = Self {
            capacity: machine.capacity,
            state: machine.state.clone(),
            ..self.clone()
        };
        lay_over(&mut options.edged, &machine.edged);
        options
    }

    /// Returns the name and the options of each node.
    fn each(&self) -> impl Iterator<Item = (String, Self)> + use<'_> {
        let like = Self {
            machines: Vec::new(),
            ..self.clone()
        };
        let differing: Vec<_> = self.machines.iter().map(|it| like.of(it)).collect();
        let equal = std::iter::repeat_n(like, self.nodes);
        self.names().zip(equal.chain(differing))
    }

    /// Checks that no two nodes have one name, and so one directory.
    fn check_names(&self) -> Result<(), Error> {
        let mut names = HashSet::default();
        match self.names().find(|name| !names.insert(name.clone())) {
            Some(name) => Err(Error::RepeatedName(name)),
            None => Ok(()),
        }
    }
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node's directory cannot be created or written to.
    #[error("cannot write {path}; choose a writable directory with --data-dir")]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Two nodes have one name.
    #[error(
        "two nodes are named {0}; rename one of them, or start fewer nodes beside those of the dump"
    )]
    RepeatedName(String),
    /// The process may not open as many files as the nodes need.
    #[error(transparent)]
    Files(#[from] TooFewFiles),
    /// The node's configuration is invalid.
    #[error("a hollow node's configuration is unusable")]
    Config(#[from] config::Error),
    /// The node's runtime does not start.
    #[error("cannot start a hollow node's runtime")]
    Runtime(#[from] runtime::Error),
    /// The node's store cannot be opened.
    #[error("cannot open a hollow node's database")]
    Store(#[from] StoreError),
    /// A task of the node's runtime panicked.
    #[error("a hollow node's runtime failed")]
    Panicked(#[from] TaskPanicked),
    /// The identity in a node's state is invalid.
    #[error("a hollow node's certificate in the snapshot is invalid")]
    Identity(#[source] io::Error),
    /// The node's agent does not start, or failed.
    #[error("a hollow node's agent failed")]
    Agent(#[from] app::Error),
}

/// Running nodes.
pub struct Fleet {
    nodes: Vec<HollowNode>,
}

impl Fleet {
    /// Starts the nodes; they join `cloud` with `token`.
    pub async fn start(
        cloud: impl Into<Endpoints>,
        token: &str,
        options: &Options,
    ) -> Result<Self, Error> {
        let cloud = cloud.into();
        options.check_names()?;
        // Tests do not raise the limit themselves. If it cannot be read, the nodes are tried.
        if let Ok(limit) = limits::raise_open_files()
            && !(options.in_process.is_some() && options.in_memory)
        {
            open_files::check(options.count(), options.in_memory, limit)?;
        }
        // If all enrolled at once, the first answers would come too late for the last ones.
        let waits = AtomicBool::new(options.count() > CONCURRENT_STARTS);
        let start = async |(name, options): (String, Options)| {
            let mut node = HollowNode::prepare(&name, cloud.clone(), token, &options).await?;
            node.start().await?;
            if let Some(link) = node.link().filter(|_| waits.load(Ordering::Relaxed)) {
                let connected = timeout(CONNECT_TIMEOUT, ready::connection(link)).await;
                waits.fetch_and(connected.is_ok(), Ordering::Relaxed);
            }
            Ok::<_, Error>(node)
        };
        let nodes = stream::iter(options.each())
            .map(start)
            .buffered(CONCURRENT_STARTS)
            .try_collect()
            .await?;
        Ok(Self { nodes })
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[HollowNode] {
        &self.nodes
    }

    /// Returns the nodes, which can be stopped and started.
    pub fn nodes_mut(&mut self) -> &mut [HollowNode] {
        &mut self.nodes
    }

    /// Returns handles of the nodes whose state is in memory.
    pub fn handles(&self) -> Vec<NodeHandle> {
        self.nodes.iter().filter_map(HollowNode::handle).collect()
    }

    /// Ends the agents at once, as a power cut does.
    pub async fn kill(mut self) {
        futures::future::join_all(self.nodes.iter_mut().map(HollowNode::kill)).await;
    }

    /// Stops the agents; the containers on their runtimes are left as they are.
    pub async fn stop(mut self) {
        // All are stopped at once, since each may take its time.
        futures::future::join_all(self.nodes.iter_mut().map(HollowNode::stop)).await;
    }
}

#[cfg(test)]
mod tests;
