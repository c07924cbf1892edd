//! MetaServer: the Kubernetes API for programs of this node, with the cloud or without.
//!
//! In: HTTP requests of kubectl, controllers and pods. Out: answers from [`copies`], which follow this node's own objects
//! ([`own_objects`]) and the cloud's: fetched from it ([`cloud`], [`list`]), or sent by it while a client watches
//! ([`watches`]). Writes go to the cloud only; logs and sessions of this node's pods come from its own kubelet API
//! ([`stream`]). The size of the copies is limited by [`eviction`].
//!
//! Source: KubeEdge's MetaServer; <https://kubernetes.io/docs/reference/using-api/api-concepts/>.

mod access;
mod authenticator;
mod certificate;
mod cloud;
mod copies;
mod eviction;
mod in_cluster;
mod interface;
mod json;
mod keys;
mod kinds;
mod kubelet;
mod list;
mod listed_collections;
mod local;
mod loopback;
mod operations;
mod own_objects;
mod query;
mod read;
mod reviews;
mod route;
mod service;
pub(super) mod service_object;
mod stream;
mod tls;
mod watch_sync;
mod watches;
mod write;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use componentbase::{Heartbeat, Link, Part, PartError};
use kube::Client;
use kubeapi::{
    Api, NodeStreams, client_of,
    serve::{BindError, Server},
};
use objectstore::{Store, StoreError};
use rustls::ServerConfig;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wire::Change;

use self::{
    access::Access,
    authenticator::Authenticator,
    certificate::CertificateManager,
    cloud::Cloud,
    copies::Copies,
    eviction::CollectionUsage,
    keys::{key_of, text},
    kinds::Kinds,
    kubelet::LateKubelet,
    list::CollectionLister,
    local::LocalApi,
    loopback::{Credentials, LocalClients, remove_stale_kubeconfig},
    operations::LateOperations,
    service::ApiServer,
    watches::ClientWatches,
};
pub use self::{
    access::{KeyError, TokenRules},
    in_cluster::{InCluster, InClusterCa, InClusterCaError},
    loopback::{CredentialsError, Loopback, files as loopback_files},
    tls::TlsError,
};
pub(crate) use self::{
    interface::{ensure as ensure_address, remove as remove_addresses},
    operations::{Done, Operation, Operations, Refusal},
};
use super::desired::Desired;
use crate::{config::TlsFiles, edgehub::EdgeHub};

/// What MetaServer needs.
#[derive(Clone, Debug)]
pub struct MetaServerConfig {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The store of the copies; it can be lost without harm.
    pub copies: Arc<dyn Store>,
    /// How callers are authenticated.
    pub authentication: Authentication,
}

/// How callers are authenticated.
#[derive(Clone, Debug)]
pub enum Authentication {
    /// Programs of this machine call over the loopback interface.
    Loopback(Loopback),
    /// By certificates and the tokens of service accounts; roles say what they may do.
    Accounts(AccountAuthentication),
    /// No callers: the API is not served, and only the agent's own modules call it ([`MetaServer::client`]).
    InProcessOnly,
}

/// How MetaServer is protected where it serves pods.
#[derive(Clone, Debug)]
pub struct AccountAuthentication {
    /// Another address, for pods. An interface is created for it where this machine has none with it.
    pub pods_address: SocketAddr,
    /// The server's certificate, and the CA of its clients.
    pub tls: TlsFiles,
    /// Whether the certificate is requested from the cloud and stored in the files of `tls`; otherwise the files must exist.
    pub requested: bool,
    /// Which tokens are accepted.
    pub tokens: TokenRules,
    /// How it is served at the address of the Service `default/kubernetes` as well; `None` where it is not.
    pub in_cluster: Option<InCluster>,
    /// The directory of a kubeconfig that was written while accounts were not checked; the file is removed.
    pub directory: PathBuf,
}

