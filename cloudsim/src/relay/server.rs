//! Accepts nodes at the relay: the socket, TLS, and which nodes may connect; each connection is then served on its own.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use limits::ConnectionSlot;
use quinn::{
    Connection, Endpoint, EndpointConfig, IdleTimeout, Incoming, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
    crypto::rustls::{NoInitialCipherSuite, QuicServerConfig},
};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};
use wire::{
    relay::{ALPN, MAX_STREAMS, WINDOW},
    text::printable_short,
};

use super::{
    node,
    stream::Failure,
    table::{ENDED, REFUSED, Relays},
};
use crate::{
    faults::{Certificate, Faults},
    listeners::{LimitedEndpoint, ListenerLimits, Refusals, bind_udp, node_name, quic_certificate},
    pki::Trust,
};

/// How long a connection may be silent before it counts as dead, milliseconds; nodes keep theirs alive.
pub(super) const IDLE_TIMEOUT: VarInt = VarInt::from_u32(15_000);
/// How long the handshake may take, and finding out whether the node may connect.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many reports a node may send at a time.
const MAX_REPORTS: VarInt = VarInt::from_u32(2);

/// Why the relay does not start.
#[derive(Debug, thiserror::Error)]
pub enum RelayBindError {
    /// The port is taken, or not allowed.
    #[error(
        "the relay between nodes cannot listen on UDP {address}; stop the program that uses the port, or choose another with \
         --relay-port (0 \
         picks a free one)"
    )]
    Listen {
        /// The address that was asked for.
        address: SocketAddr,
        /// The operating system's error.
        source: io::Error,
    },
    /// The keys cannot be used for QUIC.
    #[error("the cloud's keys cannot be used for the relay's QUIC")]
    Tls(#[from] NoInitialCipherSuite),
}

/// What all connections share.
#[derive(Clone)]
struct Shared {
    relays: Relays,
    trust: Trust,
    faults: Faults,
    refusals: Refusals,
    /// The most nodes at a time.
    nodes: usize,
}

/// The relay's server.
pub struct RelayServer {
    listener: LimitedEndpoint,
    address: SocketAddr,
    shared: Shared,
}

impl RelayServer {
    /// Listens on `address`, UDP; nodes are served from [`Self::run`] on.
    ///
    /// # Errors
    /// The port is taken, or the keys are unusable.
    pub(crate) fn bind(
        address: SocketAddr,
        trust: Trust,
        limits: ListenerLimits,
        relays: Relays,
        faults: &Faults,
    ) -> Result<Self, RelayBindError> {
        let failed = |source| RelayBindError::Listen { address, source };
        let config = server_config(&trust.hub())?;
        let socket = bind_udp(address).map_err(failed)?;
        let endpoint = Endpoint::new(
            EndpointConfig::default(),
            Some(config),
            socket,
            Arc::new(TokioRuntime),
        )
        .map_err(failed)?;
        let address = endpoint.local_addr().map_err(failed)?;
        let (faults, refusals) = (faults.clone(), Refusals::default());
        let listener =
            LimitedEndpoint::new("relay", endpoint, limits.connections, refusals.clone());
        let shared = Shared {
            relays,
            trust,
            faults,
            refusals,
            nodes: limits.nodes,
        };
        Ok(Self {
            listener,
            address,
            shared,
        })
    }

    /// Returns the address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let tasks = TaskTracker::new();
        let mut shown = self.shared.trust.certificate();
        loop {
            let accepted = clock::select! {
                // cancel-safe: both arms hold no data
                () = shutdown.cancelled() => break,
                // cancel-safe: a change that is not seen stays
                () = self.shared.trust.changed() => {
                    shown = self.shared.trust.certificate();
                    match server_config(&self.shared.trust.hub()) {
                        Ok(config) => self.listener.endpoint.set_server_config(Some(config)),
                        Err(error) => warn!(
                            error = &error as &dyn std::error::Error,
                            "failed to update relay certificate; keeping the old one"
                        ),
                    }
                    self.shared.relays.end_all("the cloud shows another certificate");
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            let Some((incoming, slot)) = accepted else {
                break;
            };
            tasks.spawn(serve(incoming, slot, shown, self.shared.clone()));
        }
        self.listener.endpoint.close(ENDED, b"the cloud ends");
        tasks.close();
        tasks.wait().await;
        self.listener.endpoint.wait_idle().await;
    }
}

fn server_config(tls: &rustls::ServerConfig) -> Result<ServerConfig, RelayBindError> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IdleTimeout::from(IDLE_TIMEOUT)));
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(MAX_STREAMS))
        .max_concurrent_uni_streams(MAX_REPORTS);
    // no window for all streams together: a stream that is not read does not hold up the others
    transport.stream_receive_window(VarInt::from_u32(WINDOW));
    transport.datagram_receive_buffer_size(None);
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Serves one connection until it ends.
async fn serve(incoming: Incoming, slot: ConnectionSlot, shown: Certificate, shared: Shared) {
    let peer = incoming.remote_address();
    let accepted = clock::select! {
        // cancel-safe: a half-made connection is simply closed
        () = slot.wait_evicted() => return debug!(%peer, "relay connection evicted: limit reached"),
        accepted = timeout(HANDSHAKE_TIMEOUT, accept(incoming, &shared)) => accepted,
    };
    let (connection, node, certificate) = match accepted {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(error)) => {
            if let Some(times) = shared
                .refusals
                .count(peer.ip(), &*error, clock::Instant::now())
            {
                let error = printable_short(error);
                warn!(%peer, times, error, "relay connection rejected");
            }
            return;
        }
        Err(_) => return debug!(%peer, "relay handshake timed out"),
    };
    // from here on there is one connection of each node
    let Ok(_active) = slot.begin(false) else {
        return;
    };
    let Some(entry) = shared.relays.begin(&node, &connection, shared.nodes) else {
        connection.close(REFUSED, b"the relay has reached its limit of nodes");
        return warn!(
            node,
            limit = shared.nodes,
            "relay connection rejected: node limit reached (--max-nodes)"
        );
    };
    // it was registered first: a change from now on ends it as it ends all others
    if shared.trust.certificate() != shown {
        return connection.close(ENDED, b"the cloud shows another certificate by now");
    }
    if let Some(why) = shared.trust.refusal(&node, &certificate).await {
        connection.close(REFUSED, why.as_bytes());
        return warn!(node, %peer, reason = why, "relay connection rejected");
    }
    info!(node, %peer, "node connected to the relay");
    let why = node::run(&connection, &node, &entry, &shared.relays, &shared.faults).await;
    info!(node, reason = why, "node disconnected from the relay");
}

/// Accepts a connection of a node that may connect; returns the node's name and its certificate as well.
async fn accept(
    incoming: Incoming,
    shared: &Shared,
) -> Result<(Connection, String, Vec<u8>), Failure> {
    let connection = incoming.await?;
    let shown = quic_certificate(&connection);
    let certificate = shown.as_deref().unwrap_or_default().to_owned();
    let named = match node_name(shown.as_deref()) {
        Ok(node) => shared
            .trust
            .refusal(&node, &certificate)
            .await
            .map_or(Ok(node), Err),
        Err(why) => Err(why),
    };
    let node = named.inspect_err(|why| connection.close(REFUSED, why.as_bytes()))?;
    if node::is_cut(&node, &shared.faults) {
        let why = format!("the link of node {node} is cut by fault injection");
        connection.close(ENDED, why.as_bytes());
        return Err(why.into());
    }
    Ok((connection, node, certificate))
}
