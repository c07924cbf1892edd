//! The whole cloud as one value: an API over a store, controllers, and its servers.

use std::{net::SocketAddr, sync::Arc};

use kube::Client;
use kubeapi::{
    Identity,
    serve::{HandlerService, Server},
};
use objectstore::{Store, StoreLock};

pub use self::{
    backed::{
        ClusterError, ClusterOptions, CrdError, LEASE, Observer, RULES, RequiredRules, Right,
        RightsError, of_all_replicas,
    },
    error::StartError,
    options::{DATABASE, Options},
    ports::BusyPort,
    standalone::seal,
};
use self::{
    backend::Backend,
    metrics::Metrics,
    replicas::{bind_hub, replicas, run_hub},
    routing::Routing,
    streams::Streams,
};
use crate::{
    admin::Admin,
    controllers::{
        events::Recorder, node_certificates, node_jobs::NodeJobs, rejected_nodes, sync::SyncRecords,
    },
    enrolment::Enrolment,
    faults::Faults,
    in_process::InProcess,
    kubeconfig::Entries,
    page::Page,
    pki::{
        JoinToken, JoinTokenError, JoinTokens, NodeCertificates, Pki, PkiError, RecordError,
        TokenRequest, Trust, rejection_reports,
    },
    relay::Relays,
    sessions::{NodeSession, Sessions},
    streams::Tunnels,
    tasks::{TaskPanicked, Tasks},
};

mod backed;
mod backend;
mod error;
mod live_page;
mod metrics;
mod options;
mod peering;
mod ports;
mod recreated;
mod replicas;
mod routing;
mod standalone;
mod streams;

/// The user of the kubeconfig with all rights.
const ADMIN: &str = "kubernetes-admin";

/// The addresses on which a cloud's servers listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The API; `None` for a cloud before a cluster's API server.
    pub api: Option<SocketAddr>,
    /// Health and metrics, if they have a port of their own.
    pub health: Option<SocketAddr>,
    /// The enrolment endpoints.
    pub https: SocketAddr,
    /// CloudHub.
    pub websocket: SocketAddr,
    /// CloudHub over QUIC, if it is served.
    pub quic: Option<SocketAddr>,
    /// The server to which nodes dial their stream tunnels, if it is served.
    pub tunnel: Option<SocketAddr>,
    /// The UDP relay between nodes, if it is served.
    pub relay: Option<SocketAddr>,
    /// The server through which an external API server reaches nodes' kubelets, if it is served.
    pub kubelets: Option<SocketAddr>,
    /// The router's REST listener, if it is served.
    pub router: Option<SocketAddr>,
    /// Where other replicas reach this one, if they do.
    pub replicas: Option<SocketAddr>,
    /// The metrics API for the API server of a cluster, if it is served.
    pub metrics_api: Option<SocketAddr>,
    /// Of the live page in cluster mode; in standalone mode the API's server has it.
    pub page: Option<SocketAddr>,
}

impl Addresses {
    /// Returns placeholder addresses for tests of nodes that reach no cloud.
    pub fn nowhere() -> Self {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        Self {
            api: None,
            health: None,
            https: nowhere,
            websocket: nowhere,
            quic: None,
            tunnel: None,
            relay: None,
            kubelets: None,
            router: None,
            replicas: None,
            metrics_api: None,
            page: None,
        }
    }
}

/// A running cloud.
pub struct Cloud {
    client: Client,
    store: Option<Arc<dyn Store>>,
    /// The lock of the data directory, if there is one.
    _lock: Option<StoreLock>,
    addresses: Addresses,
    kubeconfig: String,
    entries: Option<Entries>,
    token: String,
    faults: Faults,
    sessions: Sessions,
    trust: Trust,
    join_tokens: JoinTokens,
    page: Option<Page>,
    in_process: InProcess,
    tasks: Tasks,
}

