//! TLS with the node's certificate, and the WebSocket upgrade with the headers that CloudHub reads.

use std::{io::ErrorKind, sync::Arc};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{net::TcpStream, sync::Mutex};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self,
        client::IntoClientRequest,
        http::{HeaderValue, StatusCode},
        protocol::WebSocketConfig,
    },
};
use wire::{
    compression,
    instance::{self, CONFLICT, Instance},
    session,
    text::printable,
};

use super::{ACCEPTED_ATTEMPT_DELAY, DialError, Target, tcp, with_upgrade_lock};
use crate::{
    edgehub::{
        Config,
        frame_filter::{CutMessages, Filtered, FrameFilter, MessageLimits},
        in_process::{CloudServer, InProcessLink},
        metered::Metered,
        network::NetworkChanges,
        stream::Stream,
    },
    tls::CertificateFault,
};

/// The bytes that may wait in the WebSocket writer beyond one message.
const WRITE_BUFFER_BYTES: usize = 1024 * 1024;
/// The bytes of one read. The library holds them as long as the connection lasts, and fills them with zeros before each read.
const READ_BUFFER_BYTES: usize = 4 * 1024;

pub(in crate::edgehub) type Socket = WebSocketStream<Box<dyn Stream>>;

/// Opens the TCP connection to the server.
pub(super) async fn connect_tcp(config: &Config, target: &Target) -> Result<TcpStream, DialError> {
    let reached = tcp::connect(target, &config.proxy).await;
    reached.map_err(|error| DialError::Connect(target.to_string(), error))
}

/// A connection over which messages may go.
pub(super) struct Upgraded {
    pub(super) socket: Socket,
    /// The messages that were too large.
    pub(super) cut: CutMessages,
    /// Whether messages are compressed.
    pub(super) compressed: bool,
}

/// Connects to a cloud in this process.
pub(super) async fn connect_in_process(
    link: &InProcessLink,
    target: &Target,
) -> Result<Box<dyn Stream>, DialError> {
    let connected = link.connect(CloudServer::Hub, &server_name(target)?).await;
    connected.map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => DialError::Connect(target.to_string(), error),
        _ => DialError::of_handshake(target.to_string(), error),
    })
}

/// Performs the TLS handshake.
pub(super) async fn connect_tls(
    target: &Target,
    tls: Arc<ClientConfig>,
    stream: Metered<TcpStream>,
) -> Result<TlsStream<Metered<TcpStream>>, DialError> {
    TlsConnector::from(tls)
        .connect(server_name(target)?, stream)
        .await
        .map_err(|error| DialError::of_handshake(target.to_string(), error))
}

fn server_name(target: &Target) -> Result<ServerName<'static>, DialError> {
    let name = ServerName::try_from(target.host.clone());
    name.map_err(|_| DialError::Address(target.to_string()))
}

/// Performs the upgrade. Only one attempt at a time does, because the cloud takes the newest connection of a node as the current one.
pub(super) async fn upgrade(
    config: &Config,
    target: &Target,
    stream: Box<dyn Stream>,
    instance: &Instance,
    (upgrade_lock, network): (&Mutex<()>, NetworkChanges),
) -> Result<Upgraded, DialError> {
    let address = target.to_string();
    let request = upgrade_request(config, &address, instance)?;
    let cut = CutMessages::default();
    let filter = FrameFilter::after_response(MessageLimits::of(config.max_message), cut.clone());
    let stream: Box<dyn Stream> = Box::new(Filtered::new(stream, filter));
    let limits = limits(config.max_message);
    let upgrading = tokio_tungstenite::client_async_with_config(request, stream, Some(limits));
    let Some(upgraded) = with_upgrade_lock(upgrade_lock, network, upgrading).await else {
        return Err(DialError::Timeout(address, ACCEPTED_ATTEMPT_DELAY));
    };
    match upgraded {
        Ok((socket, response)) => {
            let agreed = response.headers().get(compression::HEADER);
            let compressed = agreed.is_some_and(|form| form == compression::FORM);
            Ok(Upgraded {
                socket,
                cut,
                compressed,
            })
        }
        Err(tungstenite::Error::Http(response)) if response.status() == CONFLICT => {
            Err(DialError::NameInUse(address, first_body_line(&response)))
        }
        Err(tungstenite::Error::Http(response)) if response.status() == StatusCode::FORBIDDEN => {
            Err(DialError::Forbidden(address, refusal_text(&response)))
        }
        Err(tungstenite::Error::Http(response)) => {
            Err(DialError::Refused(address, refusal_text(&response)))
        }
        Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            Err(DialError::Closed(address))
        }
        // with TLS 1.3 the server verifies this node's certificate after the handshake has ended here
        Err(error) => Err(match CertificateFault::find(&error) {
            Some(fault) => DialError::Certificate(address, fault),
            None => DialError::Upgrade(address, Box::new(error)),
        }),
    }
}

/// Returns the WebSocket settings for messages of at most `max_message` bytes.
pub(in crate::edgehub) fn limits(max_message: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(Some(max_message))
        .max_frame_size(Some(max_message))
        .max_write_buffer_size(max_message + WRITE_BUFFER_BYTES)
}

fn upgrade_request(
    config: &Config,
    address: &str,
    instance: &Instance,
) -> Result<tungstenite::handshake::client::Request, DialError> {
    let bad = |_| DialError::Address(address.to_owned());
    let url = format!(
        "wss://{address}/{}/{}/events",
        config.project_id, config.node_name
    );
    let mut request = url
        .into_client_request()
        .map_err(|_| DialError::Address(address.to_owned()))?;
    let headers = request.headers_mut();
    headers.insert(
        session::USE_HEADER,
        HeaderValue::from_static(session::USE_MESSAGES),
    );
    headers.insert(
        session::NODE_HEADER,
        HeaderValue::from_str(&config.node_name).map_err(bad)?,
    );
    headers.insert(
        session::PROJECT_HEADER,
        HeaderValue::from_str(&config.project_id).map_err(bad)?,
    );
    // within a process there is no traffic to save
    if config.in_process.is_none() {
        let form = HeaderValue::from_static(compression::FORM);
        headers.insert(compression::HEADER, form);
    }
    headers.insert(
        instance::HEADER,
        HeaderValue::from_str(&instance.to_string()).map_err(bad)?,
    );
    Ok(request)
}

/// Returns the status and the first line of the body of a refusal.
fn refusal_text(response: &tungstenite::http::Response<Option<Vec<u8>>>) -> String {
    format!("{} {}", response.status(), first_body_line(response))
        .trim_end()
        .to_owned()
}

/// Returns the first line of the body.
fn first_body_line(response: &tungstenite::http::Response<Option<Vec<u8>>>) -> String {
    let body = response.body().as_deref().unwrap_or_default();
    let text = String::from_utf8_lossy(&body[..body.len().min(512)]);
    printable(text.lines().next().unwrap_or_default())
}
