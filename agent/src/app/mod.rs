//! The wiring of the agent: builds all modules, connects them by their handles, and runs them.
//!
//! ```text
//! cloud ─▶ edgehub ─▶ metamanager ─▶ edged ─▶ CRI
//! cloud ◀─ edgehub ◀─ metamanager ◀─ edged ◀─┘
//!
//! cloud ─▶ edgehub ─▶ metamanager ─▶ devicetwin ─▶ eventbus, dmi ─▶ mappers
//! cloud ◀─ edgehub ◀──────────────── devicetwin ◀─ eventbus, dmi ◀─┘
//!
//! cloud ─▶ edgehub ─▶ metamanager ─▶ servicebus ─▶ HTTP servers of this machine
//! cloud ◀─ edgehub ◀──────────────── servicebus ◀─ programs of this machine
//!
//! cloud ─▶ edgehub ─▶ metamanager ─▶ taskmanager ─▶ CRI
//! cloud ◀─ edgehub ◀───────────────── taskmanager
//!
//! cloud ─▶ edgehub ─▶ metamanager ─▶ edgemesh ◀─▶ pods and programs of this machine
//! other nodes ◀─▶ cloud's relay ◀─▶ edgemesh
//!
//! cloud ◀─▶ edgestream ◀─▶ edged's kubelet API ◀─▶ logs, CRI
//! ```
//!
//! | channel | between | bound | full | closed |
//! |---|---|---|---|---|
//! | inbox | edgehub → metamanager | 64 messages | the socket is not read: TCP slows the cloud down | edgehub has ended |
//! | lanes | all → edgehub | 64 messages each | senders wait; events are dropped | senders get an error: not connected |
//! | link | edgehub → all | the newest state | – | edgehub has ended |
//! | answers | edgehub → one request | 1 | – | the connection broke: the request fails |
//! | cloud messages | metamanager → devicetwin, eventbus | 64 each | metamanager waits, and so the cloud | the module is disabled: dropped |
//! | service and job messages | metamanager → servicebus, taskmanager | 64 each | metamanager waits, and so the cloud | the module is disabled: answered with an error |
//! | commands | all → devicetwin | 256 | callers wait | callers get the error that the agent ends |
//! | requests | eventbus → devicetwin | 1024 | the internal broker holds publishers back; QoS 0 of the external is dropped | devicetwin is disabled: dropped |
//! | publications | devicetwin → each broker | 1024 | devicetwin waits while the broker is up; otherwise they are dropped and counted | – |
//! | uploads | eventbus → its outbox | 512 | publishers above QoS 0 wait for their acknowledgement; QoS 0 is dropped and logged | not acknowledged |
//! | events | metamanager → its outbox | 64 | edged's events wait | senders get the error that the agent ends |
//! | outbound | edgestream's streams → the tunnel | 4 messages | a stream waits for its turn | the tunnel has ended: so do its streams |
//! | stream data | the tunnel → each of its streams | 128 KiB | the tunnel is not read; after 5 s the stream is ended | the stream has ended: dropped |
//! | datagrams | edgemesh's UDP clients → their streams over the relay | 16 each | dropped, as datagrams are | the stream has ended: so has the client's flow |
//! | triggers | runtime events → edged | see edged | the relist finds it | edged has ended |

mod meta_server;

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use componentbase::{Link, Supervisor};
use edged::{PodNetwork, RuntimeChannel, RuntimeNetwork, Signals, Storage};
use hyper_util::rt::TokioIo;
use objectstore::{SqliteOptions, SqliteStore, Store, StoreLock};
use record::Recorder;
use tokio::{net::UnixStream, sync::watch};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Endpoint, Uri};
use tower::service_fn;
use tracing::warn;

use crate::{
    config::Config,
    devicetwin::DeviceTwin,
    edgehub::{self, EdgeHub, InProcessLink, Inbound, Proxy, Traffic},
    edgemesh::EdgeMesh,
    eventbus::Bus,
    file::missing_directory,
    metamanager::{self, BoundAddress, MetaServer, Timing},
    servicebus::ServiceBus,
    status::{self, StatusSource},
    taskmanager::Configuration,
};