/// Why MetaServer does not run.
#[derive(Debug, thiserror::Error)]
pub enum MetaServerError {
    /// The address cannot be bound.
    #[error("MetaServer cannot listen; change modules.metaManager.metaServer.server")]
    Bind(#[from] BindError),
    /// There is no certificate.
    #[error("cannot set up TLS for MetaServer")]
    Tls(#[from] TlsError),
    /// The keys of tokens cannot be read.
    #[error("MetaServer cannot check tokens")]
    Keys(#[from] KeyError),
    /// There are no credentials for programs of this machine.
    #[error("cannot create MetaServer's credentials for clients on this machine")]
    Credentials(#[from] CredentialsError),
    /// The copies cannot be read.
    #[error("cannot read MetaServer's cache; delete metaserver.db to create it again")]
    Store(#[from] StoreError),
}

/// The address on which it listens, once it does.
pub type BoundAddress = watch::Receiver<Option<SocketAddr>>;

/// Stores the changes of watched collections, which the cloud sends, into the copies.
#[derive(Clone)]
pub(super) struct WatchedChanges {
    copies: Copies,
    kinds: Kinds,
}

impl WatchedChanges {
    /// Stores a change that the cloud's dynamic controller sends.
    pub(super) async fn change(&self, change: Change, object: &Value) -> Result<(), StoreError> {
        if text(object, "/metadata/name").is_empty() || text(object, "/kind").is_empty() {
            tracing::warn!("object ignored: the cloud sent no kind or name");
            return Ok(());
        }
        let key = key_of(&self.kinds.collection_of(object), object);
        match change {
            Change::Insert | Change::Update => self.copies.put(&key, object).await,
            Change::Delete => {
                self.copies
                    .remove(&key, text(object, "/metadata/uid"))
                    .await
            }
        }
    }
}

/// MetaServer, ready to run.
pub struct MetaServer {
    address: SocketAddr,
    authentication: Authentication,
    node: String,
    hub: EdgeHub,
    own: Desired,
    copies: Copies,
    kinds: Kinds,
    watches: ClientWatches,
    api_server: ApiServer,
    listening: watch::Sender<Option<SocketAddr>>,
}

impl std::fmt::Debug for MetaServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetaServer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Builds MetaServer over this node's `own` objects.
pub(super) fn new(
    config: MetaServerConfig,
    node: &str,
    own: Desired,
    hub: EdgeHub,
) -> (MetaServer, WatchedChanges) {
    let MetaServerConfig {
        address,
        copies,
        authentication,
    } = config;
    let kubelet = LateKubelet::default();
    let api = Api::builder(Arc::clone(&copies));
    let api = api.node_streams(Arc::new(kubelet.clone())).build();
    let local = LocalApi::new(api.service());
    let copies = Copies::new(copies, own.clone(), node);
    let cloud = Cloud::new(node, hub.clone());
    let lists = CollectionLister::new(cloud.clone(), copies.clone(), local.clone());
    let kinds = Kinds::new(api, copies.clone(), lists.clone());
    let watches = ClientWatches::default();
    let watched_changes = WatchedChanges {
        copies: copies.clone(),
        kinds: kinds.clone(),
    };
    let api_server = ApiServer {
        authenticator: None,
        cloud,
        copies: copies.clone(),
        kinds: kinds.clone(),
        kubelet,
        watches: watches.clone(),
        lists,
        local,
        usage: CollectionUsage::default(),
        operations: LateOperations::default(),
    };
    let (listening, node) = (watch::Sender::new(None), node.to_owned());
    (
        MetaServer {
            address,
            authentication,
            node,
            hub,
            own,
            copies,
            kinds,
            watches,
            api_server,
            listening,
        },
        watched_changes,
    )
}

impl MetaServerConfig {
    /// Returns the Service by which pods find MetaServer; `None` if it serves no pods.
    pub(super) fn service(&self) -> Option<Value> {
        match &self.authentication {
            Authentication::Accounts(guard) => Some(service_object::object(guard.pods_address)),
            Authentication::Loopback(_) | Authentication::InProcessOnly => None,
        }
    }
}

impl MetaServer {
    /// Sets the kubelet API that answers for the logs and sessions of this node's pods.
    pub(crate) fn set_kubelet(&self, kubelet: Arc<dyn NodeStreams>) {
        self.api_server.kubelet.set(kubelet);
    }

    /// Sets what carries out the operations of KubeEdge.
    pub(crate) fn set_operations(&self, operations: Arc<dyn Operations>) {
        self.api_server.operations.set(operations);
    }

    /// Returns the address on which it listens, once it does.
    pub fn listening(&self) -> BoundAddress {
        self.listening.subscribe()
    }

    /// Returns a client for the agent's own modules: in process, as this node.
    pub(crate) fn client(&self) -> Client {
        let api_server = ApiServer {
            authenticator: Some(Authenticator::Agent),
            ..self.api_server.clone()
        };
        client_of(api_server, "default")
    }

    /// Returns how it is served at the address of the Service `default/kubernetes`, if it is.
    pub(crate) fn in_cluster(&self) -> Option<&InCluster> {
        match &self.authentication {
            Authentication::Accounts(guard) => guard.in_cluster.as_ref(),
            Authentication::Loopback(_) | Authentication::InProcessOnly => None,
        }
    }

    /// Serves until `shutdown`.
    ///
    /// # Errors
    /// The address cannot be bound, or the copies, keys or certificates cannot be read.
    pub async fn run(mut self, shutdown: CancellationToken) -> Result<(), MetaServerError> {
        Box::pin(self.run_restartable(&Heartbeat::unmonitored(), shutdown)).await
    }

    /// Serves until `shutdown`. The future may be dropped at any point and the method called again: clients then reconnect.
    async fn run_restartable(
        &mut self,
        heartbeat: &Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), MetaServerError> {
        heartbeat.beat();
        self.kinds.load().await?;
        // from here on it serves, and may be idle for any time
        let _rest = heartbeat.idle();
        let tls;
        let (mut certificate_manager, mut for_pods, mut credentials) = (None, None, None);
        match &self.authentication {
            Authentication::Accounts(guard) => {
                remove_stale_kubeconfig(&guard.directory);
                let (own, cloud) = (self.own.clone(), self.api_server.cloud.clone());
                let access = Access::new(&self.node, own, cloud, guard.tokens.clone())?;
                self.api_server.authenticator = Some(Authenticator::Accounts(Arc::new(access)));
                let Some(ready) = shutdown.run_until_cancelled(self.tls(guard)).await else {
                    return Ok(());
                };
                let (served, manager) = ready?;
                make_interface(guard.pods_address.ip()).await;
                for_pods = Some(
                    Server::bind(
                        guard.pods_address,
                        Some(served.clone()),
                        self.api_server.clone(),
                    )
                    .await,
                );
                (tls, certificate_manager) = (Some(served), manager);
            }
            Authentication::Loopback(loopback) => {
                credentials = local_credentials(loopback, self.address.ip())?;
                tls = credentials.as_ref().map(Credentials::tls).transpose()?;
                let token = credentials
                    .as_ref()
                    .map(|credentials| credentials.token.as_str());
                let clients = LocalClients::new(loopback, token);
                self.api_server.authenticator = Some(Authenticator::Local(Arc::new(clients)));
            }
            Authentication::InProcessOnly => {
                self.copy(std::future::pending(), heartbeat, shutdown).await;
                return Ok(());
            }
        }
        let server = Server::bind(self.address, tls, self.api_server.clone()).await?;
        if let Some(credentials) = &credentials {
            credentials.write_kubeconfig(server.local_addr())?;
        }
        tracing::info!(address = %server.local_addr(), "MetaServer listening");
        self.listening.send_replace(Some(server.local_addr()));
        let for_pods = for_pods.transpose().unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "cannot listen at modules.metaManager.metaServer.dummyServer; add the address to an interface"
            );
            None
        });
        let serve_pods = or_pending(for_pods.map(|server| server.run(shutdown.clone())));
        let keep = or_pending(certificate_manager.map(CertificateManager::run));
        let serve_in_cluster = or_pending(
            self.in_cluster()
                .map(|to| to.serve(&self.api_server, &shutdown)),
        );
        let serve = async {
            clock::select! {
                // cancel-safe: what is not renewed now is at the next start
                () = server.run(shutdown.clone()) => {}
                () = serve_pods => {}
                () = serve_in_cluster => {}
                () = keep => {}
            }
        };
        Box::pin(self.copy(serve, heartbeat, shutdown.clone())).await;
        Ok(())
    }

    /// Updates the copies while `serve` runs.
    async fn copy(
        &self,
        serve: impl Future<Output = ()>,
        heartbeat: &Heartbeat,
        shutdown: CancellationToken,
    ) {
        clock::select! {
            // cancel-safe: what is not copied or removed now is at the next start
            () = serve => {}
            () = shutdown.cancelled() => {}
            () = own_objects::run(&self.own, &self.copies, heartbeat) => {}
            () = watch_sync::run(&self.api_server, &self.watches) => {}
            () = self.api_server.usage.run(&self.copies, &self.watches) => {}
        }
    }

    /// Returns the TLS configuration, and the certificate manager where no certificate is configured.
    async fn tls(
        &self,
        guard: &AccountAuthentication,
    ) -> Result<(ServerConfig, Option<CertificateManager>), TlsError> {
        if !guard.requested {
            return Ok((tls::config(&guard.tls)?, None));
        }
        // the CA comes with the node's own certificate
        if !guard.tls.ca.exists() {
            // fails when EdgeHub has ended, and this module is about to
            let _ = self.hub.link().wait_for(|link| *link != Link::Down).await;
        }
        let addresses = addresses([self.address.ip(), guard.pods_address.ip()]);
        let files = (guard.tls.cert.clone(), guard.tls.key.clone());
        let manager = CertificateManager::new(&self.node, addresses, files, self.hub.clone());
        Ok((
            tls::config_of_current(&guard.tls.ca, manager.current_certificate())?,
            Some(manager),
        ))
    }
}

impl Part for MetaServer {
    async fn run(
        &mut self,
        heartbeat: Heartbeat,
        shutdown: CancellationToken,
    ) -> Result<(), PartError> {
        Ok(Box::pin(self.run_restartable(&heartbeat, shutdown)).await?)
    }
}

/// Awaits the future; where there is none, never returns.
async fn or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Returns the credentials of clients on this machine; `None` if they need none, which is logged.
fn local_credentials(
    loopback: &Loopback,
    address: IpAddr,
) -> Result<Option<Credentials>, CredentialsError> {
    if loopback.anonymous {
        tracing::warn!(
            "authentication of MetaServer disabled (modules.metaManager.metaServer.anonymousAuth is true): every user of this machine \
             may read Secrets, delete pods and get tokens as this node may"
        );
        return Ok(None);
    }
    Credentials::load(loopback, address).map(Some)
}

/// Returns the addresses at which it can be reached, each once.
fn addresses(listening: [IpAddr; 2]) -> Vec<IpAddr> {
    let reached = |address: IpAddr| {
        if address.is_unspecified() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            address
        }
    };
    let mut addresses = listening.map(reached).to_vec();
    addresses.dedup();
    addresses
}

/// Ensures that this machine has the address; where that fails, only the other address is served.
async fn make_interface(address: IpAddr) {
    let made = componentbase::spawn_blocking(move || interface::ensure(address)).await;
    if let Ok(Err(error)) = made {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "cannot allocate the pod address"
        );
    }
}

#[cfg(test)]
mod tests;
