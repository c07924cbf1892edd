//! One hollow node: a directory and a runtime that stay, and an agent on them that may be stopped and started.

use std::{
    net::{Ipv4Addr, SocketAddr},
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use agent::{
    app::{self, AgentParts, App},
    config::{self, Config, DatabaseKeys, Secret},
    devicetwin::DeviceTwin,
    edgehub::InProcessLink,
    eventbus::Bus,
    metamanager::BoundAddress,
};
use cloudsim::{InProcess, faults::Faults};
use componentbase::Link;
use edged::Signals;
use objectstore::{LogLimits, MemoryStore, SqliteOptions, SqliteStore, Store};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{Instrument, error, error_span};

use super::{
    Endpoints, Error, Machine, Options,
    faulty_store::FaultyStore,
    identity,
    in_process::Servers,
    private_file,
    state::{NodeHandle, restore_identity},
};
use crate::runtime::{self, SimRuntime};

/// How long an agent may take to stop: one that hangs in its last call must not keep the program.
const LAST_CALL: Duration = Duration::from_secs(5);

/// How often it is checked whether a stopped agent has released its store.
const RELEASE_INTERVAL: Duration = Duration::from_millis(2);

/// The database of the agent, and that of its `MetaServer`.
const DATABASE: &str = "agent.db";
const COPIES: &str = "metaserver.db";

/// The folder of static pods in the node's directory.
const MANIFESTS: &str = "manifests";

/// One node. Its agent ends when this is dropped; the containers on its runtime are left as they are.
pub struct HollowNode {
    /// Its name.
    pub name: String,
    /// Its runtime.
    pub runtime: SimRuntime,
    directory: PathBuf,
    config: Config,
    /// Settings that override those of `modules.edged`.
    edged: serde_json::Value,
    signals: Option<Arc<dyn Signals>>,
    faults: Option<Faults>,
    /// The link to a cloud in this process, and the servers that it reaches.
    link: Option<InProcessLink>,
    servers: Option<Arc<Servers>>,
    /// The database, if it is in memory.
    memory: Option<Arc<MemoryStore>>,
    /// Whether programs of this machine reach the node.
    is_reachable: bool,
    agent: Option<Agent>,
}

struct Agent {
    running: JoinHandle<Result<(), Error>>,
    link: watch::Receiver<Link>,
    meta_server: Option<BoundAddress>,
    bus: Bus,
    devices: Option<DeviceTwin>,
    /// The node's own store; `None` while the agent uses another one.
    store: Option<Weak<dyn Store>>,
    shutdown: CancellationToken,
    _ends_with_the_node: DropGuard,
}

impl HollowNode {
    /// Prepares a node, in the directory of its name, that will join `cloud` with `token`. What an earlier node of this name left in the
    /// directory is reused: certificate, store, volumes, containers.
    pub async fn prepare(
        name: &str,
        cloud: impl Into<Endpoints>,
        token: &str,
        options: &Options,
    ) -> Result<Self, Error> {
        let cloud = cloud.into();
        let directory = options.directory.join(name);
        let failed = |source| Error::Directory {
            path: directory.clone(),
            source,
        };
        clock::fs::create_dir_all(directory.join(MANIFESTS))
            .await
            .map_err(failed)?;
        let file = directory.join("edgecore.yaml");
        // The token is passed in memory and never written to disk.
        let text = edgecore_yaml(name, &directory, cloud, "", options);
        private_file::write(&file, &text).await.map_err(failed)?;
        let (mut config, _) = config::load(&file)?;
        config.edge_hub.token = (!token.is_empty()).then(|| Secret::new(token.to_owned()));
        config.node.capacity = options.capacity;
        if !options.is_reachable {
            config.edged.static_pod_path = None;
        }
        config.database_keys = options.key_file.clone().map(DatabaseKeys::File);
        let root = (!options.in_memory).then(|| directory.join("runtime"));
        let state = options.state.as_ref().filter(|_| options.in_memory);
        let runtime = SimRuntime::new(runtime::Options {
            root,
            records: state.map(|state| runtime::SavedRecords {
                records: state.runtime.clone(),
                from: state.directory.clone(),
                to: directory.clone(),
            }),
            pod_cidr: runtime::PodCidr::of_node(name),
            ..runtime::Options::default()
        })?;
        let signals = options.signals.clone();
        let cloud = options.in_process.as_ref();
        let servers = cloud.map(|cloud| Arc::new(Servers::new(cloud)));
        let link = servers.clone();
        let link = link.map(|servers| InProcessLink::new(servers, !options.in_memory));
        let memory = match state {
            Some(state) => {
                restore_identity(state, link.as_ref(), &directory).await?;
                MemoryStore::from_image(state.database.clone(), LogLimits::CLOUD)
            }
            None => MemoryStore::new(),
        };
        Ok(Self {
            link,
            servers,
            memory: options.in_memory.then_some(memory),
            edged: options.edged.clone(),
            is_reachable: options.is_reachable,
            name: name.to_owned(),
            runtime,
            directory,
            config,
            signals,
            faults: options.faults.clone(),
            agent: None,
        })
    }

    /// Changes the configuration with which the agent is started next.
    pub fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
    }

    /// Connects the node from now on to a cloud in this process that has taken the place of its own one.
    pub fn set_cloud(&self, cloud: &InProcess) {
        if let Some(servers) = &self.servers {
            servers.replace(cloud);
        }
    }

    /// Returns the certificate of the node, DER; `None` if it has none.
    pub(super) fn certificate(&self) -> Option<Vec<u8>> {
        match self.link.as_ref().and_then(InProcessLink::certificate) {
            None => identity::certificate(&self.directory),
            in_memory => in_memory,
        }
    }

    /// Removes the identity of the node.
    pub(super) async fn remove_identity(&self) -> Result<(), Error> {
        if let Some(link) = &self.link {
            link.forget_identity();
        }
        identity::remove(&self.directory).await
    }

    /// Returns a handle of the node; `None` if its state is on disk.
    pub(super) fn handle(&self) -> Option<NodeHandle> {
        Some(NodeHandle {
            machine: Machine {
                name: self.name.clone(),
                capacity: self.config.node.capacity,
                edged: self.edged.clone(),
                state: None,
            },
            directory: self.directory.clone(),
            database: Arc::clone(self.memory.as_ref()?),
            runtime: self.runtime.clone(),
            link: self.link.clone(),
        })
    }

    /// Returns the agent's configuration.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the directory with everything of this node.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reports whether the agent reads manifests of static pods and has a socket for mappers.
    pub(crate) fn is_reachable(&self) -> bool {
        self.is_reachable
    }

    /// Starts the agent on the node's own store; a running agent is stopped first.
    pub async fn start(&mut self) -> Result<(), Error> {
        self.stop().await;
        let store: Arc<dyn Store> = match &self.memory {
            Some(memory) => self.faulty(Arc::<MemoryStore>::clone(memory), DATABASE),
            None => self.open(DATABASE).await?,
        };
        let own = Arc::downgrade(&store);
        self.run(store, Some(own)).await
    }

    /// Opens a database of this node.
    async fn open(&self, file: &str) -> Result<Arc<dyn Store>, Error> {
        let (file, options) = (self.directory.join(file), self.store_options()?);
        Ok(SqliteStore::open_or_begin_anew(&file, options).await?.store)
    }

    /// Returns the store with the faults of this node's disk.
    fn faulty(&self, store: Arc<dyn Store>, file: &str) -> Arc<dyn Store> {
        Arc::new(FaultyStore {
            store,
            faults: self.faults.clone(),
            node: self.name.clone(),
            file: self.directory.join(file),
        })
    }

    /// Returns how the node's store is opened.
    fn store_options(&self) -> Result<SqliteOptions, Error> {
        let seal = agent::app::seal(&self.config).map_err(app::Error::from)?;
        Ok(SqliteOptions {
            seal,
            ..SqliteOptions::default()
        })
    }

    /// Starts the agent on `store`; a running agent is stopped first.
    pub async fn start_on(&mut self, store: Arc<dyn Store>) -> Result<(), Error> {
        self.stop().await;
        self.run(store, None).await
    }

    async fn run(
        &mut self,
        store: Arc<dyn Store>,
        own: Option<Weak<dyn Store>>,
    ) -> Result<(), Error> {
        let shutdown = CancellationToken::new();
        let store = match (&self.faults, &self.memory) {
            (Some(_), None) => self.faulty(store, DATABASE),
            _ => store,
        };
        let copies: Option<Arc<dyn Store>> =
            match (&self.config.meta_manager.meta_server, &self.memory) {
                (None, _) => None,
                (Some(_), Some(_)) => Some(MemoryStore::new()),
                (Some(_), None) => Some(self.open(COPIES).await?),
            };
        let copies = copies.map(|copies| self.faulty(copies, COPIES));
        let parts = AgentParts {
            runtime: self.runtime.channel(),
            store,
            signals: self.signals.clone(),
            copies,
            pod_network: Some(self.runtime.pod_network()),
            secrets_in_memory: false,
            recorder: Default::default(),
            configuration: None,
            in_process: self.link.clone(),
            serves_mappers: self.is_reachable,
        };
        // each line of the agent's log names its node
        let span = error_span!("agent", node = %self.name);
        let app = span.in_scope(|| App::start(&self.config, parts, shutdown.clone()))?;
        let (meta_server, bus, devices) = (app.meta_server(), app.bus(), app.devices());
        let (link, node) = (app.link(), self.name.clone());
        let (runtime, stop) = (self.runtime.clone(), shutdown.clone());
        let running = async move {
            let ended = clock::select! {
                ended = app.run() => ended.map_err(Error::from),
                panicked = runtime.wait_panicked() => {
                    stop.cancel();
                    Err(panicked.into())
                }
            };
            ended.inspect_err(|error| {
                error!(
                    node,
                    error = error as &dyn std::error::Error,
                    "hollow node failed"
                );
            })
        };
        let running = tokio::spawn(running.instrument(span));
        let _ends_with_the_node = shutdown.clone().drop_guard();
        self.agent = Some(Agent {
            running,
            link,
            meta_server,
            bus,
            devices,
            store: own,
            shutdown,
            _ends_with_the_node,
        });
        Ok(())
    }

    /// Returns the state of the agent's connection; `None` while there is no agent.
    pub fn link(&self) -> Option<watch::Receiver<Link>> {
        self.agent.as_ref().map(|agent| agent.link.clone())
    }

    /// Waits until the agent's `MetaServer` listens and returns its address; `None` if the node has none.
    pub async fn meta_server(&self) -> Option<SocketAddr> {
        let mut listening = self.agent.as_ref()?.meta_server.clone()?;
        *listening.wait_for(Option::is_some).await.ok()?
    }

    /// Waits until the agent's MQTT broker listens and returns its address; `None` if the node has none.
    pub async fn broker(&self) -> Option<SocketAddr> {
        self.agent.as_ref()?.bus.internal_address().await
    }

    /// Returns the devices of the node; `None` while there is no agent.
    pub fn devices(&self) -> Option<DeviceTwin> {
        self.agent.as_ref()?.devices.clone()
    }

    /// Waits until the agent ends on its own, and returns why it failed.
    pub async fn wait_ended(&mut self) -> Result<(), Error> {
        let Some(agent) = &mut self.agent else {
            return Ok(());
        };
        let ended = (&mut agent.running).await;
        self.agent = None;
        match ended {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Ok(()),
        }
    }

    /// Stops the agent as a signal does.
    pub async fn stop(&mut self) {
        let Some(mut agent) = self.agent.take() else {
            return;
        };
        agent.shutdown.cancel();
        if timeout(LAST_CALL, &mut agent.running).await.is_err() {
            agent.running.abort();
        }
        wait_released(agent).await;
    }

    /// Ends the agent at once, as a power cut does: nothing is finished, and nobody is notified.
    pub async fn kill(&mut self) {
        let Some(mut agent) = self.agent.take() else {
            return;
        };
        agent.running.abort();
        let _ = (&mut agent.running).await;
        // This ends what runs beside the agent's modules, such as image pulls.
        agent.shutdown.cancel();
        wait_released(agent).await;
    }
}

