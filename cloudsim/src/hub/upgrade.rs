//! TLS and the WebSocket upgrade of one connection: who is it, and does the header say the same as the certificate?

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
    enroll::{Identity, identity_of},
    instance::{self, Instance},
};

use super::{Limits, Shared, gate};
use crate::sessions::{Sessions, Ticket};

/// Bytes to and fro.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(super) type Socket = WebSocketStream<Box<dyn Stream>>;

/// Bytes that may wait in the WebSocket writer beyond one message.
const WRITE_BUFFER: usize = 1024 * 1024;
/// Bytes read at one time. The library holds so many for each connection, and fills them with zeros before each read.
const READ_BUFFER: usize = 8 * 1024;

/// Why a connection got no session.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpgradeError {
    #[error("TLS: the node needs a certificate of this cloud's CA")]
    Tls(#[source] std::io::Error),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Dead(#[from] gate::Dead),
    #[error("no WebSocket upgrade")]
    WebSocket(#[source] Box<tungstenite::Error>),
}

impl UpgradeError {
    /// Whether no certificate was shown at all: whoever did so is no node, but may be about to become one and look who answers here.
    pub(super) fn is_of_no_node(&self) -> bool {
        let Self::Tls(error) = self else { return false };
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        matches!(cause, Some(rustls::Error::NoCertificatesPresented))
    }
}

/// A node that may have a session.
pub(super) struct Upgraded {
    pub(super) node: String,
    /// When it asked for its session.
    pub(super) ticket: Ticket,
    /// Which run of an agent it is, where it says so.
    pub(super) instance: Option<Instance>,
    /// The certificate that it shows, where it was given for a token and the node has not come with it before.
    pub(super) begins: Option<Vec<u8>>,
    /// The certificate that it shows.
    pub(super) certificate: Vec<u8>,
    pub(super) socket: Socket,
    /// Whether messages are compressed.
    pub(super) compressed: bool,
}

/// Lets a node in.
pub(super) async fn upgrade(
    stream: TcpStream,
    tls: TlsAcceptor,
    shared: &Shared,
) -> Result<Upgraded, UpgradeError> {
    stream.set_nodelay(true).map_err(UpgradeError::Tls)?;
    let stream = tls.accept(stream).await.map_err(UpgradeError::Tls)?;
    let address = stream.get_ref().0.peer_addr().map_err(UpgradeError::Tls)?;
    let peer = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = peer.map(|shown| shown.as_ref().to_owned()).unwrap_or_default();
    let mut identity = match peer.map(|cert| identity_of(cert)) {
        Some(Ok(Identity::Node(name))) => Ok(name),
        Some(Ok(other)) => Err(format!("the certificate is {other:?}'s and not a node's")),
        Some(Err(error)) => Err(format!("the certificate names no node: {error}")),
        None => Err("no certificate was shown".to_owned()),
    };
    let refusal = match &identity {
        Ok(node) => shared.refusal(node, &certificate).await,
        Err(_) => None,
    };
    let mut begins = None;
    if let Some(why) = refusal {
        identity = Err(why);
    } else if let Ok(node) = &identity {
        begins = shared.sessions.begins(node, Some(&certificate));
        gate::pass(&shared.faults, node).await?;
    }
    let (mut refused, mut ticket, mut compressed, mut own) = (None, None, false, None);
    let check = Check {
        identity: &identity,
        refused: &mut refused,
        sessions: &shared.sessions,
        ticket: &mut ticket,
        compressed: &mut compressed,
        address,
        instance: &mut own,
    };
    let config = websocket_limits(&shared.limits);
    let stream: Box<dyn Stream> = Box::new(stream);
    let socket = tokio_tungstenite::accept_hdr_async_with_config(stream, check, Some(config)).await;
    if let Some(reason) = refused {
        return Err(UpgradeError::Refused(reason));
    }
    let node = identity.map_err(UpgradeError::Refused)?;
    let socket = socket.map_err(|error| UpgradeError::WebSocket(Box::new(error)))?;
    let ticket = ticket.unwrap_or_else(|| shared.sessions.ticket());
    Ok(Upgraded { node, ticket, instance: own, begins, certificate, socket, compressed })
}

/// What one message may cost.
pub(super) fn websocket_limits(limits: &Limits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(limits.max_message))
        .max_frame_size(Some(limits.max_message))
        .max_write_buffer_size(limits.max_message + WRITE_BUFFER)
}

/// Reads the headers of the upgrade; notes why it refused.
struct Check<'a> {
    identity: &'a Result<String, String>,
    refused: &'a mut Option<String>,
    sessions: &'a Sessions,
    /// Drawn before the answer is written: a node asks for one session at a time.
    ticket: &'a mut Option<Ticket>,
    compressed: &'a mut bool,
    /// From where it asks.
    address: SocketAddr,
    instance: &'a mut Option<Instance>,
}

impl Callback for Check<'_> {
    // the type is the library's; a refusal happens once a connection
    #[allow(clippy::result_large_err)]
    fn on_request(self, request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
        let header = |name: &str| {
            request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
        };
        let claimed = header("node_id");
        *self.instance = Instance::parse(header(instance::HEADER));
        let mut status = StatusCode::FORBIDDEN;
        let reason = match self.identity {
            Err(reason) => reason.clone(),
            Ok(name) if name != claimed => format!(
                "the header Node_id says {claimed:?} and the certificate {name:?}; start the agent with the name that its certificate was issued for, or enrol it anew"
            ),
            Ok(_) if !header("connectionuse").eq_ignore_ascii_case("msg") => {
                "the header ConnectionUse must be msg; this hub serves no other use".to_owned()
            }
            Ok(name) => 'reason: {
                if let Err(taken) = self.sessions.admit(name, self.instance.as_ref(), self.address) {
                    status = StatusCode::CONFLICT;
                    break 'reason taken;
                }
                *self.ticket = Some(self.sessions.ticket());
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