mod devices;
mod dropped_messages;
mod error;
mod late_store;
mod mesh;
mod metrics;
mod node_events;
mod node_jobs;
mod operations;
mod pods;
mod sealing;
mod services;
mod unserved;

pub(crate) use self::meta_server::{in_cluster_files, requested_files};
pub use self::{
    error::Error,
    sealing::{KeysError, seal},
};
use self::{
    late_store::LateStore,
    operations::{NodeObjects, NodeOperations},
};

/// The file of the store, beside EdgeCore's own database, whose form differs.
const DATABASE_FILE: &str = "outrigger.db";
/// The file of MetaServer's copies, which can be lost.
const COPIES_FILE: &str = "metaserver.db";
/// The file that records that EdgeMesh adds addresses.
const MESH_RECORD: &str = "edgemesh.addresses";
/// The file of the internal MQTT broker's sessions and retained messages.
const BROKER_DATABASE: &str = "mqtt.db";

/// The space that is held for the time when the disk is full, so that the agent can start and delete.
const RESERVE_BYTES: usize = 2 << 20;

/// The suffix of a store that was set aside because EdgeCore has run since.
const SET_ASIDE_SUFFIX: &str = "before-edgecore";

/// What the agent needs of its environment: this machine's, or that of a program that embeds the agent.
#[derive(Clone, Debug)]
pub struct AgentParts {
    /// The container runtime, CRI v1.
    pub runtime: RuntimeChannel,
    /// The store of all objects.
    pub store: Arc<dyn Store>,
    /// The measured memory, disks and process ids; `None` for those of this machine.
    pub signals: Option<Arc<dyn Signals>>,
    /// The store of MetaServer's copies; needed if it is enabled, and not used otherwise.
    pub copies: Option<Arc<dyn Store>>,
    /// How pods are reached; `None` for this machine's network.
    pub pod_network: Option<Arc<dyn PodNetwork>>,
    /// Whether volumes of Secrets, tokens and the downward API are in memory (tmpfs, which needs root) or on disk.
    pub secrets_in_memory: bool,
    /// Records what is exchanged with the cloud.
    pub recorder: Recorder,
    /// The configuration that node jobs may change; `None` for an agent without a file of its own.
    pub configuration: Option<Configuration>,
    /// The link to a cloud in this process; `None` for the configured servers.
    pub in_process: Option<InProcessLink>,
    /// Whether mappers can register, on a socket.
    pub serves_mappers: bool,
}

impl AgentParts {
    /// Opens the database of this machine and the channel to its runtime, as configured. The runtime may start later.
    pub async fn of_machine(config: &Config) -> Result<Self, Error> {
        let path = database(config);
        if let Some(directory) = path.parent() {
            let failed = |source| Error::Directory {
                path: directory.to_owned(),
                source,
            };
            clock::fs::create_dir_all(directory).await.map_err(failed)?;
        }
        let options = SqliteOptions {
            seal: seal(config)?,
            reserve: RESERVE_BYTES,
            ..SqliteOptions::default()
        };
        let store = open(config, &path, options.clone()).await?;
        mesh::record_addresses(config).await;
        let is_copied = config.meta_manager.meta_server.is_some() || config.edge_mesh.is_some();
        let copies: Option<Arc<dyn Store>> = match is_copied {
            true => {
                let options = SqliteOptions {
                    reserve: 0,
                    ..options
                };
                Some(LateStore::open(path.with_file_name(COPIES_FILE), options).await)
            }
            false => None,
        };
        Ok(Self {
            runtime: connect(&config.edged.runtime_endpoint)?,
            store,
            signals: None,
            copies,
            pod_network: Some(Arc::new(RuntimeNetwork::of(&config.edged.runtime_endpoint))),
            secrets_in_memory: true,
            recorder: Recorder::default(),
            configuration: None,
            in_process: None,
            serves_mappers: true,
        })
    }
}

/// Locks the configured database for this agent, as long as the lock is held.
pub(crate) fn lock(config: &Config) -> Result<StoreLock, Error> {
    let path = database(config);
    if let Some(directory) = path.parent() {
        let failed = |source| Error::Directory {
            path: directory.to_owned(),
            source,
        };
        std::fs::create_dir_all(directory).map_err(failed)?;
    }
    Ok(StoreLock::take(&path)?)
}