/// Waits until nobody uses the store of an agent that has ended: a new one must be its only user.
async fn wait_released(mut agent: Agent) {
    let Some(store) = agent.store.take() else {
        return;
    };
    // its handle of the devices holds the store
    drop(agent);
    let unused = async {
        // not in a loop without pause: those of a hundred nodes would take the processor that the users of the stores need to end
        while store.strong_count() > 0 {
            sleep(RELEASE_INTERVAL).await;
        }
    };
    let _ = timeout(LAST_CALL, unused).await;
}

/// Returns a configuration file as a person would write it. Paths and names are JSON strings, which YAML accepts too.
pub fn edgecore_yaml(
    name: &str,
    directory: &Path,
    cloud: impl Into<Endpoints>,
    token: &str,
    options: &Options,
) -> String {
    let cloud = cloud.into();
    let path =
        |file: &str| serde_json::Value::from(directory.join(file).to_string_lossy().into_owned());
    // Port 0 means no server.
    let server = options.server.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
    let meta_server = options
        .meta_server
        .unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
    let mut document = serde_json::json!({
        "apiVersion": "edgecore.config.kubeedge.io/v1alpha2",
        "kind": "EdgeCore",
        "database": {"dataSource": path("edgecore.db")},
        "modules": {
            "edgeHub": {
                "httpServer": format!("https://{}", cloud.https),
                "websocket": {"enable": true, "server": cloud.websocket},
                "token": token,
                "messageQPS": options.qps,
                "messageBurst": 2 * options.qps,
                "tlsCaFile": path(identity::FILES[2]),
                "tlsCertFile": path(identity::FILES[0]),
                "tlsPrivateKeyFile": path(identity::FILES[1]),
            },
            "taskManager": {"enable": true},
            "edgeStream": {
                "enable": cloud.tunnel.is_some(),
                // Nodes dial this only if there is a tunnel.
                "server": cloud.tunnel.as_ref().unwrap_or(&cloud.websocket),
                "tlsTunnelCAFile": path("ca.crt"),
                "tlsTunnelCertFile": path("node.crt"),
                "tlsTunnelPrivateKeyFile": path("node.key"),
            },
            "deviceTwin": {"dmiSockPath": directory.to_string_lossy()},
            "eventBus": {"enable": false},
            "metaManager": {
                "metaServer": {"enable": options.meta_server.is_some(), "server": meta_server.to_string()},
            },
            "edged": {
                "hostnameOverride": name,
                "reportEvent": true,
                "nodeIP": cloud.node_ip.to_string(),
                "rootDirectory": path("kubelet"),
                "tailoredKubeletConfig": {
                    "containerRuntimeEndpoint": format!("unix://{}", directory.join("runtime.sock").display()),
                    "podLogsDir": path("logs"),
                    "staticPodPath": path(MANIFESTS),
                    "nodeLeaseDurationSeconds": options.lease.as_secs(),
                    "address": server.ip().to_string(),
                    "readOnlyPort": server.port(),
                    // Simulated images take no disk space, so the disk's usage must not trigger their removal.
                    "imageGCHighThresholdPercent": 100,
                    "evictionHard": config::disabled_eviction(),
                },
            },
        },
    });
    lay_over(&mut document["modules"]["edged"], &options.edged);
    lay_over(&mut document["modules"]["eventBus"], &options.event_bus);
    format!("{document:#}\n")
}

/// Merges objects recursively; every other value but null replaces the one below.
pub(crate) fn lay_over(below: &mut serde_json::Value, above: &serde_json::Value) {
    match (below, above) {
        (_, serde_json::Value::Null) => {}
        (serde_json::Value::Object(below), serde_json::Value::Object(above)) => {
            for (key, value) in above {
                lay_over(below.entry(key).or_insert(serde_json::Value::Null), value);
            }
        }
        (below, above) => below.clone_from(above),
    }
}

#[cfg(test)]
mod tests {
    use testkit::within;

    use super::*;

    #[tokio::test]
    async fn a_node_whose_runtime_panics_ends_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let addresses = cloudsim::Addresses::nowhere();
        let options = Options::new(1, directory.path());
        let mut node = HollowNode::prepare("edge-1", addresses, "", &options)
            .await
            .unwrap();
        node.start().await.unwrap();
        node.runtime
            .tasks()
            .fail("the clock of a simulated runtime", "on purpose".into());
        let error = within("the end of the node", node.wait_ended())
            .await
            .unwrap_err();
        assert!(
            matches!(&error, Error::Panicked(panicked) if panicked.message == "on purpose"),
            "{error:?}"
        );
    }
}
