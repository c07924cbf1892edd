//! The whole cloud as a value: an API over a store, controllers, and its servers.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use kube::Client;
use kubeapi::{
    Api, Builder,
    serve::{BindError, Server},
    store::{
        LockError, LogLimits, MemoryStore, Resource, Seal, SealError, SqliteOptions, SqliteStore, Store,
        StoreError, StoreLock,
    },
};
use tokio_util::sync::CancellationToken;

pub use self::options::Options;
use self::{
    replicas::{bind_hub, replicas, run_hub},
    routing::Routing,
    streams::Streams,
};
use crate::{
    admin::{Admin, Doors},
    admission,
    controllers::{
        api_services, binder,
        certificates::{self, Office},
        events::Recorder,
        kubernetes_service, manager, namespaces, node_certificates, node_lifecycle,
        workloads::Cluster,
    },
    enrolment::Enrolment,
    faults::Faults,
    hub::{self, NodeSession, Sessions},
    kinds, kubeconfig,
    metrics::Metrics,
    pki::{
        self, JoinToken, JoinTokens, NoToken, NodeCertificates, Pki, PkiError, RecordError,
        ServiceAccountTokens, TokenRequest, Trust,
    },
    resource_metrics::{self, ResourceMetrics},
    router::NoRouter,
    streams::{NoKeys, NoStreamServer, Tunnels},
    tasks::{TaskPanicked, Tasks},
};

mod options;
mod replicas;
mod routing;
mod streams;

/// The file of the store in a data directory.
pub(crate) const DATABASE: &str = "cloudsim.db";

