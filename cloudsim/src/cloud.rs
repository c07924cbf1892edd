//! The whole cloud as a value: an API over a store, controllers, and its servers.

use std::{net::SocketAddr, sync::Arc};

use kube::Client;
use kubeapi::{
    serve::Server,
    store::{Store, StoreLock},
};
use tokio_util::sync::CancellationToken;

pub use self::{
    backed::{
        Calls, ClusterError, ClusterOptions, CrdError, LEASE, RULES, Right, RightsError, Rules,
        of_all_replicas,
    },
    error::StartError,
    options::{DATABASE, Options},
    standalone::seal,
};
use self::{
    backend::Backend,
    metrics::Metrics,
    replicas::{Reached, bind_hub, replicas, run_hub},
    routing::Routing,
    streams::Streams,
};
use crate::{
    admin::Admin,
    controllers::node_certificates,
    enrolment::Enrolment,
    faults::Faults,
    pki::{
        JoinToken, JoinTokens, NoToken, NodeCertificates, Pki, PkiError, RecordError, TokenRequest, Trust,
    },
    relay::Relays,
    sessions::{NodeSession, Sessions},
    streams::Tunnels,
    tasks::{TaskPanicked, Tasks},
};

mod backed;
mod backend;
mod error;
mod metrics;
mod options;
mod replicas;
mod routing;
mod standalone;
mod streams;

/// Where a cloud's servers listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The API; none before a cluster's API server.
    pub api: Option<SocketAddr>,
    /// Health and metrics, where they have a port of their own.
    pub health: Option<SocketAddr>,
    /// The enrolment endpoints.
    pub https: SocketAddr,
    /// CloudHub.
    pub websocket: SocketAddr,
    /// CloudHub's QUIC, where it is served.
    pub quic: Option<SocketAddr>,
    /// What nodes dial for their stream tunnels, where it is served.
    pub tunnel: Option<SocketAddr>,
    /// The relay between nodes, UDP, where it is served.
    pub relay: Option<SocketAddr>,
    /// What an API server that stands elsewhere asks nodes' kubelets by, where it is served.
    pub kubelets: Option<SocketAddr>,
    /// The router's REST listener, where it is served.
    pub router: Option<SocketAddr>,
}

impl Addresses {
    /// Those of a cloud that nobody reaches, for tests of nodes.
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
        }
    }
}

/// A cloud that runs.
pub struct Cloud {
    client: Client,
    store: Option<Arc<dyn Store>>,
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
        // large: it holds the beginnings of both kinds of clouds
        Box::pin(Self::start_with(options)).await
    }

    async fn start_with(options: Options) -> Result<Self, StartError> {
        let (metrics, sessions) = (Metrics::default(), Sessions::default());
        let _ = metrics.sessions.set(sessions.clone());
        let backend = Backend::open(&options, &metrics, &sessions).await?;
        let (client, store) = (backend.client(), backend.store());
        let (certificates, tokens) = backend.records();
        let (pki, token) = backend.own_objects(&options).await?;

        let faults = Faults::new(options.seed);
        let trust = Trust::new(&pki, &options.names, options.renewal_grace, &faults, certificates.clone())?;
        let (shutdown, tasks) = (CancellationToken::new(), Tasks::default());
        let stop = || shutdown.child_token();
        let events = backend.recorder(&tasks, &shutdown);
        let streams = Streams::bind(&options, &trust, (&faults, &sessions), &client, pki.server()).await?;
        let (tunnel, kubelets, relay) = streams.addresses();
        let reached = Reached {
            root_ca: backend.root_ca(&pki).await?,
            kubelet_port: kubelets.map(|address| address.port()),
            approver: backend.approver(&options, &sessions),
        };
        let routing = Routing::bind(&options, &client, &sessions, &pki).await?;
        let replicas = replicas(&options, &client, &events, &certificates, &reached, &routing.rules);
        let (hub, quic) = bind_hub(&options, &trust, (&faults, &sessions), replicas.clone()).await?;
        let admin = Admin::new(&faults, &sessions, &trust, &tokens, (&client, &routing.rules));
        certificates.warn_of_lost().await?;

        let enrolment =
            Enrolment::new(trust.clone(), client.clone(), faults.clone(), sessions.clone(), tokens.clone());
        let https = bind_enrolment(&options, &trust, enrolment).await?;
        let served = backend.serve(&options, (admin, &pki, &metrics), &tasks, &shutdown).await?;
        let addresses = Addresses {
            api: served.api,
            health: served.health,
            https: https.local_addr(),
            websocket: hub.local_addr(),
            quic,
            tunnel,
            relay,
            kubelets,
            router: routing.address(),
        };

        tasks.spawn("enrolment server", https.run(stop()));
        run_hub(hub, replicas, served.ready, &tasks, &shutdown);
        streams.run(&tasks, &shutdown);
        routing.run(&tasks, &shutdown);
        spawn_once(&backend, &pki, (&certificates, &sessions), &tasks, &shutdown);
        let lock = match backend {
            Backend::Standalone(standalone) => {
                let (told, of) = ((&events, metrics), (&pki, &sessions));
                standalone.spawn(&options, told, of, &tasks, &shutdown).await?
            }
            Backend::Backed(backed) => {
                backed.spawn((&events, metrics), (&certificates, &sessions), &tasks, &shutdown);
                None
            }
        };
        tasks.close();
        Ok(Self {
            client,
            store,
            _lock: lock,
            addresses,
            kubeconfig: served.kubeconfig,
            token,
            faults,
            sessions,
            trust,
            join_tokens: tokens,
            shutdown,
            tasks,
        })
    }

    /// A client of its API, in the same process, or of the cluster's with this cloud's rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// What its API keeps; none before a cluster's API server.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// Where its servers listen.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// A kubeconfig of a person who may do everything; empty before a cluster's API server, which gives its own.
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

    /// The relay between its nodes.
    pub fn relays(&self) -> &Relays {
        self.sessions.relays()
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

/// What is done once, however many processes are this cloud.
fn spawn_once(
    backend: &Backend,
    pki: &Pki,
    (certificates, sessions): (&NodeCertificates, &Sessions),
    tasks: &Tasks,
    shutdown: &CancellationToken,
) {
    let (leading, own) = (backend.leading(), backend.own_client());
    let all = (backend.client(), certificates.clone(), sessions.clone());
    let records = leading.clone().run(shutdown.child_token(), move |term| {
        let (client, certificates, sessions) = all.clone();
        node_certificates::run(client, certificates, sessions, term)
    });
    tasks.spawn("node certificates", records);
    let ca = Arc::clone(pki.ca());
    let fresh = leading
        .run(shutdown.child_token(), move |term| JoinToken::keep_fresh(own.clone(), Arc::clone(&ca), term));
    tasks.spawn("join token", fresh);
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
