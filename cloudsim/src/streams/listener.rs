//! Accepting tunnels: socket, TLS, authentication and upgrade; then the tunnel runs in a task of its own.

use std::{io, net::SocketAddr, time::Duration};

use futures::{FutureExt, future::OptionFuture};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use limits::ConnectionSlot;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

use super::{
    Tunnels,
    table::DialHeaders,
    tunnel::{self, Timing, TunnelEnd},
    upgrade::{UpgradeError, upgrade},
};
use crate::{
    faults::{Faults, LinkDown, wait_for_link},
    listeners::{
        LOCAL_ADDRESS, LimitedListener, ListenerLimits, LocalConnection, LocalConnector,
        NodeConnection, NodeListener, Refusals, is_probe, node_name, tls_certificate, tls_fault,
    },
    pki::Trust,
};

/// The time for TLS and the upgrade.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// The stream server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error(
    "the stream server of nodes' tunnels cannot listen on {address}: {source}; stop the program that uses the port, or choose another \
     with \
     --tunnel-port (0 picks a free one; off disables logs, exec and port-forward)"
)]
pub struct StreamServerError {
    /// The address to listen on.
    pub address: SocketAddr,
    /// The system's error.
    pub source: io::Error,
}

/// The reason why a connection got no tunnel.
#[derive(Debug, thiserror::Error)]
enum TunnelError {
    #[error("TLS failed: {}", tls_fault(.0))]
    Tls(#[source] io::Error),
    #[error(transparent)]
    Upgrade(#[from] UpgradeError),
    #[error(transparent)]
    LinkDown(#[from] LinkDown),
}

/// What all connections share.
#[derive(Clone)]
struct Shared {
    tunnels: Tunnels,
    trust: Trust,
    faults: Faults,
    refusals: Refusals,
    /// The maximum number of nodes.
    nodes: usize,
}

/// The server to which nodes dial their tunnels.
pub struct StreamServer {
    listener: NodeListener,
    shared: Shared,
}

impl StreamServer {
    /// Binds `address`; nodes are served once [`Self::run`] is called.
    pub(crate) async fn bind(
        address: SocketAddr,
        trust: Trust,
        limits: ListenerLimits,
        tunnels: Tunnels,
        faults: &Faults,
    ) -> Result<Self, StreamServerError> {
        let (faults, refusals) = (faults.clone(), Refusals::default());
        let listener = LimitedListener::bind(
            "stream server",
            address,
            limits.connections,
            refusals.clone(),
        )
        .await;
        let listener = listener.map_err(|source| StreamServerError { address, source })?;
        let shared = Shared {
            tunnels,
            trust,
            faults,
            refusals,
            nodes: limits.nodes,
        };
        Ok(Self {
            listener: NodeListener::new(listener),
            shared,
        })
    }

    /// Returns the address of the listener.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Returns the connector for nodes of this process.
    pub(crate) fn connector(&self) -> LocalConnector {
        self.listener.connector()
    }

    /// Serves until `shutdown`; then closes the tunnels and waits for them.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        loop {
            let accepted = clock::select! {
                // cancel-safe: both arms hold no data
                () = shutdown.cancelled() => break,
                // cancel-safe: a change that is not seen stays
                () = self.shared.trust.changed() => {
                    self.shared.tunnels.end_all();
                    continue;
                }
                // cancel-safe: what is not accepted is kept
                connection = self.listener.accept() => connection,
            };
            tasks.spawn(serve(accepted, self.shared.clone(), shutdown.clone()));
        }
        tasks.close();
        tasks.wait().await;
    }
}

/// Serves one connection until it ends.
async fn serve(accepted: NodeConnection, shared: Shared, shutdown: CancellationToken) {
    let shown = shared.trust.certificate();
    let (peer, slot, accepting) = match accepted {
        NodeConnection::Tcp(stream, peer, slot) => {
            let accepting = accept_tls(stream, &shared).boxed();
            (peer, Some(slot), accepting)
        }
        NodeConnection::Local(connection) => {
            let accepting = accept_local(connection, &shared).boxed();
            (LOCAL_ADDRESS, None, accepting)
        }
    };
    let evicted = OptionFuture::from(slot.as_ref().map(ConnectionSlot::wait_evicted));
    let accepted = clock::select! {
        // cancel-safe: a half-made connection is simply closed
        () = shutdown.cancelled() => return,
        Some(()) = evicted => return debug!(%peer, "connection without a tunnel evicted: limit reached"),
        accepted = timeout(HANDSHAKE_TIMEOUT, accepting) => accepted,
    };
    let TunnelConnection {
        node,
        dial_headers,
        certificate,
        io,
    } = match accepted {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(TunnelError::Tls(error))) if is_probe(&error) => {
            return debug!(%peer, "connection without a certificate closed");
        }
        Ok(Err(error)) => {
            if let Some(times) = shared
                .refusals
                .count(peer.ip(), &error, clock::Instant::now())
            {
                let error = &error as &dyn std::error::Error;
                warn!(%peer, times, error, "stream tunnel rejected");
            }
            return;
        }
        Err(_) => return debug!(%peer, "handshake of a stream tunnel timed out"),
    };
    // from here on there is one for each node
    let Ok(_active) = slot.as_ref().map(|slot| slot.begin(false)).transpose() else {
        return;
    };
    let Some(entry) = shared
        .tunnels
        .begin(&node, dial_headers, shared.nodes, &shutdown)
    else {
        return warn!(
            node,
            limit = shared.nodes,
            "stream tunnel rejected: node limit reached (--max-nodes)"
        );
    };
    // registered first, so that a change from now on ends it as all others
    if shared.trust.certificate() != shown {
        return debug!(node, %peer, "certificate changed during the handshake; connection closed");
    }
    if let Some(why) = shared.trust.refusal(&node, &certificate).await {
        return warn!(node, %peer, reason = why, "stream tunnel rejected");
    }
    info!(node, %peer, "stream tunnel established");
    let ended = tunnel::run(io, &node, entry, &shared.faults, Timing::default()).await;
    match ended {
        TunnelEnd::Lost(error) => info!(node, %error, "stream tunnel closed"),
        ended => info!(node, reason = %ended, "stream tunnel closed"),
    }
}

