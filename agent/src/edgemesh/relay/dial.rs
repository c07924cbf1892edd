//! A connection to an endpoint of another node, over the cloud.

use std::{sync::Arc, time::Duration};

use rustls_pki_types::ServerName;
use tokio::{io::join, time::timeout};
use tokio_rustls::TlsConnector;
use wire::{
    relay::{Answer, Open, Wanted},
    text::{printable, short},
};

use super::{Counted, Relay, Relayed, ToldError, hear, keys::NoKeys, tell};
use crate::edgemesh::figures::Figures;

/// How long all of it may take.
const DIAL: Duration = Duration::from_secs(5);
/// The name that TLS wants; the certificate is verified for its node.
const NAME: &str = "node.invalid";

/// Why there is no connection over the relay.
#[derive(Debug, thiserror::Error)]
pub(in crate::edgemesh) enum NoRelay {
    #[error("this node is not connected to the relay")]
    Away,
    #[error("this node has as many connections over the relay as it may have")]
    Full,
    #[error("the relay gives no way to the node: {0}")]
    Refused(String),
    #[error("the node does not reach the endpoint: {0}")]
    Endpoint(String),
    #[error("no TLS with the node over the relay: {0}")]
    Tls(std::io::Error),
    #[error("the connection over the relay broke off: {0}")]
    Broken(String),
    #[error("no connection over the relay within {0:?}")]
    Timeout(Duration),
}

impl NoRelay {
    /// Whether the way is there, and only what is behind it is not, or there are too many on it.
    pub(in crate::edgemesh) fn is_of_the_endpoint(&self) -> bool {
        matches!(self, Self::Endpoint(_) | Self::Full)
    }
}

impl From<ToldError> for NoRelay {
    fn from(error: ToldError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<NoKeys> for NoRelay {
    fn from(error: NoKeys) -> Self {
        Self::Broken(error.to_string())
    }
}

impl Relay {
    /// Whether the cloud is connected.
    pub(in crate::edgemesh) fn is_up(&self) -> bool {
        self.link.borrow().as_ref().is_some_and(|connection| connection.close_reason().is_none())
    }

    /// Connects to an endpoint of another node. The stream's place is held as long as the stream is: dropping it ends it.
    pub(in crate::edgemesh) async fn dial(&self, node: &str, wanted: &Wanted) -> Result<Relayed, NoRelay> {
        let dialled = timeout(DIAL, self.dial_now(node, wanted)).await.unwrap_or(Err(NoRelay::Timeout(DIAL)));
        let figures = &self.figures;
        Figures::add(if dialled.is_ok() { &figures.relay_dialled } else { &figures.relay_failed });
        dialled
    }

    async fn dial_now(&self, node: &str, wanted: &Wanted) -> Result<Relayed, NoRelay> {
        let connection = self.link.borrow().clone().ok_or(NoRelay::Away)?;
        let broken = |error: &dyn std::fmt::Display| NoRelay::Broken(error.to_string());
        let Ok(place) = self.places.clone().try_acquire_owned() else { return Err(NoRelay::Full) };
        let (send, receive) = connection.open_bi().await.map_err(|error| broken(&error))?;
        let mut raw = Counted::new(join(receive, send), self.figures.clone()).holding(place);
        tell(&mut raw, &Open { node: node.to_owned() }).await?;
        if let Answer { error: Some(why) } = hear(&mut raw).await? {
            return Err(NoRelay::Refused(printable(&short(&why))));
        }
        let config = Arc::new(self.keys.to_node(node).await?);
        let name = ServerName::try_from(NAME).map_err(|error| broken(&error))?;
        let mut stream = TlsConnector::from(config).connect(name, raw).await.map_err(NoRelay::Tls)?;
        tell(&mut stream, wanted).await?;
        match hear(&mut stream).await? {
            Answer { error: Some(why) } => Err(NoRelay::Endpoint(printable(&short(&why)))),
            Answer { error: None } => Ok(stream),
        }
    }
}