/// Why a cloud does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No name for its certificates.
    #[error("no name or address by which the cloud is reached was given; give at least one with --name")]
    NoName,
    /// The data directory cannot be made.
    #[error("the data directory {path} cannot be made; choose one that you may write to with --data-dir")]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store cannot be opened.
    #[error("the store of --data-dir cannot be opened")]
    Store(#[from] StoreError),
    /// The store's file is damaged.
    #[error(
        "the store of --data-dir is damaged; `cloudsim db repair --data-dir {}` (with its --key-file, if it has one) writes it anew with \
         all that can be read of it, or put a copy of {DATABASE} in its place",
        directory.display()
    )]
    Damaged {
        /// The data directory.
        directory: PathBuf,
        /// What is wrong.
        source: StoreError,
    },
    /// The keys cannot be used.
    #[error("--key-file cannot be used")]
    Keys(#[from] SealError),
    /// Another cloud runs in the data directory.
    #[error("a data directory belongs to one cloud at a time; choose another one with --data-dir")]
    Locked(#[from] LockError),
    /// The API is not complete.
    #[error("the API could not be given its first namespaces")]
    Api(#[from] kube::Error),
    /// The records of nodes' certificates cannot be read.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// No keys.
    #[error("the cloud has no keys")]
    Pki(#[from] PkiError),
    /// A port is taken or not allowed.
    #[error("the {server} cannot listen; change it with {option}")]
    Bind {
        /// Which server.
        server: &'static str,
        /// The option that changes its port.
        option: &'static str,
        /// Why.
        source: BindError,
    },
    /// CloudHub's port is taken or not allowed.
    #[error(transparent)]
    Hub(#[from] hub::BindError),
    /// The same of its QUIC port.
    #[error(transparent)]
    Quic(#[from] hub::QuicBindError),
    /// The same of the port for nodes' stream tunnels.
    #[error(transparent)]
    Streams(#[from] NoStreamServer),
    /// The same of the router.
    #[error(transparent)]
    Router(#[from] NoRouter),
    /// Who may ask for nodes' kubelets is not known.
    #[error(transparent)]
    Kubelets(#[from] NoKeys),
    /// No kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::WriteError),
}

/// Where a cloud's servers listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The API.
    pub api: SocketAddr,
    /// The enrolment endpoints.
    pub https: SocketAddr,
    /// CloudHub.
    pub websocket: SocketAddr,
    /// CloudHub's QUIC, where it is served.
    pub quic: Option<SocketAddr>,
    /// What nodes dial for their stream tunnels, where it is served.
    pub tunnel: Option<SocketAddr>,
    /// What an API server that stands elsewhere asks nodes' kubelets by, where it is served.
    pub kubelets: Option<SocketAddr>,
    /// The router's REST listener, where it is served.
    pub router: Option<SocketAddr>,
}

#[cfg(test)]
impl Addresses {
    /// Those of a cloud that nobody reaches.
    pub(crate) fn nowhere() -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        Self {
            api: nowhere,
            https: nowhere,
            websocket: nowhere,
            quic: None,
            tunnel: None,
            kubelets: None,
            router: None,
        }
    }
}

/// A cloud that runs.
pub struct Cloud {
    client: Client,
    store: Arc<dyn Store>,
    /// Of the data directory, if there is one.
    _lock: Option<StoreLock>,
    addresses: Addresses,
    kubeconfig: String,
    token: String,
    faults: Faults,
    sessions: Sessions,
    trust: Trust,
    join_tokens: JoinTokens,
    shutdown: CancellationToken,
    tasks: Tasks,
}

impl Cloud {
    /// Starts a cloud. When this returns, its servers accept connections.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let primary = options.names.first().cloned().ok_or(StartError::NoName)?;
        let (store, lock) = open_store(&options).await?;
        let accounts = Arc::new(ServiceAccountTokens::new(options.max_token_lifetime));
        let (certificates, tokens) =
            (NodeCertificates::new(Arc::clone(&store)), JoinTokens::new(Arc::clone(&store)));
        let (metrics, sessions) = (Metrics::default(), Sessions::default());
        let _ = metrics.sessions.set(sessions.clone());
        let tunnels = options.tunnel_port.map(|_| Arc::new(sessions.tunnels().clone()));
        let usage = tunnels.clone().map(|tunnels| ResourceMetrics::new(Arc::clone(&store), tunnels));
        let api = with_nodes(api(&options, &store, &accounts, &metrics), tunnels, usage.as_ref()).build();
        let client = api.client("default");
        // what the cloud needs to run at all: a stored policy or webhook that refuses everything can be deleted once it runs
        let own = api.unreviewed_client("default");
        let (pki, token) = own_objects(&own, &options, &accounts).await?;

        let faults = Faults::new(options.seed);
        let trust = Trust::new(&pki, &options.names, options.renewal_grace, &faults, certificates.clone())?;
        let (shutdown, tasks) = (CancellationToken::new(), Tasks::default());
        let stop = || shutdown.child_token();
        let events = Recorder::spawn(&tasks, &client, &shutdown);
        let streams = Streams::bind(&options, &trust, (&faults, &sessions), &client, pki.server()).await?;
        let (tunnel, kubelets) = streams.addresses();
        let port = kubelets.map(|address| address.port());
        let routing = Routing::bind(&options, &client, &sessions, &pki).await?;
        let replicas = replicas(&options, &client, &events, &pki, (&certificates, port), &routing.rules);
        let (hub, quic) = bind_hub(&options, &trust, (&faults, &sessions), replicas.clone()).await?;
        let admin = Admin::new(&faults, &sessions, &trust, &tokens, (&client, &routing.rules));
        certificates.warn_of_lost().await?;

        let doors = Doors { api: api.service(), admin };
        let at = SocketAddr::new(options.address, options.api_port);
        let api_server = Server::bind(at, Some(pki::api_tls(pki.server())?), doors)
            .await
            .map_err(|source| StartError::Bind { server: "API", option: "--api-port", source })?;
        let enrolment =
            Enrolment::new(trust.clone(), client.clone(), faults.clone(), sessions.clone(), tokens.clone());
        let https = bind_enrolment(&options, &trust, enrolment).await?;
        let (api, https_at, websocket) = (api_server.local_addr(), https.local_addr(), hub.local_addr());
        let router = routing.address();
        let addresses = Addresses { api, https: https_at, websocket, quic, tunnel, kubelets, router };

        kubernetes_service::ensure(&own, addresses.api.port(), &options.names).await?;
        let kubeconfig = write_kubeconfig(&options, &primary, addresses.api.port(), &pki)?;

        tasks.spawn("API server", api_server.run(stop()));
        tasks.spawn("enrolment server", https.run(stop()));
        run_hub(hub, replicas, &tasks, &shutdown);
        streams.run(&tasks, &shutdown);
        routing.run(&tasks, &shutdown);
        if let Some(usage) = usage {
            resource_metrics::ensure_role(&own).await?;
            tasks.spawn("metrics.k8s.io", usage.run(stop()));
        }
        spawn_controllers(&options, (&client, &events, metrics), (&pki, &sessions), &tasks, &shutdown);
        let records = node_certificates::run(client.clone(), certificates, sessions.clone(), stop());
        tasks.spawn("node certificates", records);
        tasks.spawn("join token", JoinToken::keep_fresh(own, Arc::clone(pki.ca()), stop()));
        tasks.spawn("store", watch_store(Arc::clone(&store), tasks.clone(), stop()));
        tasks.close();
        Ok(Self {
            client,
            store,
            _lock: lock,
            addresses,
            kubeconfig,
            token,
            faults,
            sessions,
            trust,
            join_tokens: tokens,
            shutdown,
            tasks,
        })
    }

    /// A client of its API, in the same process.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// What its API keeps.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Where its servers listen.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// A kubeconfig of a person who may do everything.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// A join token that is good for a day.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What is wrong on purpose: to be looked at and changed.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The sessions of its nodes.
    pub fn sessions(&self) -> Vec<NodeSession> {
        self.sessions.list()
    }

    /// The stream tunnels of its nodes: the way to their kubelets.
    pub fn tunnels(&self) -> &Tunnels {
        self.sessions.tunnels()
    }

    /// A join token of the authority that counts now, which a fault may have put in the place of the cloud's own.
    pub fn token_now(&self) -> Result<String, PkiError> {
        self.trust.token()
    }

    /// A join token for one node, a time, a number of uses.
    pub async fn join_token(&self, request: &TokenRequest) -> Result<String, NoToken> {
        self.join_tokens.mint(self.trust.authority(), request).await
    }

    /// Takes the node's certificates back and ends its session: its name may be given by a join token again. Whether it had any.
    pub async fn reset_node(&self, node: &str) -> Result<bool, RecordError> {
        let any = self.trust.certificates().reset(node).await?;
        self.sessions.end(node);
        Ok(any)
    }

    /// Opens the names whose records were lost with a damaged database, as [`NodeCertificates::reset_lost`].
    pub async fn reset_lost(&self) -> Result<Vec<String>, RecordError> {
        self.trust.certificates().reset_lost().await
    }

    /// Whether a node of this name may come with this certificate (DER): this cloud's authority has signed it, and it was not taken
    /// back.
    pub async fn knows(&self, node: &str, certificate: &[u8]) -> Result<bool, RecordError> {
        let is_own = self.trust.authority().has_signed(certificate);
        Ok(is_own && self.trust.certificates().counts(node, certificate).await?)
    }

    /// Waits for a panic of a controller or server: the cloud does not do all that it should any more, and is to be stopped.
    pub async fn panicked(&self) -> TaskPanicked {
        self.tasks.panicked().await
    }

    /// Ends sessions, servers and controllers.
    ///
    /// # Errors
    /// One of them has panicked, now or before.
    pub async fn stop(self) -> Result<(), TaskPanicked> {
        self.shutdown.cancel();
        self.tasks.wait().await
    }
}

impl std::fmt::Debug for Cloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cloud").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// The API over the store.
fn api(
    options: &Options,
    store: &Arc<dyn Store>,
    accounts: &Arc<ServiceAccountTokens>,
    metrics: &Metrics,
) -> Builder {
    let api = Api::builder(Arc::clone(store)).registry(kinds::registry()).stored_only(kinds::STORED_ONLY);
    let api = api.token_issuer(accounts.clone()).admission(Arc::new(admission::OfKubeEdge));
    api.metrics(metrics.source()).rbac(options.rbac)
}

/// Namespaces, keys and tokens without which it does not run.
async fn own_objects(
    own: &Client,
    options: &Options,
    accounts: &ServiceAccountTokens,
) -> Result<(Pki, String), StartError> {
    namespaces::ensure_initial(own).await?;
    accounts.set_key(pki::ensure_accounts_key(own).await?);
    let pki = Pki::ensure(own, &options.names).await?;
    pki::publish_client_ca(own, &pki.ca_pem()).await?;
    let token = JoinToken::renew(own, pki.ca()).await?;
    Ok((pki, token))
}

/// The enrolment endpoints, with the keys of the moment.
async fn bind_enrolment(
    options: &Options,
    trust: &Trust,
    enrolment: Enrolment,
) -> Result<Server<Enrolment>, StartError> {
    let keys = trust.clone();
    let at = SocketAddr::new(options.address, options.https_port);
    let bound =
        Server::bind_changing(at, move || keys.enrolment(), enrolment.reserving(&options.reserved)).await;
    bound.map_err(|source| StartError::Bind { server: "enrolment server", option: "--https-port", source })
}

/// The same with what comes from nodes through their tunnels, where there are any.
fn with_nodes(mut api: Builder, tunnels: Option<Arc<Tunnels>>, usage: Option<&ResourceMetrics>) -> Builder {
    if let Some(tunnels) = tunnels {
        api = api.node_streams(tunnels);
    }
    if let Some(usage) = usage {
        api = api.computed(Arc::new(usage.clone()));
    }
    api
}

/// The kubeconfig of a person who may do everything, written where it is to be.
fn write_kubeconfig(options: &Options, primary: &str, port: u16, pki: &Pki) -> Result<String, StartError> {
    let (certificate, key) = pki.sign_admin()?;
    let server = format!("https://{}:{port}", kubeconfig::in_url(primary));
    let kubeconfig = kubeconfig::text(&server, pki.ca().cert_der(), &certificate, &key);
    if let Some(path) = &options.kubeconfig {
        kubeconfig::write(path, &kubeconfig)?;
    }
    Ok(kubeconfig)
}

/// Starts what a cluster's scheduler and controller manager do, as far as it is switched on.
fn spawn_controllers(
    options: &Options,
    (client, events, metrics): (&Client, &Recorder, Metrics),
    (pki, sessions): (&Pki, &Sessions),
    tasks: &Tasks,
    shutdown: &CancellationToken,
) {
    let is_on = |name| options.controllers.is_on(name);
    let given = namespaces::Given {
        account: is_on("serviceaccount"),
        root_ca: is_on("root-ca-certificate-publisher").then(|| pki.ca_pem()),
    };
    if is_on("scheduler") {
        tasks.spawn(
            "scheduler",
            binder::run(client.clone(), events.clone(), metrics.scheduler, shutdown.child_token()),
        );
    }
    if given.account || given.root_ca.is_some() {
        tasks.spawn(
            "serviceaccount and root-ca-certificate-publisher",
            namespaces::run(client.clone(), given, shutdown.child_token()),
        );
    }
    if is_on("node-lifecycle") {
        let lifecycle =
            node_lifecycle::run(client.clone(), events.clone(), options.lease_grace, shutdown.child_token());
        tasks.spawn("node-lifecycle", lifecycle);
    }
    let office = Office {
        approves: is_on("csrapproving"),
        signs: is_on("csrsigning"),
        ca: Arc::clone(pki.ca()),
        cloud: options.names.clone(),
        sessions: sessions.clone(),
    };
    if office.approves || office.signs {
        tasks.spawn(
            "csrapproving and csrsigning",
            certificates::run(client.clone(), office, shutdown.child_token()),
        );
    }
    if is_on("csrcleaner") {
        tasks.spawn("csrcleaner", certificates::clean(client.clone(), shutdown.child_token()));
    }
    tasks.spawn("apiservice-registration", api_services::run(client.clone(), shutdown.child_token()));
    let cluster = Cluster::new(client.clone(), events.clone()).counted_in(metrics.queues);
    manager::spawn_for(cluster, tasks, &options.controllers, shutdown);
}

/// Tells when nothing can be written any more, since what writes has panicked.
async fn watch_store(store: Arc<dyn Store>, tasks: Tasks, stop: CancellationToken) {
    if stop.run_until_cancelled(store.closed()).await.is_some() {
        tasks.fail("store", "its writer has ended".into());
    }
}

/// The store, with the right to it where it is on the disk.
async fn open_store(options: &Options) -> Result<(Arc<dyn Store>, Option<StoreLock>), StartError> {
    let Some(directory) = &options.data_dir else { return Ok((MemoryStore::new(), None)) };
    let failed = |source| StartError::Directory { path: directory.clone(), source };
    tokio::fs::create_dir_all(directory).await.map_err(failed)?;
    let database = directory.join(DATABASE);
    let lock = StoreLock::take(&database)?;
    let options = SqliteOptions { seal: seal(options.key_file.as_deref())?, log: LogLimits::CLOUD };
    match SqliteStore::open_with(&database, options).await {
        Ok(store) => Ok((store, Some(lock))),
        Err(source) if source.is_damaged_file() => {
            Err(StartError::Damaged { directory: directory.clone(), source })
        }
        Err(error) => Err(error.into()),
    }
}

/// What encrypts Secrets, and with them the keys of the authority, of service accounts and the join token.
pub(crate) fn seal(key_file: Option<&Path>) -> Result<Option<Seal>, SealError> {
    key_file.map(|path| Seal::from_file(path, vec![Resource::new("", "secrets")])).transpose()
}
