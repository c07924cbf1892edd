//! The connection to the external broker: TCP, with TLS over it that is always verified.

use std::{io, time::Duration};

use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::quickack::QuickAckStream;
use crate::{
    config::{HostPort, TlsFiles},
    tls::files::client_config,
};

/// How long connecting may take, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the broker.
#[derive(Clone)]
pub(super) struct Dialler {
    server: HostPort,
    /// Read at each connection, since they may be replaced or not be there yet.
    tls: Option<TlsFiles>,
}

impl std::fmt::Debug for Dialler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialler")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Either kind of connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

impl Dialler {
    /// Creates the dialler of a broker, over TLS if there are files for it.
    pub(super) fn new(server: HostPort, tls: Option<TlsFiles>) -> Self {
        Self { server, tls }
    }

    /// Connects.
    pub(super) async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        let late = || {
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{} did not answer within {CONNECT_TIMEOUT:?}", self.server),
            )
        };
        timeout(CONNECT_TIMEOUT, self.connect())
            .await
            .unwrap_or_else(|_| Err(late()))
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.server.to_string()).await?;
        stream.set_nodelay(true)?;
        limits::set_keepalive(&stream)?;
        let stream = QuickAckStream(stream);
        let Some(files) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let connector = TlsConnector::from(client_config(files).map_err(io::Error::other)?);
        let name = ServerName::try_from(self.server.host.clone()).map_err(io::Error::other)?;
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}
