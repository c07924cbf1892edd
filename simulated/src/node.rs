//! A node: its store and its containers stay; the agent and its connection are stopped and started.

use std::{path::PathBuf, sync::Arc, time::Duration};

use agent::{
    config::{HostPort, Transport},
    edgehub::{self, EdgeHub, Proxy},
    metamanager,
};
use objectstore::Store;
use parking_lot::Mutex;
use testkit::Random;
use tokio::{io::DuplexStream, sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    link::{Connection, Faults},
    pods::{Machine, Pods},
    store::Slow,
    watcher::Watcher,
};

/// How long each half of a commit may take: a slow disk.
const COMMIT: Duration = Duration::from_millis(5);

/// A node.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) store: Arc<Slow>,
    pub(crate) machine: Arc<Mutex<Machine>>,
    pub(crate) connection: Option<Connection>,
    agent: Option<Agent>,
    seed: u64,
    connections: u64,
    watcher: Watcher,
}

/// An agent, which ends at once when this is dropped.
struct Agent {
    hub: EdgeHub,
    pods: Pods,
    connections: mpsc::Sender<DuplexStream>,
    _tasks: JoinSet<()>,
}

impl Node {
    pub(crate) fn new(name: &str, seed: u64, watcher: &Watcher) -> Self {
        let store = Slow::new(Random::of(seed, &["store", name], 0), COMMIT);
        watcher.node_is(name, Arc::clone(store.inner()));
        Self {
            name: name.to_owned(),
            store,
            machine: Arc::default(),
            connection: None,
            agent: None,
            seed,
            connections: 0,
            watcher: watcher.clone(),
        }
    }

    pub(crate) fn runs(&self) -> bool {
        self.agent.is_some()
    }

    /// Reports whether there is a connection that has not ended.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(Connection::stands)
    }

    pub(crate) fn start(&mut self) {
        // A new connection waits only for the end of the one before.
        let (connections, given) = mpsc::channel(1);
        let (hub, inbound, hub_task) = edgehub::over_connections(hub_config(&self.name), given);
        let store: Arc<dyn Store> = Arc::<Slow>::clone(&self.store);
        let config = metamanager::Config {
            node_name: self.name.clone(),
            store,
            hub: hub.clone(),
            inbound,
            timing: metamanager::Timing::default(),
            server: None,
        };
        let (meta, ends) = metamanager::new(config);
        let pods = Pods {
            node: self.name.clone(),
            client: meta.client(),
            store: Arc::clone(&self.store),
            machine: Arc::clone(&self.machine),
            watcher: self.watcher.clone(),
        };
        let (mut tasks, shutdown) = (JoinSet::new(), CancellationToken::new());
        tasks.spawn(hub_task.run(shutdown.clone()));
        tasks.spawn(ends.task.run(shutdown));
        tasks.spawn(pods.clone().run());
        self.agent = Some(Agent {
            hub,
            pods,
            connections,
            _tasks: tasks,
        });
    }

    /// Ends the agent at once, as a power cut does.
    pub(crate) fn kill(&mut self) {
        self.agent = None;
        self.connection = None;
    }

    /// Connects the agent, if it can take a connection, and returns the cloud's end.
    pub(crate) fn connect(&mut self, faults: Faults) -> Option<DuplexStream> {
        let agent = self.agent.as_ref()?;
        self.connections += 1;
        let place = (self.seed, self.connections);
        let (connection, ours, theirs) = Connection::new(&self.name, place, faults, &self.watcher);
        agent.connections.try_send(ours).ok()?;
        self.connection = Some(connection);
        Some(theirs)
    }

    /// Returns the part that runs its pods; `None` while no agent runs.
    pub(crate) fn pods(&self) -> Option<&Pods> {
        self.agent.as_ref().map(|agent| &agent.pods)
    }

    /// Returns the agent's connection to the cloud.
    pub(crate) fn hub(&self) -> Option<&EdgeHub> {
        self.agent.as_ref().map(|agent| &agent.hub)
    }
}

fn hub_config(name: &str) -> edgehub::Config {
    let nowhere = || HostPort {
        host: "localhost".to_owned(),
        port: 1,
    };
    edgehub::Config {
        node_name: name.to_owned(),
        transport: Transport::WebSocket,
        servers: vec![nowhere()],
        http_servers: vec![nowhere()],
        proxy: Proxy::from_environment(|_| None).expect("no proxy"),
        token: None,
        project_id: "project".to_owned(),
        in_process: None,
        ca_file: PathBuf::new(),
        cert_file: PathBuf::new(),
        key_file: PathBuf::new(),
        rotate_certificates: false,
        heartbeat: Duration::from_secs(15),
        handshake_timeout: Duration::from_secs(30),
        write_deadline: Duration::from_secs(15),
        qps: 0,
        burst: 1,
        max_message: wire::json::DEFAULT_LIMIT,
        recorder: Default::default(),
    }
}