/// Returns the path of the store of a configured agent.
pub(crate) fn database(config: &Config) -> PathBuf {
    config.database.with_file_name(DATABASE_FILE)
}

/// Returns the file that exists while this agent may have added addresses of Services to this machine.
pub(crate) fn mesh_record(config: &Config) -> PathBuf {
    config.database.with_file_name(MESH_RECORD)
}

/// Returns the directory in which cloudsim provisions PersistentVolumes on this node, beside the database.
pub(crate) fn volumes_directory(config: &Config) -> PathBuf {
    config.database.with_file_name("volumes")
}

/// Returns the directories that a start of a configured agent will create, without those below them.
pub(crate) fn missing_directories(config: &Config) -> BTreeSet<PathBuf> {
    let database = database(config);
    let (edged, tls) = (&config.edged, &config.edge_hub.tls);
    let mut all = vec![
        Some(edged.root_dir.as_path()),
        Some(edged.pod_logs_dir.as_path()),
    ];
    all.extend([&database, &tls.ca, &tls.cert, &tls.key].map(|file| file.parent()));
    all.extend(
        config
            .device_twin
            .iter()
            .map(|devices| Some(devices.dmi_socket_dir.as_path())),
    );
    all.into_iter()
        .flatten()
        .filter_map(missing_directory)
        .collect()
}

/// Returns the paths of all databases of a configured agent, whether they exist or not.
pub(crate) fn databases(config: &Config) -> [PathBuf; 3] {
    [DATABASE_FILE, COPIES_FILE, BROKER_DATABASE].map(|name| config.database.with_file_name(name))
}

async fn open(
    config: &Config,
    path: &Path,
    options: SqliteOptions,
) -> Result<Arc<dyn Store>, Error> {
    let has_edgecore_run = metamanager::has_edgecore_run_since(&config.database, path).await;
    if has_edgecore_run {
        let aside = SqliteStore::set_aside(path, SET_ASIDE_SUFFIX).await?;
        warn!(
            before = %aside.display(),
            "database set aside: EdgeCore ran on this node meanwhile; EdgeCore's data imported again"
        );
    }
    let opened = SqliteStore::open_or_begin_anew(path, options).await?;
    let store: Arc<dyn Store> = opened.store;
    if let Some(damaged) = &opened.set_aside {
        warn!(
            damaged = %damaged.display(),
            "database damaged and set aside; the cloud resends the desired objects of this node"
        );
    }
    // EdgeCore's database is older than the damaged file: pods could come back that the cloud has long deleted
    if has_edgecore_run || opened.set_aside.is_none() && !opened.was_damaged_before {
        metamanager::take_over(&config.database, &store, &config.node.name).await?;
    }
    metamanager::remove_unrecoverable(&store).await?;
    Ok(store)
}

/// Returns a channel to a runtime's unix socket, which connects on use, and reconnects after the runtime was away.
pub fn connect(endpoint: &str) -> Result<RuntimeChannel, Error> {
    let path = endpoint
        .strip_prefix("unix://")
        .unwrap_or(endpoint)
        .to_owned();
    if !path.starts_with('/') {
        return Err(Error::RuntimeEndpoint(endpoint.to_owned()));
    }
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { connect_runtime(&path).await.map(TokioIo::new) }
    });
    // the name is used for the HTTP/2 header only
    let channel = Endpoint::from_static("http://runtime").connect_with_connector_lazy(connector);
    Ok(channel.into())
}

/// The end of the error of a runtime that does not answer. Commands before there is a configuration omit it.
pub(crate) const RUNTIME_CURE: &str = "; check that the container runtime runs, and that containerRuntimeEndpoint in \
    modules.edged.tailoredKubeletConfig names its socket";

/// Connects to the runtime's socket; an error names the path.
async fn connect_runtime(socket: &str) -> io::Result<UnixStream> {
    UnixStream::connect(socket).await.map_err(|error| {
        let text = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("no permission for {socket} ({error}); run this command as root")
            }
            _ => format!("nothing answers at {socket} ({error}){RUNTIME_CURE}"),
        };
        io::Error::new(error.kind(), text)
    })
}

