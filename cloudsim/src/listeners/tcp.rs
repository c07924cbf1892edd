//! A TCP socket with limits of its connections.

use std::{io, net::SocketAddr, time::Duration};

use limits::{ConnectionLimiter, ConnectionLimits, ConnectionSlot};
use rustls_pki_types::CertificateDer;
use tokio::{
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tokio_rustls::server::TlsStream;
use tracing::warn;

use super::Refusals;

/// The pause after a failed accept: a process without file descriptors would otherwise spin.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// A bound socket.
pub(crate) struct LimitedListener {
    /// The name of the server, for the log.
    server: &'static str,
    listener: TcpListener,
    address: SocketAddr,
    connections: ConnectionLimiter,
    refusals: Refusals,
}

impl LimitedListener {
    /// Binds `address` for the server of this name.
    pub(crate) async fn bind(
        server: &'static str,
        address: SocketAddr,
        limits: ConnectionLimits,
        refusals: Refusals,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            server,
            listener,
            address,
            connections: ConnectionLimiter::new(limits),
            refusals,
        })
    }

    /// Returns the address that it is bound to.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the next connection, the address of its peer and its slot. Those that find no slot are closed. Cancel-safe.
    pub(crate) async fn accept(&self) -> (TcpStream, SocketAddr, ConnectionSlot) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => match self.connections.accept(Some(peer)) {
                    Ok(slot) => return (stream, peer, slot),
                    Err(full) => {
                        if let Some(times) =
                            self.refusals.count(peer.ip(), &full, clock::Instant::now())
                        {
                            warn!(
                                server = self.server, %peer, times, limit = %full,
                                "connection closed: limit reached"
                            );
                        }
                    }
                },
                Err(error) => {
                    if let Some(times) =
                        self.refusals
                            .count(self.address.ip(), &error, clock::Instant::now())
                    {
                        let error = &error as &dyn std::error::Error;
                        warn!(
                            server = self.server,
                            times, error, "failed to accept connection; retrying"
                        );
                    }
                    sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
    }
}

/// Returns the certificate that the client has shown.
pub(crate) fn tls_certificate(stream: &TlsStream<TcpStream>) -> Option<&CertificateDer<'static>> {
    stream.get_ref().1.peer_certificates()?.first()
}
