//! Hollow nodes: the real agent on the simulated runtime, any number of them in this process.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use agent::{app, config, edged::Signals};
use cloudsim::tasks::TaskPanicked;
use kubeapi::store::StoreError;

pub use self::{
    endpoints::Endpoints,
    identity::forget_useless,
    node::{HollowNode, edgecore_yaml},
};
use crate::runtime;

mod endpoints;
mod identity;
mod node;

/// What a fleet is like.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many nodes.
    pub nodes: usize,
    /// Nodes are called `<prefix>-1`, `<prefix>-2`, …
    pub prefix: String,
    /// Each node has a directory of its name in here: configuration, certificate, store, volumes, runtime.
    pub directory: PathBuf,
    /// The keys that Secrets and tokens in the nodes' stores are encrypted with.
    pub key_file: Option<PathBuf>,
    /// Messages that a node may send in a second; 0 for no limit.
    pub qps: u32,
    /// How long a node's lease lasts, whole seconds; it is renewed four times as often.
    pub lease: Duration,
    /// Where a node serves health, pods and metrics; only one node at a time can. `None`: nowhere.
    pub server: Option<SocketAddr>,
    /// Settings of `modules.edged` laid over those that a hollow node has; null for none.
    pub edged: serde_json::Value,
    /// What nodes have of memory, disks and process ids; `None`: what this machine has.
    pub signals: Option<Arc<dyn Signals>>,
    /// Where a node's MetaServer listens, port 0 for any. `None`: it has none.
    pub meta_server: Option<SocketAddr>,
    /// Settings of `modules.eventBus` laid over those that a hollow node has, which speaks no MQTT; null for none.
    pub event_bus: serde_json::Value,
}

impl Options {
    /// So many nodes called `edge-…` below `directory`, at EdgeCore's rates.
    pub fn new(nodes: usize, directory: impl Into<PathBuf>) -> Self {
        Self {
            nodes,
            prefix: "edge".to_owned(),
            directory: directory.into(),
            key_file: None,
            qps: 30,
            lease: Duration::from_secs(40),
            server: None,
            edged: serde_json::Value::Null,
            signals: None,
            meta_server: None,
            event_bus: serde_json::Value::Null,
        }
    }

    /// The names of the nodes.
    fn names(&self) -> impl Iterator<Item = String> {
        (1..=self.nodes).map(|number| format!("{}-{number}", self.prefix))
    }
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its directory cannot be made or written to.
    #[error("{path} cannot be written; choose a directory that you may write to with --data-dir")]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Its configuration is none.
    #[error("a hollow node's configuration is unusable")]
    Config(#[from] config::Error),
    /// Its runtime does not start.
    #[error("a hollow node's runtime does not start")]
    Runtime(#[from] runtime::Error),
    /// Its store cannot be opened.
    #[error("a hollow node's store cannot be opened")]
    Store(#[from] StoreError),
    /// A task of its runtime panicked.
    #[error("a hollow node's runtime does not go on")]
    Panicked(#[from] TaskPanicked),
    /// Its agent does not start, or gave up.
    #[error("a hollow node's agent does not run")]
    Agent(#[from] app::Error),
}

/// Nodes that run.
pub struct Fleet {
    nodes: Vec<HollowNode>,
}

impl Fleet {
    /// Starts the nodes; they join `cloud` with `token`.
    pub async fn start(cloud: impl Into<Endpoints>, token: &str, options: &Options) -> Result<Self, Error> {
        let cloud = cloud.into();
        let mut nodes = Vec::new();
        for name in options.names() {
            let mut node = HollowNode::prepare(&name, cloud.clone(), token, options).await?;
            node.start().await?;
            nodes.push(node);
        }
        Ok(Self { nodes })
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[HollowNode] {
        &self.nodes
    }

    /// Its nodes, to be stopped and started.
    pub fn nodes_mut(&mut self) -> &mut [HollowNode] {
        &mut self.nodes
    }

    /// Ends the agents; what runs on their runtimes is left as it is.
    pub async fn stop(mut self) {
        // all at once, since each may take its time
        futures::future::join_all(self.nodes.iter_mut().map(HollowNode::stop)).await;
    }
}

#[cfg(test)]
mod tests;