/// A node that may have a tunnel.
struct TunnelConnection {
    node: String,
    dial_headers: DialHeaders,
    /// The certificate that it shows, DER.
    certificate: Vec<u8>,
    io: TokioIo<Upgraded>,
}

async fn accept_tls(stream: TcpStream, shared: &Shared) -> Result<TunnelConnection, TunnelError> {
    stream
        .set_nodelay(true)
        .and_then(|()| limits::set_keepalive(&stream))
        .map_err(TunnelError::Tls)?;
    let stream = TlsAcceptor::from(shared.trust.hub())
        .accept(stream)
        .await
        .map_err(TunnelError::Tls)?;
    let shown = tls_certificate(&stream).map(|shown| shown.to_vec());
    accept(stream, shown, shared).await
}

async fn accept_local(
    connection: LocalConnection,
    shared: &Shared,
) -> Result<TunnelConnection, TunnelError> {
    let tls = |error| TunnelError::Tls(io::Error::other(error));
    let certificate = connection.certificate.map_err(tls)?.to_vec();
    accept(connection.stream, Some(certificate), shared).await
}

/// Authenticates a node by its verified certificate, and upgrades its connection.
async fn accept<T>(
    stream: T,
    certificate: Option<Vec<u8>>,
    shared: &Shared,
) -> Result<TunnelConnection, TunnelError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut identity = node_name(certificate.as_deref());
    let certificate = certificate.unwrap_or_default();
    if let Ok(node) = &identity {
        if let Some(why) = shared.trust.refusal(node, &certificate).await {
            identity = Err(why);
        } else {
            wait_for_link(&shared.faults, node).await?;
        }
    }
    let (dial_headers, io) = upgrade(
        stream,
        identity.as_deref().map_err(String::as_str),
        HANDSHAKE_TIMEOUT,
    )
    .await?;
    // only nodes with a name were upgraded
    let node = identity.map_err(UpgradeError::Refused)?;
    Ok(TunnelConnection {
        node,
        dial_headers,
        certificate,
        io,
    })
}
