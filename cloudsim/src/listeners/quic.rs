//! A QUIC socket with limits of its connections.

use limits::{ConnectionLimiter, ConnectionLimits, ConnectionSlot};
use quinn::{Connection, Endpoint, Incoming};
use rustls_pki_types::CertificateDer;
use tokio::task::coop::consume_budget;
use tracing::{debug, warn};

use super::Refusals;
use crate::faults::now;

/// The number of connections in their handshake from which on clients must show that their address is theirs (RFC 9000, 8.1.2).
const MAX_UNVALIDATED: usize = 64;

/// A bound socket.
pub(crate) struct LimitedEndpoint {
    /// The name of the server, for the log.
    server: &'static str,
    pub(crate) endpoint: Endpoint,
    connections: ConnectionLimiter,
    refusals: Refusals,
}

impl LimitedEndpoint {
    /// Limits the connections to the endpoint of the server of this name.
    pub(crate) fn new(
        server: &'static str,
        endpoint: Endpoint,
        limits: ConnectionLimits,
        refusals: Refusals,
    ) -> Self {
        Self { server, endpoint, connections: ConnectionLimiter::new(limits), refusals }
    }

    /// Returns the next connection and its slot; `None` once the endpoint is closed. Those that find no slot are refused. Cancel-safe.
    pub(crate) async fn accept(&self) -> Option<(Incoming, ConnectionSlot)> {
        loop {
            // a crowd that is turned away does not keep other tasks from running
            consume_budget().await;
            let incoming = self.endpoint.accept().await?;
            // a datagram may have any source address: while there are many, clients must show first that theirs is their own
            if self.connections.pending() >= MAX_UNVALIDATED && incoming.may_retry() {
                if let Err(error) = incoming.retry() {
                    debug!(server = self.server, %error, "a QUIC connection cannot be asked for its address");
                }
                continue;
            }
            let peer = incoming.remote_address();
            match self.connections.accept(Some(peer)) {
                Ok(slot) => return Some((incoming, slot)),
                Err(full) => {
                    incoming.refuse();
                    if let Some(times) = self.refusals.count(peer.ip(), &full, now()) {
                        warn!(server = self.server, %peer, times, %full, "a QUIC connection is refused");
                    }
                }
            }
        }
    }
}

/// Returns the certificate that the client has shown.
pub(crate) fn quic_certificate(connection: &Connection) -> Option<CertificateDer<'static>> {
    let shown = connection.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    shown.into_iter().next()
}
