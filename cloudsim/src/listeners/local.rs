//! Connections of nodes in the same process: they need no socket, and their certificates are verified as TLS does it.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use limits::ConnectionSlot;
use rustls_pki_types::CertificateDer;
use tokio::{net::TcpStream, sync::mpsc};

use super::{Pipe, tcp::LimitedListener};

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

/// A connection of a node.
pub(crate) enum NodeConnection {
    /// By TCP, with its slot.
    Tcp(TcpStream, SocketAddr, ConnectionSlot),
    /// Within the process.
    Local(LocalConnection),
}

/// Accepts nodes of other processes by TCP, and those of this process.
pub(crate) struct NodeListener {
    tcp: LimitedListener,
    local: mpsc::Receiver<LocalConnection>,
    connector: LocalConnector,
}

impl NodeListener {
    pub(crate) fn new(tcp: LimitedListener) -> Self {
        let (connector, local) = mpsc::channel(BACKLOG);
        Self {
            tcp,
            local,
            connector: LocalConnector(connector),
        }
    }

    /// Returns the address of the socket.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.tcp.local_addr()
    }

    /// Returns the connector for nodes of this process.
    pub(crate) fn connector(&self) -> LocalConnector {
        self.connector.clone()
    }

    /// Returns the next connection. Cancel-safe.
    pub(crate) async fn accept(&mut self) -> NodeConnection {
        clock::select! {
            // cancel-safe: both keep what is not accepted
            (stream, peer, slot) = self.tcp.accept() => NodeConnection::Tcp(stream, peer, slot),
            Some(connection) = self.local.recv() => NodeConnection::Local(connection),
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
