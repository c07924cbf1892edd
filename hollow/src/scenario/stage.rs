//! The cloud and the nodes of a running scenario.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use agent::config::{HostPort, Transport as Carrier};
use clock::Instant;
use cloudsim::{Cloud, Options, StartError, faults::Faults, hub::Limits, tasks::TaskPanicked};
use componentbase::Link;
use kube::Client;
use objectstore::MemoryStore;
use tokio::time::timeout;
use wire::cri::ContainerState;

use super::{
    Scenario,
    file::{NodeSpec, Transport},
};
use crate::{
    fleet::{self, HollowNode},
    origin::{self, Origin},
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
    #[error("two nodes are named {0}: in `nodes:` and in `from:`; rename one of them")]
    RepeatedName(String),
    #[error("cannot start from {0}")]
    Origin(String, #[source] origin::Error),
    #[error("node {0} did not connect within {CONNECT_TIMEOUT:?}")]
    NotConnected(String),
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("the cloud failed")]
    Panicked(#[from] TaskPanicked),
}

/// The cloud is stopped.
#[derive(Debug, thiserror::Error)]
#[error("the cloud is stopped; add `start: cloud` before this step")]
pub(super) struct Stopped;

/// The containers that run on a node: pod's UID and container's name → id.
pub(super) type Containers = BTreeMap<[String; 2], String>;

/// A cloud and its nodes.
pub(super) struct Stage {
    /// The cloud; `None` while it is stopped.
    cloud: Option<Cloud>,
    /// Those of the cloud, with its store and its faults, which stay when it is stopped.
    options: Options,
    pub(super) faults: Faults,
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
    ) -> Result<Self, StageError> {
        let spec = scenario.cloud();
        let quic = scenario.uses_quic() && !clock::is_simulated();
        let faults = Faults::new(scenario.seed());
        let base = file.parent().map(Path::to_owned).unwrap_or_default();
        let from = scenario.from.as_ref().map(|from| base.join(from));
        let failed = |error| {
            let from = from.as_deref().unwrap_or(Path::new(""));
            StageError::Origin(from.display().to_string(), error)
        };
        let origin = from.as_deref().map(Origin::read).transpose();
        let origin = origin.map_err(failed)?.unwrap_or_default();
        origin.set_virtual_time();
        let store = origin.store();
        let options = Options {
            store: Some(store.unwrap_or_else(MemoryStore::new)),
            faults: Some(faults.clone()),
            hubs: spec.hubs,
            lease_grace: spec.node_grace.get(),
            limits: Limits {
                acknowledgement: spec.acknowledgement.get(),
                ..Limits::default()
            },
            quic_port: quic.then_some(0),
            recorder: scenario.recorder.clone(),
            ..Options::default().any_ports()
        };
        let cloud = Cloud::start(options.clone()).await?;
        let options = options.ports_of(&cloud.addresses());
        // It is renewed four times in the time after which the cloud considers a node lost.
        let lease = spec.node_grace.get().max(Duration::from_secs(1));
        let like = fleet::Options {
            lease,
            qps: 0,
            in_memory: true,
            ..fleet::Options::new(0, directory)
        }
        .beside(&cloud);
        let mut stage = Self {
            cloud: Some(cloud),
            options,
            faults,
            nodes: BTreeMap::new(),
            remembered: BTreeMap::new(),
            base,
            begun: Instant::now(),
        };
        for node in scenario.nodes() {
            let started = stage.start(node, &like).await?;
            stage.nodes.insert(node.name.clone(), started);
        }
        for machine in origin.machines() {
            let (name, like) = (machine.name.clone(), like.of(machine));
            if stage.nodes.contains_key(&name) {
                return Err(StageError::RepeatedName(name));
            }
            let started = stage.start(&NodeSpec::named(&name), &like).await?;
            stage.nodes.insert(name, started);
        }
        let connected = stage.nodes.values().map(wait_connected);
        let connected = futures::future::try_join_all(connected).await;
        if let Err(error) = connected {
            stage.close().await;
            return Err(error);
        }
        let client = stage.client()?;
        if let Some(dump) = origin.dump() {
            let skipped = dump.load(&client).await;
            let skipped = skipped.map_err(|error| failed(error.into()))?;
            if !skipped.is_empty() {
                tracing::warn!(%skipped, "some objects of the dump skipped");
            }
        }
        stage.begun = Instant::now();
        Ok(stage)
    }

    async fn start(
        &self,
        spec: &NodeSpec,
        like: &fleet::Options,
    ) -> Result<HollowNode, StageError> {
        let cloud = self.cloud()?;
        let addresses = cloud.addresses();
        let mut like = like.clone();
        let quic = addresses.quic.filter(|_| spec.transport == Transport::Quic);
        if quic.is_some() {
            like.in_process = None;
            like.in_memory = false;
        }
        let failed = |error| StageError::Node(spec.name.clone(), error);
        let mut node = HollowNode::prepare(&spec.name, addresses, cloud.token(), &like)
            .await
            .map_err(failed)?;
        if let Some(at) = quic {
            node.configure(|config| {
                config.edge_hub.transport = Carrier::Quic;
                config.edge_hub.servers = vec![HostPort {
                    host: at.ip().to_string(),
                    port: at.port(),
                }];
            });
        }
        node.start().await.map_err(failed)?;
        Ok(node)
    }

    /// Returns the running cloud.
    pub(super) fn cloud(&self) -> Result<&Cloud, Stopped> {
        self.cloud.as_ref().ok_or(Stopped)
    }

    /// Returns a client of the cloud's API.
    pub(super) fn client(&self) -> Result<Client, Stopped> {
        Ok(self.cloud()?.client())
    }

    /// Stops the cloud; its objects stay.
    pub(super) async fn stop_cloud(&mut self) -> Result<(), TaskPanicked> {
        match self.cloud.take() {
            Some(cloud) => cloud.stop().await,
            None => Ok(()),
        }
    }

    /// Starts the cloud with the objects that it had, at the same addresses; a running one is stopped first.
    pub(super) async fn start_cloud(&mut self) -> Result<(), StageError> {
        self.stop_cloud().await?;
        let cloud = Cloud::start(self.options.clone()).await?;
        for node in self.nodes.values() {
            node.set_cloud(cloud.in_process());
        }
        self.cloud = Some(cloud);
        Ok(())
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
        let _ = self.stop_cloud().await;
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
