//! The connection to the broker beside: TCP, with TLS over it that is always verified.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, ServerName,
    pem::{self, PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::prompt::Prompt;
use crate::config::{HostPort, TlsFiles};

/// Limit of connecting, TLS included.
const PATIENCE: Duration = Duration::from_secs(10);

/// The files of TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is no PEM, or not there.
    #[error("{} cannot be read; it must be a PEM file that the agent may read", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// They do not belong together.
    #[error("{} cannot be used; certificate and key must belong together, and the CA must be one", path.display())]
    Files {
        /// The certificate.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// Connects.
#[derive(Clone)]
pub(super) struct Dialler {
    server: HostPort,
    tls: Option<TlsConnector>,
}

impl std::fmt::Debug for Dialler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialler").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Either kind of connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

impl Dialler {
    /// Reads the files.
    pub(super) fn new(server: HostPort, files: Option<&TlsFiles>) -> Result<Self, TlsError> {
        Ok(Self { server, tls: files.map(connector).transpose()? })
    }

    /// Connects now.
    pub(super) async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        let late = || {
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{} did not answer within {PATIENCE:?}", self.server),
            )
        };
        timeout(PATIENCE, self.connect()).await.unwrap_or_else(|_| Err(late()))
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(self.server.to_string()).await?;
        stream.set_nodelay(true)?;
        let stream = Prompt(stream);
        let Some(connector) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(self.server.host.clone()).map_err(io::Error::other)?;
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

fn connector(files: &TlsFiles) -> Result<TlsConnector, TlsError> {
    let failed = |source| TlsError::Files { path: files.cert.clone(), source };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&files.ca)? {
        roots.add(certificate).map_err(failed)?;
    }
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.map_err(|source| TlsError::File { path: files.key.clone(), source })?;
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&files.cert)?, key)
        .map_err(failed)?;
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(path: &PathBuf) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::File { path: path.clone(), source };
    CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
}
