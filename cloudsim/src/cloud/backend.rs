//! Which cloud it is: one that is a cluster itself, or one before the API server of a cluster that exists. What KubeEdge adds works with
//! the client of either and cannot tell which.

use std::{net::SocketAddr, sync::Arc};

use kube::Client;
use kubeapi::{serve::Server, store::Store};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Options, StartError,
    backed::{Backed, ClusterOrPki, Health, Leading, readiness},
    metrics::Metrics,
    standalone::Standalone,
};
use crate::{
    admin::{Admin, Endpoints},
    controllers::{certificates::Approver, events::Recorder},
    pki::{JoinTokens, NodeCertificates, Pki},
    sessions::Sessions,
    tasks::Tasks,
};

/// Which cloud it is.
pub(super) enum Backend {
    /// Its API and its state are its own.
    Standalone(Box<Standalone>),
    /// It keeps nothing: everything is in the cluster.
    Backed(Box<Backed>),
}

/// The servers that only one of them has; they run already.
pub(super) struct Served {
    /// The API.
    pub(super) api: Option<SocketAddr>,
    /// Health and metrics.
    pub(super) health: Option<SocketAddr>,
    /// For a person who may do everything; empty where the cluster gives its own.
    pub(super) kubeconfig: String,
    /// To be told when nodes are taken.
    pub(super) ready: watch::Sender<bool>,
}

impl Backend {
    /// Opens the store, or reaches the cluster.
    pub(super) async fn open(
        options: &Options,
        metrics: &Metrics,
        sessions: &Sessions,
    ) -> Result<Self, StartError> {
        if options.names.is_empty() {
            return Err(StartError::NoName);
        }
        Ok(match &options.cluster {
            None => Self::Standalone(Box::new(Standalone::open(options, metrics, sessions).await?)),
            Some(cluster) => Self::Backed(Box::new(Box::pin(Backed::connect(cluster)).await?)),
        })
    }

    /// What everything is read and written through.
    pub(super) fn client(&self) -> Client {
        match self {
            Self::Standalone(standalone) => standalone.client.clone(),
            Self::Backed(backed) => backed.client.clone(),
        }
    }

    /// What the cloud's own keys are read and written through.
    pub(super) fn own_client(&self) -> Client {
        match self {
            Self::Standalone(standalone) => standalone.own.clone(),
            Self::Backed(backed) => backed.client.clone(),
        }
    }

    /// What the API keeps, where it is this program's own.
    pub(super) fn store(&self) -> Option<Arc<dyn Store>> {
        match self {
            Self::Standalone(standalone) => Some(Arc::clone(&standalone.store)),
            Self::Backed(_) => None,
        }
    }

    /// Which certificates of nodes count, and the uses of join tokens.
    pub(super) fn records(&self) -> (NodeCertificates, JoinTokens) {
        match self {
            Self::Standalone(standalone) => standalone.records(),
            Self::Backed(backed) => backed.records(),
        }
    }

    /// Keys and the join token, made where they are missing.
    pub(super) async fn own_objects(&self, options: &Options) -> Result<(Pki, String), StartError> {
        match self {
            Self::Standalone(standalone) => standalone.own_objects(options).await,
            Self::Backed(backed) => backed.own_objects(&options.names).await.map_err(|error| match error {
                ClusterOrPki::Cluster(error) => error.into(),
                ClusterOrPki::Pki(error) => error.into(),
            }),
        }
    }

    /// The authority (PEM) by which pods verify the API server.
    pub(super) async fn root_ca(&self, pki: &Pki) -> Result<String, StartError> {
        match self {
            Self::Standalone(_) => Ok(pki.ca_pem()),
            Self::Backed(backed) => Ok(backed.root_ca().await?),
        }
    }

    /// Writes events; deletes old ones where nobody else does.
    pub(super) fn recorder(&self, tasks: &Tasks, stop: &CancellationToken) -> Recorder {
        match self {
            Self::Standalone(standalone) => Recorder::spawn(tasks, &standalone.client, stop),
            Self::Backed(backed) => Recorder::spawn_writer(tasks, &backed.client, stop),
        }
    }

    /// Whether this process does what is to be done once.
    pub(super) fn leading(&self) -> Leading {
        match self {
            Self::Standalone(_) => Leading::always(),
            Self::Backed(backed) => backed.leading(),
        }
    }

    /// Decides on nodes' requests for certificates of servers; nothing where they are made in the nodes' names, as the cloud of an
    /// API of its own may do.
    pub(super) fn approver(&self, options: &Options, sessions: &Sessions) -> Option<Approver> {
        let approver = || Approver { cloud: options.names.clone(), sessions: sessions.clone() };
        matches!(self, Self::Backed(_)).then(approver)
    }

    /// Binds and runs the API, or the port for health.
    pub(super) async fn serve(
        &self,
        options: &Options,
        (admin, pki, metrics): (Admin, &Pki, &Metrics),
        tasks: &Tasks,
        stop: &CancellationToken,
    ) -> Result<Served, StartError> {
        let (ready, is_ready) = readiness();
        match self {
            Self::Standalone(standalone) => {
                let (server, kubeconfig): (Server<Endpoints>, _) =
                    standalone.bind(options, admin, pki).await?;
                let api = Some(server.local_addr());
                tasks.spawn("API server", server.run(stop.child_token()));
                Ok(Served { api, health: None, kubeconfig, ready })
            }
            Self::Backed(backed) => {
                let mut health = None;
                if let Some(port) = backed.options.health_port {
                    let service = Health::new(is_ready, backed.reached(), metrics.source());
                    let server = Server::bind(SocketAddr::new(options.address, port), None, service).await;
                    let server = server.map_err(|source| StartError::Bind {
                        server: "server of health and metrics",
                        option: "--health-port",
                        source,
                    })?;
                    health = Some(server.local_addr());
                    tasks.spawn("health server", server.run(stop.child_token()));
                }
                Ok(Served { api: None, health, kubeconfig: String::new(), ready })
            }
        }
    }
}
