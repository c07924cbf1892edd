//! Accepting tunnels: the socket, TLS, who it is, the upgrade; then the tunnel runs on its own.

use std::{io, net::SocketAddr, time::Duration};

use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use limits::{ConnectionLimiter, ConnectionSlot};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};
use wire::enroll::{Identity, identity_of};

use super::{
    Tunnels,
    table::Said,
    tunnel::{self, Ended, Timing},
    upgrade::{NoUpgrade, upgrade},
};
use crate::{
    faults::{Faults, now},
    hub::{Dead, Limits, Refusals, pass},
    pki::Trust,
};

/// A pause after a failed accept: without it a process out of file descriptors would do nothing else.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// TLS, upgrade and what else comes before a tunnel.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// Why the stream server cannot listen.
#[derive(Debug, thiserror::Error)]
#[error(
    "the stream server of nodes' tunnels cannot listen on {address}: {source}; end the program that has the port, or choose another with \
     --tunnel-port (0 picks a free one, off does without logs, exec and ports)"
)]
pub struct NoStreamServer {
    /// Where.
    pub address: SocketAddr,
    /// Why not.
    pub source: io::Error,
}

/// Why a connection got no tunnel.
#[derive(Debug, thiserror::Error)]
enum NoTunnel {
    #[error("TLS: the node needs a certificate of this cloud's CA")]
    Tls(#[source] io::Error),
    #[error(transparent)]
    Upgrade(#[from] NoUpgrade),
    #[error(transparent)]
    Dead(#[from] Dead),
}

/// What every connection needs.
#[derive(Clone)]
struct Shared {
    tunnels: Tunnels,
    trust: Trust,
    faults: Faults,
    refusals: Refusals,
    /// Nodes at a time.
    nodes: usize,
}

/// The server that nodes dial for their tunnels.
pub struct StreamServer {
    listener: TcpListener,
    address: SocketAddr,
    connections: ConnectionLimiter,
    shared: Shared,
}

impl StreamServer {
    /// Listens on `address`; nodes are served from [`Self::run`] on.
    pub async fn bind(
        address: SocketAddr,
        trust: Trust,
        limits: &Limits,
        tunnels: Tunnels,
        faults: &Faults,
    ) -> Result<Self, NoStreamServer> {
        let failed = |source| NoStreamServer { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Shared {
            tunnels,
            trust,
            faults: faults.clone(),
            refusals: Refusals::default(),
            nodes: limits.nodes,
        };
        Ok(Self { listener, address, connections: ConnectionLimiter::new(limits.connections), shared })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`; tunnels are told and waited for.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                // cancel-safe: both arms hold no data
                () = shutdown.cancelled() => break,
                // cancel-safe: a change that is not seen stays
                () = self.shared.trust.changed() => {
                    self.shared.tunnels.end_all();
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => match self.connections.accept(Some(peer)) {
                    Ok(slot) => {
                        drop(tasks.spawn(serve(stream, (peer, slot), self.shared.clone(), shutdown.clone())))
                    }
                    Err(full) => {
                        if let Some(times) = self.shared.refusals.count(peer.ip(), &full, now()) {
                            warn!(%peer, times, %full, "a connection for a stream tunnel is closed");
                        }
                    }
                },
                Err(error) => {
                    if let Some(times) = self.shared.refusals.count(self.address.ip(), &error, now()) {
                        let error = &error as &dyn std::error::Error;
                        warn!(times, error, "a connection for a stream tunnel could not be accepted");
                    }
                    sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
        tasks.close();
        tasks.wait().await;
    }
}

/// One connection, as long as it lasts.
async fn serve(
    stream: TcpStream,
    (peer, slot): (SocketAddr, ConnectionSlot),
    shared: Shared,
    shutdown: CancellationToken,
) {
    let shown = shared.trust.shown();
    let accepted = tokio::select! {
        // cancel-safe, all: a half-made connection is simply closed
        () = shutdown.cancelled() => return,
        () = slot.evicted() => return debug!(%peer, "a connection without a tunnel made room for others"),
        accepted = timeout(HANDSHAKE, accept(stream, &shared)) => accepted,
    };
    let Accepted { node, said, certificate, io } = match accepted {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(error)) => {
            if let Some(times) = shared.refusals.count(peer.ip(), &error, now()) {
                let error = &error as &dyn std::error::Error;
                warn!(%peer, times, error, "a stream tunnel was refused");
            }
            return;
        }
        Err(_) => return debug!(%peer, "a connection made no stream tunnel in time"),
    };
    // there is one of each node from here on
    let Ok(_active) = slot.begin(false) else { return };
    let Some(entry) = shared.tunnels.begin(&node, said, shared.nodes, &shutdown) else {
        return warn!(node, limit = shared.nodes, "too many nodes: the stream tunnel was refused");
    };
    // registered first: a change from now on ends it as all others
    if shared.trust.shown() != shown {
        return debug!(node, %peer, "the certificate that the node was shown is another one by now");
    }
    if let Some(why) = shared.trust.refusal(&node, &certificate).await {
        return warn!(node, %peer, why, "a stream tunnel was refused");
    }
    info!(node, %peer, "the stream tunnel stands");
    let ended = tunnel::run(io, &node, entry, &shared.faults, Timing::default()).await;
    match ended {
        Ended::Lost(error) => info!(node, %error, "the stream tunnel has ended"),
        ended => info!(node, reason = %ended, "the stream tunnel has ended"),
    }
}

/// A node that may have a tunnel.
struct Accepted {
    node: String,
    said: Said,
    /// The certificate that it shows.
    certificate: Vec<u8>,
    io: TokioIo<Upgraded>,
}

async fn accept(stream: TcpStream, shared: &Shared) -> Result<Accepted, NoTunnel> {
    stream.set_nodelay(true).map_err(NoTunnel::Tls)?;
    let stream = TlsAcceptor::from(shared.trust.hub()).accept(stream).await.map_err(NoTunnel::Tls)?;
    let (certificate, mut identity) = identity(&stream);
    if let Ok(node) = &identity {
        if let Some(why) = shared.trust.refusal(node, &certificate).await {
            identity = Err(why);
        } else {
            pass(&shared.faults, node).await?;
        }
    }
    let (said, io) = upgrade(stream, identity.as_deref().map_err(String::as_str), HANDSHAKE).await?;
    // nobody without a name was upgraded
    let node = identity.map_err(NoUpgrade::Refused)?;
    Ok(Accepted { node, said, certificate, io })
}

/// The certificate that was shown, and the node that it names, or why it names none.
fn identity(stream: &TlsStream<TcpStream>) -> (Vec<u8>, Result<String, String>) {
    let peer = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = peer.map(|shown| shown.as_ref().to_owned()).unwrap_or_default();
    let identity = match peer.map(|shown| identity_of(shown)) {
        Some(Ok(Identity::Node(name))) => Ok(name),
        Some(Ok(other)) => Err(format!("the certificate is {other:?}'s and not a node's")),
        Some(Err(error)) => Err(format!("the certificate names no node: {error}")),
        None => Err("no certificate was shown".to_owned()),
    };
    (certificate, identity)
}
