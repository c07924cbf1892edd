//! Checks that a CloudHub listens at an address, for a machine that has no certificate yet.
//!
//! CloudHub demands a node's certificate in the TLS handshake. A server that answers a request without one is another server of
//! the cloud, such as its API, and would refuse the node for ever.

use std::{io, sync::Arc};

use rustls::{AlertDescription, ClientConfig};
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{Config, dial::tcp, enroll};
use crate::{
    config::HostPort,
    tls::{CertificateFault, handshake_text},
};

/// The bytes of an answer that are read: the status.
const MAX_STATUS_LINE: usize = 256;

/// Why no CloudHub was found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HubCheckError {
    /// Nothing answers.
    #[error("{0}: {1}")]
    Unreachable(HostPort, #[source] io::Error),
    /// The server's certificate is not valid now.
    #[error(
        "the certificate of the server at {0} has expired or is not valid yet, by the clock of this machine"
    )]
    WrongTime(HostPort),
    /// The server's certificate is of this cloud and for other names.
    #[error("the certificate of the server at {server} is for {names}, not for {}", server.host)]
    OtherName {
        /// The server.
        server: HostPort,
        /// The names in the certificate.
        names: String,
    },
    /// The server does not speak TLS, or belongs to another cloud.
    #[error("the server at {0} has no certificate of this cloud: {why}", why = handshake_text(.1))]
    OtherServer(HostPort, io::Error),
    /// The server accepts callers without a certificate.
    #[error(
        "the server at {0} is not CloudHub: it responded {1:?} to a request without a certificate"
    )]
    OtherService(HostPort, String),
}

/// Requests a session of the first configured server without a certificate: a CloudHub refuses that before it reads the
/// request. `ca` is the cloud's CA.
pub(crate) async fn check_hub(config: &Config, ca: &[u8]) -> Result<(), HubCheckError> {
    let Some(server) = config.servers.first() else {
        return Ok(());
    };
    let Some(mut stream) = connect(config, server, ca).await? else {
        return Ok(());
    };
    let request = format!(
        "GET /{}/{}/events HTTP/1.1\r\nHost: {server}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nConnectionUse: msg\r\nNode_id: {}\r\n\r\n",
        config.project_id, config.node_name, config.node_name
    );
    // an error here does not matter: the answer decides
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = [0; MAX_STATUS_LINE];
    // an alert or the end of the connection: the server has not read the request
    let Ok(length @ 1..) = stream.read(&mut answer).await else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(&answer[..length]);
    Err(HubCheckError::OtherService(
        server.clone(),
        wire::text::printable(text.lines().next().unwrap_or_default()),
    ))
}

/// Checks that a server of the cloud speaks TLS with a certificate of this CA.
///
/// # Errors
/// The server is not reached, or belongs to another cloud.
pub(crate) async fn check_tls(
    config: &Config,
    server: &HostPort,
    ca: &[u8],
) -> Result<(), HubCheckError> {
    connect(config, server, ca).await.map(drop)
}

/// Connects without a certificate of this node; `None` if the server ended the handshake because of that.
async fn connect(
    config: &Config,
    server: &HostPort,
    ca: &[u8],
) -> Result<Option<TlsStream<TcpStream>>, HubCheckError> {
    let unreachable = |error| HubCheckError::Unreachable(server.clone(), error);
    let verifier = enroll::verifier(ca).map_err(|error| unreachable(io::Error::other(error)))?;
    let name = ServerName::try_from(server.host.clone())
        .map_err(|error| unreachable(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let tcp = tcp::connect(server, &config.proxy)
        .await
        .map_err(unreachable)?;
    let tls = ClientConfig::builder()
        .with_webpki_verifier(verifier)
        .with_no_client_auth();
    // before TLS 1.3, the refusal ends the handshake
    match TlsConnector::from(Arc::new(tls)).connect(name, tcp).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if is_refusal(&error) => Ok(None),
        Err(error) => Err(match CertificateFault::find(&error) {
            Some(CertificateFault::ServerExpired | CertificateFault::ServerNotYetValid) => {
                HubCheckError::WrongTime(server.clone())
            }
            Some(CertificateFault::WrongName { names, .. }) => HubCheckError::OtherName {
                server: server.clone(),
                names,
            },
            _ => HubCheckError::OtherServer(server.clone(), error),
        }),
    }
}

/// Reports whether the server ended the handshake because no certificate was presented.
fn is_refusal(error: &io::Error) -> bool {
    let alert = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        alert,
        Some(rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::HandshakeFailure
                | AlertDescription::AccessDenied
        ))
    )
}

#[cfg(test)]
mod tests;
