//! A connection to an endpoint of another node, over the cloud.

use std::{net::IpAddr, sync::Arc, time::Duration};

use rustls_pki_types::ServerName;
use tokio::{io::join, time::timeout};
use tokio_rustls::TlsConnector;
use wire::{
    relay::{Answer, ConnectRequest, Open},
    text::printable_short,
};

use super::{
    Counted, Relay, RelayStream,
    certificates::CertificateError,
    message::{MessageError, read, write},
};
use crate::edgemesh::metrics::MeshMetrics;

/// How long dialling may take in all.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// A name for TLS, which demands one; the certificate is verified for its node instead.
const SERVER_NAME: &str = "node.invalid";

/// Why there is no connection over the relay.
#[derive(Debug, thiserror::Error)]
pub(in crate::edgemesh) enum RelayDialError {
    #[error("this node is not connected to the relay")]
    NotConnected,
    #[error("this node, the client or the other node has reached its limit of relay connections")]
    Full,
    #[error("the relay cannot connect to the node: {0}")]
    Refused(String),
    #[error("the node cannot reach the endpoint: {0}")]
    Endpoint(String),
    #[error("TLS with the node over the relay failed: {0}")]
    Tls(std::io::Error),
    #[error("the connection over the relay was interrupted: {0}")]
    Broken(String),
    #[error("no connection over the relay within {0:?}")]
    Timeout(Duration),
}

impl RelayDialError {
    /// Reports whether the relay itself works: only the endpoint was not reached, or there are too many connections.
    pub(in crate::edgemesh) fn is_about_endpoint(&self) -> bool {
        matches!(self, Self::Endpoint(_) | Self::Full)
    }
}

impl From<MessageError> for RelayDialError {
    fn from(error: MessageError) -> Self {
        Self::Broken(printable_short(error))
    }
}

impl From<CertificateError> for RelayDialError {
    fn from(error: CertificateError) -> Self {
        Self::Broken(printable_short(error))
    }
}

impl Relay {
    /// Reports whether the relay is connected.
    pub(in crate::edgemesh) fn is_connected(&self) -> bool {
        self.link
            .borrow()
            .as_ref()
            .is_some_and(|connection| connection.close_reason().is_none())
    }

    /// Connects to an endpoint of another node, for a client. Dropping the stream ends the connection.
    pub(in crate::edgemesh) async fn dial(
        &self,
        client: IpAddr,
        node: &str,
        request: &ConnectRequest,
    ) -> Result<RelayStream, RelayDialError> {
        let dialled = timeout(DIAL_TIMEOUT, self.connect(client, node, request))
            .await
            .unwrap_or(Err(RelayDialError::Timeout(DIAL_TIMEOUT)));
        let metrics = &self.metrics;
        MeshMetrics::add(if dialled.is_ok() {
            &metrics.relay_dialled
        } else {
            &metrics.relay_failed
        });
        dialled
    }

    async fn connect(
        &self,
        client: IpAddr,
        node: &str,
        request: &ConnectRequest,
    ) -> Result<RelayStream, RelayDialError> {
        let connection = self
            .link
            .borrow()
            .clone()
            .ok_or(RelayDialError::NotConnected)?;
        let broken = |error: &dyn std::fmt::Display| RelayDialError::Broken(printable_short(error));
        let permit = self
            .limits
            .admit(client, node)
            .map_err(|_| RelayDialError::Full)?;
        let (send, receive) = connection.open_bi().await.map_err(|error| broken(&error))?;
        let mut quic = Counted::new(join(receive, send), self.metrics.clone()).holding(permit);
        write(
            &mut quic,
            &Open {
                node: node.to_owned(),
            },
        )
        .await?;
        if let Answer { error: Some(why) } = read(&mut quic).await? {
            return Err(RelayDialError::Refused(printable_short(why)));
        }
        let config = Arc::new(self.certificates.to_node(node).await?);
        let name = ServerName::try_from(SERVER_NAME).map_err(|error| broken(&error))?;
        let mut stream = TlsConnector::from(config)
            .connect(name, quic)
            .await
            .map_err(RelayDialError::Tls)?;
        write(&mut stream, request).await?;
        match read(&mut stream).await? {
            Answer { error: Some(why) } => Err(RelayDialError::Endpoint(printable_short(why))),
            Answer { error: None } => Ok(stream),
        }
    }
}