/// A running agent.
#[derive(Debug)]
pub struct App {
    link: watch::Receiver<Link>,
    meta_server: Option<BoundAddress>,
    traffic: Traffic,
    devices: Option<DeviceTwin>,
    bus: Bus,
    services: Option<ServiceBus>,
    mesh: Option<EdgeMesh>,
    status: StatusSource,
    supervisor: Supervisor,
    shutdown: CancellationToken,
}

impl App {
    /// Builds and starts all modules; they end with `shutdown`.
    pub fn start(
        config: &Config,
        parts: AgentParts,
        shutdown: CancellationToken,
    ) -> Result<Self, Error> {
        let mut hub = hub_config(config)?;
        hub.recorder = parts.recorder.clone();
        hub.in_process.clone_from(&parts.in_process);
        let (hub, inbound, hub_task) = edgehub::new(hub);
        let (link, traffic) = (hub.link(), hub.traffic());
        let (store, to_cloud, own_hub) = (parts.store.clone(), hub.clone(), hub.clone());
        let stores = (parts.store, parts.copies);
        let (meta, ends) = metamanager::new(meta_config(config, (hub, inbound), stores)?);
        let (meta_server, is_served) = (ends.server, config.meta_manager.meta_server.is_some());
        let listening = meta_server
            .as_ref()
            .filter(|_| is_served)
            .map(MetaServer::listening);
        let reads = meta_server.as_ref().map(MetaServer::client);
        let mut supervisor = Supervisor::new();
        let to_all = |messages| services::Deps {
            store: store.clone(),
            hub: own_hub.clone(),
            messages,
            client: meta.client(),
        };
        let services = to_all(ends.service_messages);
        let of_jobs = (to_all(ends.job_messages), parts.configuration);
        let machine = (parts.runtime.clone(), parts.signals.clone());
        let jobs = node_jobs::start(config, of_jobs, machine, &mut supervisor, &shutdown)?;
        let deps = devices::Deps {
            store: store.clone(),
            objects: meta.devices(),
            hub: to_cloud,
            device_messages: ends.device_messages,
            topic_messages: ends.topic_messages,
            serves_mappers: parts.serves_mappers,
        };
        let (devices, dmi, bus) = devices::start(config, deps, &mut supervisor, &shutdown)?;
        let services = services::start(
            config,
            services,
            &bus,
            listening.as_ref(),
            &mut supervisor,
            &shutdown,
        );
        let of_meta = (&meta, meta_server.as_ref());
        let mesh = mesh::start(config, of_meta, &mut supervisor, &shutdown);
        let sources = metrics::Sources {
            services: services.clone(),
            mesh: mesh.clone(),
            hub: own_hub,
            meta: meta.clone(),
            bus: bus.clone(),
            devices: devices.clone(),
            dmi: dmi.clone(),
            vitals: supervisor.vitals(),
        };
        let objects = store.clone();
        let diagnostics = metrics::diagnostics(sources, Storage::new(store));
        let mut modules = status::Modules::new(&traffic, devices.as_ref(), dmi, &diagnostics);
        let operations = NodeOperations::new(config, &meta, parts.runtime.clone(), jobs);
        let mut objects = NodeObjects::new(objects, &meta, operations, meta_server.as_ref());
        let dns = mesh
            .as_ref()
            .and_then(|mesh| mesh::start_dns(config, mesh, &mut supervisor, &shutdown));
        if config.edged.enable {
            let inputs = pods::Inputs {
                runtime: parts.runtime,
                signals: parts.signals,
                pod_network: parts.pod_network,
                secrets_in_memory: parts.secrets_in_memory,
                services: reads.filter(|_| mesh.is_some()),
            };
            let mut edged = pods::config(config, &meta, inputs, diagnostics)?;
            mesh::configure(&mut edged, dns, meta_server.as_ref());
            let to_cloud = pods::ToCloud::new(&meta, &parts.recorder, parts.in_process.as_ref());
            let kubelet = pods::start(config, edged, to_cloud, &mut supervisor, &shutdown)?;
            modules.kubelet = Some(kubelet.clone());
            objects.set_kubelet(&kubelet);
            if let Some(meta_server) = &meta_server {
                meta_server.set_kubelet(Arc::new(kubelet));
            }
        } else {
            pods::warn_without(config);
        }
        modules.objects = Some(objects.build());
        supervisor.supervise("metamanager", ends.task, &shutdown);
        if let Some(meta_server) = meta_server {
            supervisor.supervise_optional("metaserver", meta_server, &shutdown);
        }
        supervisor.supervise("edgehub", hub_task, &shutdown);
        Ok(Self {
            status: StatusSource::new(config, link.clone(), modules),
            link,
            traffic,
            meta_server: listening,
            devices,
            bus,
            services,
            mesh,
            supervisor,
            shutdown,
        })
    }