impl Cloud {
    /// Starts a cloud. When this returns, its servers accept connections.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        // large: it holds the beginnings of both kinds of clouds
        Box::pin(Self::start_with(options)).await
    }

    async fn start_with(options: Options) -> Result<Self, StartError> {
        let busy = ports::find_busy(&options);
        // the server itself reports a single one, with the system's error
        if busy.len() > 1 {
            return Err(StartError::Ports(busy));
        }
        let (page, recorder) = live_page::create(&options);
        let (metrics, sessions) = (Metrics::default(), Sessions::new(recorder));
        let _ = metrics.sessions.set(sessions.clone());
        let mut backend = Backend::open(&options, &metrics, &sessions).await?;
        let (client, store) = (backend.client(), backend.store());
        let (certificates, tokens) = backend.records();
        let (pki, token) = backend.ensure_own_objects(&options).await?;

        let given = options.faults.clone();
        let faults = given.unwrap_or_else(|| Faults::new(options.seed));
        let tasks = Tasks::default();
        tasks.spawn("faults", faults.clone().run(tasks.child_token()));
        let events = backend.recorder(&tasks);
        let trust = trust(
            &options,
            &pki,
            (&faults, &certificates),
            (&client, &events),
            &tasks,
        )?;
        let peering = backend.peering().await?;
        let reach = (&client, peering.as_ref().map(|peering| &peering.peers));
        let reported = (&faults, &sessions);
        let streams = Streams::bind(&options, &trust, reported, reach, pki.server()).await?;
        let [tunnel, kubelets, relay, metrics_api] = streams.addresses();
        let reached = backend
            .access(&options, &pki, &sessions, (&client, kubelets))
            .await?;
        let routing = Routing::bind(&options, reach, &sessions, &pki).await?;
        let node_jobs = NodeJobs::of_sessions(&client, &events, &sessions);
        let records = SyncRecords::new(client.clone()).with_store(store.as_ref());
        let replicas = replicas(
            &options,
            &client,
            &events,
            &certificates,
            &reached,
            (&routing.rules, &node_jobs, &records),
        );
        let (hub, quic) = bind_hub(&options, &trust, &faults, &sessions, replicas.clone()).await?;
        let admin = Admin::new(&faults, &sessions, &trust, &tokens, &client, &routing.rules)
            .with_page(page.clone())
            .with_snapshots(options.snapshots.clone());
        certificates.warn_of_lost().await?;

        let enrolment = Enrolment::new(&trust, &client, &faults, &sessions, (&tokens, &records))
            .reserving(&options.reserved);
        let connectors = (hub.connector(), streams.tunnel_connector());
        let in_process = InProcess::new(&trust, connectors, &enrolment, tasks.child_token());
        let https = bind_enrolment(&options, &trust, enrolment).await?;
        let served = backend
            .serve(&options, admin, &pki, &metrics, &tasks)
            .await?;
        let served_there = (&routing.rules, &sessions);
        let replicas_at = backend
            .serve_peers(peering, &options, served_there, &tasks)
            .await?;
        let addresses = Addresses {
            api: served.api,
            page: served.page,
            health: served.health,
            https: https.local_addr(),
            websocket: hub.local_addr(),
            quic,
            tunnel,
            relay,
            kubelets,
            router: routing.address(),
            replicas: replicas_at,
            metrics_api,
        };

        tasks.spawn("enrolment server", https.run(tasks.child_token()));
        run_hub(hub, replicas, served.ready, &tasks);
        streams.run(&tasks);
        routing.run(&tasks);
        tasks.spawn("node jobs", node_jobs.run(tasks.child_token()));
        spawn_leader_tasks(&backend, &pki, &certificates, &sessions, &tasks);
        let (counted, known) = ((&events, metrics), (&pki, &certificates, &sessions));
        let lock = backend.spawn(&options, counted, known, &tasks).await?;
        tasks.close();
        Ok(Self {
            client,
            store,
            _lock: lock,
            addresses,
            kubeconfig: served.kubeconfig,
            entries: served.entries,
            token,
            faults,
            sessions,
            trust,
            join_tokens: tokens,
            page,
            in_process,
            tasks,
        })
    }

    /// Returns the servers for nodes of this process, which reach them without sockets.
    pub fn in_process(&self) -> &InProcess {
        &self.in_process
    }

    /// Creates a login link to the live page for the administrator: a path of the API's server that is valid once. `None` if the page is
    /// off, and in cluster mode, where users log in with tokens.
    pub fn login_path(&self) -> Option<String> {
        if self.addresses.page.is_some() {
            return None;
        }
        let master = Identity {
            user: ADMIN.to_owned(),
            ..Identity::master()
        };
        let link = self.page.as_ref()?.login_link(master.into());
        Some(link.path)
    }

    /// Returns a client of the API: of the in-process one, or of the cluster's with this cloud's rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the store under the API; `None` for a cloud before a cluster's API server.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// Returns the addresses on which the servers listen.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns a kubeconfig with all rights; empty for a cloud before a cluster's API server, which issues its own.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Returns the cloud's entries in the user's kubeconfigs; `None` if it has none.
    pub fn kubeconfig_entries(&self) -> Option<&Entries> {
        self.entries.as_ref()
    }

    /// Returns a join token that is valid for a day.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the injected faults, to read and change them.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Returns the sessions of nodes.
    pub fn sessions(&self) -> Vec<NodeSession> {
        self.sessions.list()
    }

    /// Returns the stream tunnels of nodes, through which their kubelets are reached.
    pub fn tunnels(&self) -> &Tunnels {
        self.sessions.tunnels()
    }

    /// Returns the relay between nodes.
    pub fn relays(&self) -> &Relays {
        self.sessions.relays()
    }

    /// Signs a join token with the authority in force, which a fault may have put in the place of the cloud's own.
    pub fn token_now(&self) -> Result<String, PkiError> {
        self.trust.token()
    }

    /// Issues a join token for one node, a lifetime and a number of uses.
    pub async fn join_token(&self, request: &TokenRequest) -> Result<String, JoinTokenError> {
        self.join_tokens.mint(self.trust.authority(), request).await
    }

    /// Revokes the node's certificates and ends its session, so that a join token can give its name again. Returns whether it had any.
    pub async fn reset_node(&self, node: &str) -> Result<bool, RecordError> {
        let any = self.trust.certificates().reset(node).await?;
        self.sessions.end(node);
        Ok(any)
    }

    /// Frees the names whose records were lost with a damaged database; see [`NodeCertificates::reset_lost`].
    pub async fn reset_lost(&self) -> Result<Vec<String>, RecordError> {
        self.trust.certificates().reset_lost().await
    }

    /// Reports whether a node of this name may connect with this certificate (DER): this cloud's authority has signed it, and it was not
    /// revoked.
    pub async fn knows(&self, node: &str, certificate: &[u8]) -> Result<bool, RecordError> {
        let is_own = self.trust.authority().has_signed(certificate);
        Ok(is_own && self.trust.certificates().counts(node, certificate).await?)
    }

    /// Waits until a controller or server panics. The cloud is then incomplete and should be stopped.
    pub async fn wait_panicked(&self) -> TaskPanicked {
        self.tasks.wait_panicked().await
    }

    /// Stops sessions, servers and controllers. A cloud without a data directory is also removed from the user's kubeconfigs.
    ///
    /// # Errors
    /// Returns the panic of one of them, now or before.
    pub async fn stop(mut self) -> Result<(), TaskPanicked> {
        self.tasks.shutdown().cancel();
        let entries = self.entries.take();
        let removed = clock::spawn_blocking(|| drop(entries));
        let (stopped, _) = tokio::join!(self.tasks.wait(), removed);
        stopped
    }
}

