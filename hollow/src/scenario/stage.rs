//! The cloud and the nodes of a running scenario.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use agent::config::{HostPort, Transport as Carrier};
use clock::Instant;
use cloudsim::{Cloud, Options, StartError, hub::Limits};
use componentbase::Link;
use kube::Client;
use tokio::time::timeout;
use wire::cri::ContainerState;

use super::{
    Scenario,
    file::{NodeSpec, Transport},
};
use crate::{
    dump::{self, Dump},
    fleet::{self, HollowNode},
};

/// The labels in which a container carries its pod's UID and its own name.
const LABELS: [&str; 2] = ["io.kubernetes.pod.uid", "io.kubernetes.container.name"];

/// How long a node may take to connect for the first time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a scenario cannot start.
#[derive(Debug, thiserror::Error)]
pub(super) enum StageError {
    #[error("cannot start the cloud")]
    Cloud(#[from] StartError),
    #[error("cannot start node {0}")]
    Node(String, #[source] fleet::Error),
    #[error("cannot start from {0}")]
    Dump(String, #[source] dump::Error),
    #[error("node {0} did not connect within {CONNECT_TIMEOUT:?}")]
    NotConnected(String),
}

/// The containers that run on a node: pod's UID and container's name → id.
pub(super) type Containers = BTreeMap<[String; 2], String>;

/// A cloud and its nodes.
pub(super) struct Stage {
    pub(super) cloud: Cloud,
    pub(super) nodes: BTreeMap<String, HollowNode>,
    /// The containers that ran when they were remembered, by node.
    pub(super) remembered: BTreeMap<String, Containers>,
    /// The directory of the files that the scenario names.
    pub(super) base: PathBuf,
    /// When the first step began.
    pub(super) begun: Instant,
}

impl Stage {
    /// Starts everything, and waits until every node has connected: otherwise a first step would see nodes that have not begun.
    pub(super) async fn open(
        scenario: &Scenario,
        file: &Path,
        directory: &Path,
        seed: Option<u64>,
    ) -> Result<Self, StageError> {
        let spec = scenario.cloud();
        let quic = scenario.uses_quic() && !clock::is_simulated();
        let options = Options {
            hubs: spec.hubs,
            lease_grace: spec.node_grace.get(),
            limits: Limits {
                acknowledgement: spec.acknowledgement.get(),
                ..Limits::default()
            },
            quic_port: quic.then_some(0),
            seed: seed.or(scenario.seed).unwrap_or(1),
            ..Options::default().any_ports()
        };
        let cloud = Cloud::start(options).await?;
        // It is renewed four times in the time after which the cloud considers a node lost.
        let lease = spec.node_grace.get().max(Duration::from_secs(1));
        let like = fleet::Options {
            lease,
            qps: 0,
            in_memory: true,
            ..fleet::Options::new(0, directory)
        }
        .beside(&cloud);
        let base = file.parent().map(Path::to_owned).unwrap_or_default();
        let mut stage = Self {
            cloud,
            nodes: BTreeMap::new(),
            remembered: BTreeMap::new(),
            base,
            begun: Instant::now(),
        };
        for node in scenario.nodes() {
            let started = stage.start(node, &like).await;
            let started = started.map_err(|error| StageError::Node(node.name.clone(), error))?;
            stage.nodes.insert(node.name.clone(), started);
        }
        let from = scenario.from.as_ref().map(|from| stage.base.join(from));
        let failed = |error| {
            let from = from.as_deref().unwrap_or(Path::new(""));
            StageError::Dump(from.display().to_string(), error)
        };
        let dump = from
            .as_deref()
            .map(Dump::read)
            .transpose()
            .map_err(failed)?;
        let dump = dump.unwrap_or_default();
        for machine in dump.machines() {
            let (name, like) = (machine.name.clone(), like.of(machine));
            let started = stage.start(&NodeSpec::named(&name), &like).await;
            let started = started.map_err(|error| StageError::Node(name.clone(), error))?;
            stage.nodes.insert(name, started);
        }
        let connected = stage.nodes.values().map(wait_connected);
        let connected = futures::future::try_join_all(connected).await;
        if let Err(error) = connected {
            stage.close().await;
            return Err(error);
        }
        let skipped = dump.load(&stage.client()).await.map_err(failed)?;
        if !skipped.is_empty() {
            tracing::warn!(%skipped, "some objects of the dump skipped");
        }
        stage.begun = Instant::now();
        Ok(stage)
    }

    async fn start(
        &self,
        spec: &NodeSpec,
        like: &fleet::Options,
    ) -> Result<HollowNode, fleet::Error> {
        let addresses = self.cloud.addresses();
        let mut like = like.clone();
        let quic = addresses.quic.filter(|_| spec.transport == Transport::Quic);
        if quic.is_some() {
            like.in_process = None;
            like.in_memory = false;
        }
        let mut node =
            HollowNode::prepare(&spec.name, addresses, self.cloud.token(), &like).await?;
        if let Some(at) = quic {
            node.configure(|config| {
                config.edge_hub.transport = Carrier::Quic;
                config.edge_hub.servers = vec![HostPort {
                    host: at.ip().to_string(),
                    port: at.port(),
                }];
            });
        }
        node.start().await?;
        Ok(node)
    }

    /// Returns a client of the cloud's API.
    pub(super) fn client(&self) -> Client {
        self.cloud.client()
    }

    /// Returns the containers that run on a node.
    pub(super) fn containers(&self, node: &str) -> Containers {
        let containers = self
            .nodes
            .get(node)
            .map(|node| node.runtime.containers())
            .unwrap_or_default();
        let running = containers
            .into_iter()
            .filter(|one| one.state() == ContainerState::ContainerRunning);
        running
            .map(|one| {
                (
                    LABELS.map(|label| one.labels.get(label).cloned().unwrap_or_default()),
                    one.id,
                )
            })
            .collect()
    }

    /// Stops everything.
    pub(super) async fn close(mut self) {
        futures::future::join_all(self.nodes.values_mut().map(HollowNode::stop)).await;
        // The step that caused this has failed already, and the log says why.
        let _ = self.cloud.stop().await;
    }
}

/// Waits until a node has a connection.
async fn wait_connected(node: &HollowNode) -> Result<(), StageError> {
    let connected = async {
        let mut link = node.link()?;
        let found = link.wait_for(|link| *link != Link::Down).await.map(drop);
        found.ok()
    };
    let connected = timeout(CONNECT_TIMEOUT, connected).await;
    connected
        .ok()
        .flatten()
        .ok_or_else(|| StageError::NotConnected(node.name.clone()))
}