    /// Returns the state of the connection to the cloud.
    pub fn link(&self) -> watch::Receiver<Link> {
        self.link.clone()
    }

    /// Returns the address of MetaServer, once it listens; `None` if it is disabled.
    pub fn meta_server(&self) -> Option<BoundAddress> {
        self.meta_server.clone()
    }

    /// Returns the traffic counters of the connection to the cloud.
    pub fn traffic(&self) -> Traffic {
        self.traffic.clone()
    }

    /// Returns the devices of this node; `None` if DeviceTwin is disabled.
    pub fn devices(&self) -> Option<DeviceTwin> {
        self.devices.clone()
    }

    /// Returns the handle of the MQTT brokers.
    pub fn bus(&self) -> Bus {
        self.bus.clone()
    }

    /// Returns the handle of ServiceBus; `None` if it is disabled.
    pub fn services(&self) -> Option<ServiceBus> {
        self.services.clone()
    }

    /// Returns the handle of EdgeMesh; `None` if it is disabled.
    pub fn mesh(&self) -> Option<EdgeMesh> {
        self.mesh.clone()
    }

    /// Returns the source of the agent's state.
    pub(crate) fn status(&self) -> StatusSource {
        self.status.clone()
    }

    /// Runs until shutdown, or until a module fails.
    pub async fn run(self) -> Result<(), Error> {
        Ok(self.supervisor.run(self.shutdown).await?)
    }
}

/// Asks the cloud, with the join token and with this node's certificate, whether the node must join again: it was reset or deleted there,
/// or this is another cloud.
///
/// # Errors
/// The cloud is not reached, or refuses the token.
pub async fn must_rejoin(config: &Config) -> Result<bool, Error> {
    Ok(edgehub::must_rejoin(&hub_config(config)?).await?)
}

/// Checks that this node has a certificate, or a token to get one. Nothing is created.
///
/// # Errors
/// It has neither.
pub(crate) fn check_identity(config: &Config) -> Result<(), Error> {
    Ok(edgehub::check_identity(&hub_config(config)?)?)
}

pub(crate) fn hub_config(config: &Config) -> Result<edgehub::Config, Error> {
    let hub = &config.edge_hub;
    Ok(edgehub::Config {
        node_name: config.node.name.clone(),
        transport: hub.transport,
        servers: hub.servers.clone(),
        http_servers: hub.http_servers.clone(),
        proxy: Proxy::from_environment(|name| std::env::var(name).ok())?,
        token: hub.token.clone(),
        project_id: hub.project_id.clone(),
        ca_file: hub.tls.ca.clone(),
        cert_file: hub.tls.cert.clone(),
        key_file: hub.tls.key.clone(),
        rotate_certificates: hub.rotate_certificates,
        heartbeat: hub.heartbeat,
        handshake_timeout: hub.handshake_timeout,
        write_deadline: hub.write_deadline,
        qps: hub.qps,
        burst: hub.burst,
        max_message: wire::json::DEFAULT_LIMIT,
        recorder: Default::default(),
        in_process: None,
    })
}

fn meta_config(
    config: &Config,
    (hub, inbound): (EdgeHub, Inbound),
    (store, copies): (Arc<dyn Store>, Option<Arc<dyn Store>>),
) -> Result<metamanager::Config, Error> {
    Ok(metamanager::Config {
        node_name: config.node.name.clone(),
        store,
        hub,
        inbound,
        timing: timing(config),
        server: meta_server::config(config, copies)?,
    })
}

fn timing(config: &Config) -> Timing {
    Timing {
        query_timeout: config.meta_manager.remote_query_timeout,
        pod_status_interval: config.meta_manager.pod_status_sync_interval,
    }
}

#[cfg(test)]
mod tests;
