//! A QUIC socket with limits of its connections.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

use limits::{ConnectionLimiter, ConnectionLimits, ConnectionSlot, enlarge_send_buffer};
use quinn::{Connection, Endpoint, Incoming};
use rustls_pki_types::CertificateDer;
use tokio::task::coop::consume_budget;
use tracing::warn;

use super::{Refusals, address_validation::AddressValidation};

/// Binds the UDP socket of a server, with room for answers that wait for neighbours that do not exist.
pub(crate) fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    enlarge_send_buffer(&socket)?;
    Ok(socket)
}

/// A bound socket.
pub(crate) struct LimitedEndpoint {
    /// The name of the server, for the log.
    server: &'static str,
    pub(crate) endpoint: Endpoint,
    connections: ConnectionLimiter,
    validation: AddressValidation,
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
        let (connections, validation) =
            (ConnectionLimiter::new(limits), AddressValidation::default());
        Self {
            server,
            endpoint,
            connections,
            validation,
            refusals,
        }
    }

    /// Returns the next connection and its slot; `None` once the endpoint is closed. Those that find no slot are refused. Cancel-safe.
    pub(crate) async fn accept(&mut self) -> Option<(Incoming, ConnectionSlot)> {
        loop {
            // a crowd that is turned away does not keep other tasks from running
            consume_budget().await;
            let incoming = self.endpoint.accept().await?;
            let Some(incoming) = self.validation.admit(incoming, self.connections.pending()) else {
                continue;
            };
            let peer = incoming.remote_address();
            match self.connections.accept(Some(peer)) {
                Ok(slot) => return Some((incoming, slot)),
                Err(full) => {
                    incoming.refuse();
                    if let Some(times) =
                        self.refusals.count(peer.ip(), &full, clock::Instant::now())
                    {
                        warn!(
                            server = self.server, %peer, times, limit = %full,
                            "QUIC connection refused: limit reached"
                        );
                    }
                }
            }
        }
    }
}

/// Returns the certificate that the client has shown.
pub(crate) fn quic_certificate(connection: &Connection) -> Option<CertificateDer<'static>> {
    let shown = connection
        .peer_identity()?
        .downcast::<Vec<CertificateDer<'static>>>()
        .ok()?;
    shown.into_iter().next()
}
