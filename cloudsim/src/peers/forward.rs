//! Forwards requests to the replica that has a node.

use std::{collections::BTreeSet, fmt, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use kubeapi::BoxError;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    net::TcpStream,
    sync::Mutex,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tracing::{debug, warn};

use super::{
    exchange::{ConnectionBody, exchange},
    table::{Connection, PeerNodes, Table},
    tls::NAME,
};

/// How old the table may be.
const MAX_AGE: Duration = Duration::from_secs(5);
/// How old the table may be for a node that it lacks, or that has left its replica.
const MAX_AGE_OF_LACK: Duration = Duration::from_millis(500);
/// How long reading the table may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long connecting to a replica may take, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The replicas that are tried: a node may have left one while its record says otherwise.
pub(crate) const ATTEMPTS: usize = 2;

/// Reads the nodes of all other replicas.
pub(crate) type ReadPeers =
    Box<dyn Fn() -> BoxFuture<'static, Result<Vec<PeerNodes>, BoxError>> + Send + Sync>;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    /// No replica that can be reached has the node. The request was not processed.
    #[error("the node is connected to no replica that can be reached")]
    NotConnected,
    /// The connection to the replica broke after the request was sent.
    #[error("connection to another replica lost: {0}")]
    Lost(BoxError),
    /// The replica did not answer in time.
    #[error("another replica did not answer in time")]
    Timeout,
}

/// The table, and when it was read.
#[derive(Default)]
struct CachedTable {
    table: Arc<Table>,
    read: Option<Instant>,
}

struct Inner {
    tls: TlsConnector,
    read: ReadPeers,
    cached: Mutex<CachedTable>,
}

/// The other replicas; cheap to clone.
#[derive(Clone)]
pub(crate) struct Peers(Arc<Inner>);

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").finish_non_exhaustive()
    }
}

impl Peers {
    /// Creates it with the TLS of replicas.
    pub(crate) fn new(tls: Arc<ClientConfig>, read: ReadPeers) -> Self {
        let (tls, cached) = (TlsConnector::from(tls), Mutex::default());
        Self(Arc::new(Inner { tls, read, cached }))
    }

    /// Reports whether the node has a tunnel to another replica.
    pub(crate) async fn has_tunnel(&self, node: &str) -> bool {
        let found = self.locate(Connection::Tunnel, node, None).await;
        found.is_some()
    }

    /// Returns the address of the other replica's relay to which the node is connected, except one that has turned out to be away.
    pub(crate) async fn relay(&self, node: &str, failed: Option<SocketAddr>) -> Option<SocketAddr> {
        self.locate(Connection::Relay, node, failed).await
    }

    /// Returns the nodes with a tunnel to another replica that report this address.
    pub(crate) async fn nodes_at(&self, address: &str) -> BTreeSet<String> {
        self.table(MAX_AGE).await.nodes_at(address)
    }

    /// Forwards a request to the replica that has this connection of the node, and returns the answer, whose body is still to come.
    pub(crate) async fn forward(
        &self,
        (connection, node): (Connection, &str),
        request: Request<Full<Bytes>>,
        deadline: Duration,
    ) -> Result<Response<ConnectionBody>, PeerError> {
        let sending = async {
            let mut failed = None;
            for _ in 0..ATTEMPTS {
                let Some(replica) = self.locate(connection, node, failed).await else {
                    break;
                };
                match self.connect(replica).await {
                    Ok(io) => {
                        let answer = exchange(io, request.clone()).await;
                        let answer = answer.map_err(PeerError::Lost)?;
                        if answer.status() != StatusCode::MISDIRECTED_REQUEST {
                            return Ok(answer);
                        }
                    }
                    Err(error) => {
                        warn!(%replica, node, error, "failed to connect to another replica");
                    }
                }
                failed = Some(replica);
            }
            Err(PeerError::NotConnected)
        };
        // cancel-safe: a dropped request closes its connection
        let sent = timeout(deadline, sending).await;
        sent.unwrap_or(Err(PeerError::Timeout))
    }

    /// Returns the replica that has this connection of the node, except one that has turned out to lack it.
    async fn locate(
        &self,
        connection: Connection,
        node: &str,
        failed: Option<SocketAddr>,
    ) -> Option<SocketAddr> {
        for max_age in [MAX_AGE, MAX_AGE_OF_LACK] {
            let found = self.table(max_age).await.replica(connection, node);
            if let Some(replica) = found.filter(|_| found != failed) {
                return Some(replica);
            }
        }
        None
    }

    /// Returns the table, read again if it is too old.
    async fn table(&self, max_age: Duration) -> Arc<Table> {
        let mut cached = self.0.cached.lock().await;
        let is_fresh = cached.read.is_some_and(|read| read.elapsed() < max_age);
        if !is_fresh {
            match timeout(READ_TIMEOUT, (self.0.read)()).await {
                Ok(Ok(replicas)) => cached.table = Arc::new(Table::new(replicas)),
                Ok(Err(error)) => {
                    warn!(%error, "failed to read the nodes of other replicas; using the last known ones");
                }
                Err(_) => debug!("timed out while reading the nodes of other replicas"),
            }
            cached.read = Some(Instant::now());
        }
        cached.table.clone()
    }

    async fn connect(&self, replica: SocketAddr) -> Result<TlsStream<TcpStream>, String> {
        let connecting = async {
            let stream = TcpStream::connect(replica).await?;
            stream.set_nodelay(true)?;
            limits::set_keepalive(&stream)?;
            let name = ServerName::try_from(NAME).map_err(std::io::Error::other)?;
            self.0.tls.connect(name, stream).await
        };
        let connected = timeout(CONNECT_TIMEOUT, connecting).await;
        match connected {
            Ok(connected) => connected.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no connection within {CONNECT_TIMEOUT:?}")),
        }
    }
}
