//! TLS and the WebSocket upgrade of one connection, which authenticate the node and compare its header with its certificate.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self,
        handshake::server::{Callback, ErrorResponse, Request, Response},
        http::{HeaderValue, StatusCode},
        protocol::WebSocketConfig,
    },
};
use wire::{
    compression,
    instance::{self, Instance},
    session,
};

use super::{Limits, Shared};
use crate::{
    faults::{LinkDown, wait_for_link},
    listeners::{LOCAL_ADDRESS, LocalConnection, is_probe, node_name, tls_certificate, tls_fault},
    sessions::{RequestSequence, Sessions},
};

/// A byte stream in both directions.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(super) type Socket = WebSocketStream<Box<dyn Stream>>;

/// Bytes that may wait in the WebSocket writer in addition to one message.
const WRITE_BUFFER: usize = 1024 * 1024;
/// Bytes read at a time. The library allocates as many for each connection, and zeroes them before each read.
const READ_BUFFER: usize = 4 * 1024;

/// The reason why a connection got no session.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpgradeError {
    #[error("TLS: {}", tls_fault(.0))]
    Tls(#[source] std::io::Error),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    LinkDown(#[from] LinkDown),
    #[error("the request is not a WebSocket upgrade")]
    WebSocket(#[source] Box<tungstenite::Error>),
}

impl UpgradeError {
    /// Reports whether the client is no node: it shows no certificate, or only looks whether somebody listens.
    pub(super) fn is_of_no_node(&self) -> bool {
        matches!(self, Self::Tls(error) if is_probe(error))
    }
}

/// A node that may have a session.
pub(super) struct Upgraded {
    pub(super) node: String,
    /// The order of its request.
    pub(super) sequence: RequestSequence,
    /// The run of the agent, if the agent sends it.
    pub(super) instance: Option<Instance>,
    /// The certificate that a join token gave it, if it connects with it for the first time.
    pub(super) new_certificate: Option<Vec<u8>>,
    /// The certificate that it shows, DER.
    pub(super) certificate: Vec<u8>,
    pub(super) socket: Socket,
    /// Whether messages are compressed.
    pub(super) compressed: bool,
}

/// A connection whose peer has shown its certificate.
pub(super) struct Authenticated {
    stream: Box<dyn Stream>,
    /// The certificate, DER, which was verified; `None` if there is none.
    certificate: Option<Vec<u8>>,
    address: SocketAddr,
}

/// Performs the TLS handshake.
pub(super) async fn accept_tls(
    stream: TcpStream,
    tls: TlsAcceptor,
) -> Result<Authenticated, UpgradeError> {
    stream
        .set_nodelay(true)
        .and_then(|()| limits::set_keepalive(&stream))
        .map_err(UpgradeError::Tls)?;
    let stream = tls.accept(stream).await.map_err(UpgradeError::Tls)?;
    let address = stream.get_ref().0.peer_addr().map_err(UpgradeError::Tls)?;
    let certificate = tls_certificate(&stream).map(|shown| shown.to_vec());
    Ok(Authenticated {
        stream: Box::new(stream),
        certificate,
        address,
    })
}

/// Accepts a node of this process.
pub(super) fn accept_local(connection: LocalConnection) -> Result<Authenticated, UpgradeError> {
    let tls = |error| UpgradeError::Tls(std::io::Error::other(error));
    let certificate = connection.certificate.map_err(tls)?.to_vec();
    Ok(Authenticated {
        stream: Box::new(connection.stream),
        certificate: Some(certificate),
        address: LOCAL_ADDRESS,
    })
}

/// Authenticates a node and upgrades its connection.
pub(super) async fn upgrade(
    Authenticated {
        stream,
        certificate,
        address,
    }: Authenticated,
    shared: &Shared,
) -> Result<Upgraded, UpgradeError> {
    let mut identity = node_name(certificate.as_deref());
    let certificate = certificate.unwrap_or_default();
    let refusal = match &identity {
        Ok(node) => shared.refusal(node, &certificate).await,
        Err(_) => None,
    };
    let mut new_certificate = None;
    if let Some(why) = refusal {
        identity = Err(why);
    } else if let Ok(node) = &identity {
        new_certificate = shared.sessions.new_certificate(node, Some(&certificate));
        wait_for_link(&shared.faults, node).await?;
    }
    let (mut refused, mut sequence, mut compressed, mut own) = (None, None, false, None);
    let check = UpgradeCallback {
        identity: &identity,
        refused: &mut refused,
        sessions: &shared.sessions,
        sequence: &mut sequence,
        compressed: &mut compressed,
        address,
        instance: &mut own,
    };
    let config = websocket_limits(&shared.limits);
    let socket = tokio_tungstenite::accept_hdr_async_with_config(stream, check, Some(config)).await;
    if let Some(reason) = refused {
        return Err(UpgradeError::Refused(reason));
    }
    let node = identity.map_err(UpgradeError::Refused)?;
    let socket = socket.map_err(|error| UpgradeError::WebSocket(Box::new(error)))?;
    let sequence = sequence.unwrap_or_else(|| shared.sessions.next_sequence());
    Ok(Upgraded {
        node,
        sequence,
        instance: own,
        new_certificate,
        certificate,
        socket,
        compressed,
    })
}

/// Returns the limits of a message.
pub(super) fn websocket_limits(limits: &Limits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(limits.max_message))
        .max_frame_size(Some(limits.max_message))
        .max_write_buffer_size(limits.max_message + WRITE_BUFFER)
}

/// Checks the headers of the upgrade, and keeps the reason of a refusal.
struct UpgradeCallback<'a> {
    identity: &'a Result<String, String>,
    refused: &'a mut Option<String>,
    sessions: &'a Sessions,
    /// Drawn before the answer is written, so that the order of requests is kept.
    sequence: &'a mut Option<RequestSequence>,
    compressed: &'a mut bool,
    /// The address of the node.
    address: SocketAddr,
    instance: &'a mut Option<Instance>,
}

impl Callback for UpgradeCallback<'_> {
    // the type is the library's; a refusal happens once for each connection
    #[allow(clippy::result_large_err)]
    fn on_request(
        self,
        request: &Request,
        mut response: Response,
    ) -> Result<Response, ErrorResponse> {
        let header = |name: &str| {
            request
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let claimed = header(session::NODE_HEADER);
        *self.instance = Instance::parse(header(instance::HEADER));
        let mut status = StatusCode::FORBIDDEN;
        let reason = match self.identity {
            Err(reason) => reason.clone(),
            Ok(name) if name != claimed => format!(
                "the header Node_id says {claimed:?} and the certificate {name:?}; start the agent with the name in its certificate, or enrol it again"
            ),
            Ok(_) if !header(session::USE_HEADER).eq_ignore_ascii_case(session::USE_MESSAGES) => {
                "the header ConnectionUse must be msg; this hub serves no other use".to_owned()
            }
            Ok(name) => 'reason: {
                if let Err(taken) = self
                    .sessions
                    .admit(name, self.instance.as_ref(), self.address)
                {
                    status = StatusCode::CONFLICT;
                    break 'reason taken;
                }
                *self.sequence = Some(self.sessions.next_sequence());
                if header(compression::HEADER) == compression::FORM {
                    *self.compressed = true;
                    let agreed = HeaderValue::from_static(compression::FORM);
                    response.headers_mut().insert(compression::HEADER, agreed);
                }
                return Ok(response);
            }
        };
        *self.refused = Some(reason.clone());
        let mut refusal = ErrorResponse::new(Some(reason));
        *refusal.status_mut() = status;
        Err(refusal)
    }
}
