//! Hollow nodes: the real agent on the simulated runtime, any number of them in this process.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use agent::{
    app::{self, App, Parts},
    config,
};
use kubeapi::store::{SqliteStore, StoreError};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::error;

use crate::{
    Addresses,
    runtime::{self, SimRuntime},
};

/// What a fleet is like.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many nodes.
    pub nodes: usize,
    /// Nodes are called `<prefix>-1`, `<prefix>-2`, …
    pub prefix: String,
    /// Each node has a directory of its name in here: configuration, certificate, store, volumes, runtime.
    pub directory: PathBuf,
    /// Messages that a node may send in a second; 0 for no limit.
    pub qps: u32,
}

impl Options {
    /// So many nodes called `edge-…` below `directory`, at EdgeCore's rate.
    pub fn new(nodes: usize, directory: impl Into<PathBuf>) -> Self {
        Self { nodes, prefix: "edge".to_owned(), directory: directory.into(), qps: 30 }
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
    /// Its agent does not start.
    #[error("a hollow node's agent does not start")]
    Agent(#[from] app::Error),
}

/// One node.
pub struct HollowNode {
    /// Its name.
    pub name: String,
    /// Its runtime.
    pub runtime: SimRuntime,
}

/// Nodes that run.
pub struct Fleet {
    nodes: Vec<HollowNode>,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl Fleet {
    /// Starts the nodes; they join the cloud at `addresses` with `token`.
    pub async fn start(addresses: Addresses, token: &str, options: &Options) -> Result<Self, Error> {
        let mut fleet = Self { nodes: Vec::new(), tasks: TaskTracker::new(), shutdown: CancellationToken::new() };
        for number in 1..=options.nodes {
            let name = format!("{}-{number}", options.prefix);
            let directory = options.directory.join(&name);
            let runtime = fleet.start_node(&name, &directory, addresses, token, options.qps).await?;
            fleet.nodes.push(HollowNode { name, runtime });
        }
        fleet.tasks.close();
        Ok(fleet)
    }

    async fn start_node(
        &self,
        name: &str,
        directory: &Path,
        addresses: Addresses,
        token: &str,
        qps: u32,
    ) -> Result<SimRuntime, Error> {
        let failed = |source| Error::Directory { path: directory.to_owned(), source };
        tokio::fs::create_dir_all(directory).await.map_err(failed)?;
        let file = directory.join("edgecore.yaml");
        tokio::fs::write(&file, edgecore_yaml(name, directory, addresses, token, qps)).await.map_err(failed)?;
        let (config, _) = config::load(&file)?;
        let root = Some(directory.join("runtime"));
        let runtime = SimRuntime::new(runtime::Options { root, ..runtime::Options::default() })?;
        let store = SqliteStore::open(&directory.join("agent.db")).await?;
        let app = App::start(&config, Parts { runtime: runtime.channel(), store }, self.shutdown.clone())?;
        let node = name.to_owned();
        self.tasks.spawn(async move {
            if let Err(error) = app.run().await {
                error!(node, error = &error as &dyn std::error::Error, "a hollow node has ended");
            }
        });
        Ok(runtime)
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[HollowNode] {
        &self.nodes
    }

    /// Ends the agents; what runs on their runtimes is left as it is.
    pub async fn stop(self) {
        self.shutdown.cancel();
        // an agent that hangs in its last call must not keep the program
        let _ = tokio::time::timeout(Duration::from_secs(5), self.tasks.wait()).await;
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A file as a person would write it for a machine. Paths and names go in as JSON strings, which YAML reads too.
pub fn edgecore_yaml(name: &str, directory: &Path, addresses: Addresses, token: &str, qps: u32) -> String {
    let path = |file: &str| serde_json::Value::from(directory.join(file).to_string_lossy().into_owned());
    let document = serde_json::json!({
        "apiVersion": "edgecore.config.kubeedge.io/v1alpha2",
        "kind": "EdgeCore",
        "database": {"dataSource": path("edgecore.db")},
        "modules": {
            "edgeHub": {
                "httpServer": format!("https://{}", addresses.https),
                "websocket": {"enable": true, "server": addresses.websocket.to_string()},
                "token": token,
                "messageQPS": qps,
                "messageBurst": 2 * qps,
                "tlsCaFile": path("ca.crt"),
                "tlsCertFile": path("node.crt"),
                "tlsPrivateKeyFile": path("node.key"),
            },
            "edged": {
                "hostnameOverride": name,
                "nodeIP": addresses.websocket.ip().to_string(),
                "rootDirectory": path("kubelet"),
                "tailoredKubeletConfig": {
                    "containerRuntimeEndpoint": format!("unix://{}", directory.join("runtime.sock").display()),
                    "podLogsDir": path("logs"),
                },
            },
        },
    });
    format!("{document:#}\n")
}