impl std::fmt::Debug for Cloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cloud")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.tasks.shutdown().cancel();
    }
}

/// Starts what must run once per cloud, however many replicas it has.
fn spawn_leader_tasks(
    backend: &Backend,
    pki: &Pki,
    certificates: &NodeCertificates,
    sessions: &Sessions,
    tasks: &Tasks,
) {
    let (leading, own) = (backend.leading(), backend.own_client());
    let all = (
        backend.complete_client(),
        certificates.clone(),
        sessions.clone(),
    );
    let records = leading.clone().run(tasks.child_token(), move |term| {
        let (client, certificates, sessions) = all.clone();
        node_certificates::run(client, certificates, sessions, term)
    });
    tasks.spawn("node certificates", records);
    let ca = Arc::clone(pki.ca());
    let fresh = leading.run(tasks.child_token(), move |term| {
        JoinToken::keep_fresh(own.clone(), Arc::clone(&ca), term)
    });
    tasks.spawn("join token", fresh);
}

/// Makes the keys of the servers for nodes. Nodes that they reject are recorded as events.
fn trust(
    options: &Options,
    pki: &Pki,
    (faults, certificates): (&Faults, &NodeCertificates),
    (client, events): (&Client, &Recorder),
    tasks: &Tasks,
) -> Result<Trust, StartError> {
    let (reports, rejected) = rejection_reports();
    let grace = options.renewal_grace;
    let trust = Trust::new(
        pki,
        &options.names,
        grace,
        reports,
        faults,
        certificates.clone(),
    )?;
    let reporting = rejected_nodes::run(
        rejected,
        client.clone(),
        events.clone(),
        tasks.child_token(),
    );
    tasks.spawn("reports of rejected nodes", reporting);
    Ok(trust)
}

/// Binds the enrolment endpoints with the present keys.
async fn bind_enrolment(
    options: &Options,
    trust: &Trust,
    enrolment: Enrolment,
) -> Result<Server<HandlerService<Enrolment>>, StartError> {
    let keys = trust.clone();
    let at = SocketAddr::new(options.address, options.https_port);
    let service = HandlerService(enrolment);
    let bound = Server::bind_changing(at, move || keys.enrolment(), service).await;
    bound.map_err(|source| StartError::Bind {
        server: "enrolment server",
        option: "--https-port",
        source,
    })
}
