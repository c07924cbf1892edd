//! The two kinds of clouds: one that is a cluster itself, and one before the API server of an existing cluster. KubeEdge's controllers
//! use the client of either and cannot tell which.

use std::{net::SocketAddr, sync::Arc};

use kube::Client;
use kubeapi::serve::{HandlerService, Server};
use objectstore::{Store, StoreLock};
use tokio::sync::watch;

use super::{
    Options, StartError,
    backed::{Backed, ClusterOrPki, Health, Leading, readiness},
    live_page,
    metrics::Metrics,
    peering::Peering,
    replicas::ApiAccess,
    standalone::Standalone,
};
use crate::{
    admin::Admin,
    controllers::{certificates::Approver, events::Recorder, rules::Rules},
    kubeconfig::Entries,
    pki::{JoinTokens, NodeCertificates, Pki},
    sessions::Sessions,
    streams::{KubeletEndpoint, NodeAddress},
    tasks::Tasks,
};

/// The kind of a cloud.
pub(super) enum Backend {
    /// With an API and a state of its own.
    Standalone(Box<Standalone>),
    /// Without a state: everything is in the cluster.
    Backed(Box<Backed>),
}

/// The running servers that differ between the two kinds.
pub(super) struct BackendServers {
    /// The address of the API.
    pub(super) api: Option<SocketAddr>,
    /// The address of health and metrics.
    pub(super) health: Option<SocketAddr>,
    /// The address of the live page, where the API has another server.
    pub(super) page: Option<SocketAddr>,
    /// A kubeconfig with all rights; empty if the cluster issues its own.
    pub(super) kubeconfig: String,
    /// Its entries in the user's files.
    pub(super) entries: Option<Entries>,
    /// To be set when nodes are accepted.
    pub(super) ready: watch::Sender<bool>,
}

impl Backend {
    /// Opens the store, or connects to the cluster.
    pub(super) async fn open(
        options: &Options,
        metrics: &Metrics,
        sessions: &Sessions,
    ) -> Result<Self, StartError> {
        if options.names.is_empty() {
            return Err(StartError::NoName);
        }
        Ok(match &options.cluster {
            None => Self::Standalone(Box::new(
                Standalone::open(options, metrics, sessions).await?,
            )),
            Some(cluster) => Self::Backed(Box::new(Box::pin(Backed::connect(cluster)).await?)),
        })
    }

    /// Returns the client of the API.
    pub(super) fn client(&self) -> Client {
        match self {
            Self::Standalone(standalone) => standalone.client.clone(),
            Self::Backed(backed) => backed.client.clone(),
        }
    }

    /// Returns a client whose lists fail if one of their objects is damaged.
    pub(super) fn complete_client(&self) -> Client {
        match self {
            Self::Standalone(standalone) => standalone.complete.clone(),
            // an API server lists all or fails
            Self::Backed(backed) => backed.client.clone(),
        }
    }

    /// Returns the client for the cloud's own keys.
    pub(super) fn own_client(&self) -> Client {
        match self {
            Self::Standalone(standalone) => standalone.own.clone(),
            Self::Backed(backed) => backed.client.clone(),
        }
    }

    /// Returns the store, if the API is this program's own.
    pub(super) fn store(&self) -> Option<Arc<dyn Store>> {
        match self {
            Self::Standalone(standalone) => Some(Arc::clone(&standalone.store)),
            Self::Backed(_) => None,
        }
    }

    /// Returns the records of nodes' certificates and of join tokens' uses.
    pub(super) fn records(&self) -> (NodeCertificates, JoinTokens) {
        match self {
            Self::Standalone(standalone) => standalone.records(),
            Self::Backed(backed) => backed.records(),
        }
    }

    /// Returns the keys and the join token, and makes missing ones.
    pub(super) async fn ensure_own_objects(
        &self,
        options: &Options,
    ) -> Result<(Pki, String), StartError> {
        match self {
            Self::Standalone(standalone) => standalone.ensure_own_objects(options).await,
            Self::Backed(backed) => {
                backed
                    .ensure_own_objects(&options.names)
                    .await
                    .map_err(|error| match error {
                        ClusterOrPki::Cluster(error) => error.into(),
                        ClusterOrPki::Pki(error) => error.into(),
                    })
            }
        }
    }

    /// Returns the other replicas of this cloud, if requests are forwarded among them.
    pub(super) async fn peering(&self) -> Result<Option<Peering>, StartError> {
        match self {
            Self::Standalone(_) => Ok(None),
            Self::Backed(backed) => Ok(backed.peering().await?.map(Peering::new)),
        }
    }

    /// Starts the server for other replicas. Returns its address, which the records of this replica name.
    pub(super) async fn serve_peers(
        &mut self,
        peering: Option<Peering>,
        options: &Options,
        (rules, sessions): (&Rules, &Sessions),
        tasks: &Tasks,
    ) -> Result<Option<SocketAddr>, StartError> {
        let (Some(peering), Self::Backed(backed)) = (peering, self) else {
            return Ok(None);
        };
        backed.reached = peering.serve(options, rules, sessions, tasks).await?;
        Ok(backed.reached.requests)
    }

