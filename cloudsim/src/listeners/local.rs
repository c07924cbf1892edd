//! Connections of nodes in the same process: they need no socket, and their certificates are verified as TLS does it.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use rustls_pki_types::CertificateDer;
use tokio::sync::mpsc;

use super::Pipe;

/// The connections that wait until they are accepted.
const BACKLOG: usize = 256;
/// The address of all nodes of this process.
pub(crate) const LOCAL_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A connection of a node in this process.
pub(crate) struct LocalConnection {
    pub(crate) stream: Pipe,
    /// The certificate that the node shows, or why it was rejected.
    pub(crate) certificate: Result<CertificateDer<'static>, rustls::Error>,
}

/// Connects nodes of this process to a listener; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct LocalConnector(mpsc::Sender<LocalConnection>);

/// Accepts nodes of this process.
pub(crate) struct LocalListener(mpsc::Receiver<LocalConnection>);

impl LocalListener {
    pub(crate) fn new() -> (LocalConnector, Self) {
        let (connector, listener) = mpsc::channel(BACKLOG);
        (LocalConnector(connector), Self(listener))
    }

    /// Returns the next connection; waits forever if there can be none. Cancel-safe.
    pub(crate) async fn accept(&mut self) -> LocalConnection {
        match self.0.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }
}

impl LocalConnector {
    /// Connects with this certificate. Fails as a socket does if nobody accepts connections any more.
    pub(crate) async fn connect(
        &self,
        certificate: Result<CertificateDer<'static>, rustls::Error>,
    ) -> io::Result<Pipe> {
        let (near, stream) = Pipe::pair();
        let connection = LocalConnection {
            stream,
            certificate,
        };
        let sent = self.0.send(connection).await;
        sent.map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(near)
    }
}
