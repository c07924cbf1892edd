//! Dialling: TCP, TLS with the node's certificate, WebSocket upgrade with the headers that CloudHub reads.

use std::{sync::Arc, time::Duration};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, client::IntoClientRequest, http::HeaderValue, protocol::WebSocketConfig},
};

use super::Config;

/// Bytes that may wait in the WebSocket writer beyond one message.
const WRITE_BUFFER: usize = 1024 * 1024;

pub(super) type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The configured address has no host or port.
    #[error("{0} is not host:port; check modules.edgeHub.websocket.server")]
    Address(String),
    /// Nobody listens there, or the network does not reach it.
    #[error("cannot connect to {0}; check that the cloud runs and modules.edgeHub.websocket.server names it")]
    Connect(String, #[source] std::io::Error),
    /// The two ends do not trust each other.
    #[error(
        "TLS with {0} failed; check that tlsCaFile is the cloud's CA and that this node's certificate is in its validity"
    )]
    Tls(String, #[source] std::io::Error),
    /// The server refused the upgrade.
    #[error("{0} refused this node: {1}")]
    Refused(String, String),
    /// The upgrade failed otherwise.
    #[error("the WebSocket upgrade with {0} failed")]
    Upgrade(String, #[source] Box<tungstenite::Error>),
    /// It took too long.
    #[error("no connection to {0} within {1:?}")]
    Timeout(String, Duration),
}

/// Connects within the configured time.
pub(super) async fn dial(config: &Config, tls: Arc<ClientConfig>) -> Result<Socket, DialError> {
    let limit = config.handshake_timeout;
    match tokio::time::timeout(limit, connect(config, tls)).await {
        Ok(result) => result,
        Err(_) => Err(DialError::Timeout(config.websocket.clone(), limit)),
    }
}

async fn connect(config: &Config, tls: Arc<ClientConfig>) -> Result<Socket, DialError> {
    let address = &config.websocket;
    let host = host_of(address).ok_or_else(|| DialError::Address(address.clone()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(|_| DialError::Address(address.clone()))?;
    let tcp =
        TcpStream::connect(address).await.map_err(|error| DialError::Connect(address.clone(), error))?;
    tcp.set_nodelay(true).map_err(|error| DialError::Connect(address.clone(), error))?;
    let stream = TlsConnector::from(tls)
        .connect(name, tcp)
        .await
        .map_err(|error| DialError::Tls(address.clone(), error))?;
    let request = upgrade(config)?;
    let limits = WebSocketConfig::default()
        .max_message_size(Some(config.max_message))
        .max_frame_size(Some(config.max_message))
        .max_write_buffer_size(config.max_message + WRITE_BUFFER);
    match tokio_tungstenite::client_async_with_config(request, stream, Some(limits)).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => Err(DialError::Refused(address.clone(), said(&response))),
        Err(error) => Err(DialError::Upgrade(address.clone(), Box::new(error))),
    }
}

/// The host of `host:port`, brackets of IPv6 removed.
fn host_of(address: &str) -> Option<&str> {
    let (host, _) = address.rsplit_once(':')?;
    Some(host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host))
}

fn upgrade(config: &Config) -> Result<tungstenite::handshake::client::Request, DialError> {
    let bad = |_| DialError::Address(config.websocket.clone());
    let url = format!("wss://{}/{}/{}/events", config.websocket, config.project_id, config.node_name);
    let mut request = url.into_client_request().map_err(|_| DialError::Address(config.websocket.clone()))?;
    let headers = request.headers_mut();
    headers.insert("connectionuse", HeaderValue::from_static("msg"));
    headers.insert("node_id", HeaderValue::from_str(&config.node_name).map_err(bad)?);
    headers.insert("project_id", HeaderValue::from_str(&config.project_id).map_err(bad)?);
    Ok(request)
}

/// Status and the first line of the body of a refusal.
fn said(response: &tungstenite::http::Response<Option<Vec<u8>>>) -> String {
    let body = response.body().as_deref().unwrap_or_default();
    let text = String::from_utf8_lossy(&body[..body.len().min(512)]);
    format!("{} {}", response.status(), text.lines().next().unwrap_or_default()).trim_end().to_owned()
}