    /// Returns the CA (PEM) with which pods verify the API server.
    async fn root_ca(&self, pki: &Pki) -> Result<String, StartError> {
        match self {
            Self::Standalone(_) => Ok(pki.ca_pem()),
            Self::Backed(backed) => Ok(backed.root_ca().await?),
        }
    }

    /// Returns the event recorder; starts the deletion of old events if nothing else does it.
    pub(super) fn recorder(&self, tasks: &Tasks) -> Recorder {
        match self {
            Self::Standalone(standalone) => {
                Recorder::spawn(tasks, &standalone.client, tasks.shutdown())
            }
            Self::Backed(backed) => Recorder::spawn_writer(tasks, &backed.client, tasks.shutdown()),
        }
    }

    /// Returns whether this process leads.
    pub(super) fn leading(&self) -> Leading {
        match self {
            Self::Standalone(_) => Leading::always(),
            Self::Backed(backed) => backed.leading(),
        }
    }

    /// Returns what approves nodes' certificate requests; `None` if requests are made in the nodes' names, as in an API of our own.
    fn approver(&self, options: &Options, sessions: &Sessions) -> Option<Approver> {
        let approver = || Approver {
            cloud: options.names.clone(),
            sessions: sessions.clone(),
        };
        matches!(self, Self::Backed(_)).then(approver)
    }

    /// Returns how the parts of a replica reach the API, and what they tell it.
    pub(super) async fn access(
        &self,
        options: &Options,
        pki: &Pki,
        sessions: &Sessions,
        (client, kubelets): (&Client, Option<SocketAddr>),
    ) -> Result<ApiAccess, StartError> {
        Ok(ApiAccess {
            root_ca: self.root_ca(pki).await?,
            kubelets: kubelet_endpoint(options, client, kubelets).await?,
            approver: self.approver(options, sessions),
            complete: self.complete_client(),
        })
    }

    /// Binds and runs the API, or the port for health; before a cluster only after making sure that no other installation serves it. The
    /// Lease that says so is renewed from [`Backed::spawn`] on.
    pub(super) async fn serve(
        &mut self,
        options: &Options,
        admin: Admin,
        pki: &Pki,
        metrics: &Metrics,
        tasks: &Tasks,
    ) -> Result<BackendServers, StartError> {
        let (ready, is_ready) = readiness();
        match self {
            Self::Standalone(standalone) => {
                let (server, kubeconfig, entries) = standalone.bind(options, admin, pki).await?;
                let api = Some(server.local_addr());
                tasks.spawn("API server", server.run(tasks.child_token()));
                Ok(BackendServers {
                    api,
                    health: None,
                    page: None,
                    kubeconfig,
                    entries,
                    ready,
                })
            }
            Self::Backed(backed) => {
                backed.claim().await?;
                let mut health = None;
                if let Some(port) = backed.options.health_port {
                    let health_service =
                        Health::new(is_ready, backed.reachability(), metrics.source());
                    let at = SocketAddr::new(options.address, port);
                    let server = Server::bind(at, None, HandlerService(health_service)).await;
                    let server = server.map_err(|source| StartError::Bind {
                        server: "server of health and metrics",
                        option: "--health-port",
                        source,
                    })?;
                    health = Some(server.local_addr());
                    tasks.spawn("health server", server.run(tasks.child_token()));
                }
                let page = live_page::serve(options, &backed.options, admin, pki, tasks).await?;
                let (kubeconfig, entries) = (String::new(), None);
                Ok(BackendServers {
                    api: None,
                    health,
                    page,
                    kubeconfig,
                    entries,
                    ready,
                })
            }
        }
    }
    /// Starts the controllers. Returns the lock of the data directory, if there is one.
    pub(super) async fn spawn(
        self,
        options: &Options,
        (events, metrics): (&Recorder, Metrics),
        (pki, certificates, sessions): (&Pki, &NodeCertificates, &Sessions),
        tasks: &Tasks,
    ) -> Result<Option<StoreLock>, StartError> {
        match self {
            Self::Standalone(standalone) => {
                let (reports, own) = ((events, metrics), (pki, sessions));
                standalone.spawn(options, reports, own, tasks).await
            }
            Self::Backed(backed) => {
                backed.spawn(events, metrics, certificates, sessions, tasks);
                Ok(None)
            }
        }
    }
}

/// Returns where an external API server finds the kubelets of all nodes.
async fn kubelet_endpoint(
    options: &Options,
    client: &Client,
    bound: Option<SocketAddr>,
) -> Result<Option<KubeletEndpoint>, StartError> {
    let Some(bound) = bound else {
        return Ok(None);
    };
    let service = options.kubelets.as_ref().and_then(|it| it.service.as_ref());
    let address = match service {
        Some(service) => Some(NodeAddress::of(client, service).await?),
        None => None,
    };
    Ok(Some(KubeletEndpoint {
        port: bound.port(),
        address,
    }))
}
