//! The way from an API to the kubelet API of a node: logs, exec, attach, port-forward, and the pages that `nodes/proxy` reaches.

use async_trait::async_trait;
use http::{HeaderMap, Method, Response, StatusCode, response::Parts};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::body::Body;

/// A request to a kubelet: `GET /containerLogs/{namespace}/{pod}/{container}?…`, `POST /exec/…`.
///
/// Source: the kubelet's server, `pkg/kubelet/server`.
#[derive(Clone, Debug)]
pub struct NodeRequest {
    /// The method; for an upgrade the one by which the kubelet is to be asked.
    pub method: Method,
    /// Path and encoded query, from the slash on.
    pub path_and_query: String,
    /// The headers; those of an upgrade say to what.
    pub headers: HeaderMap,
}

/// The bytes of an upgraded connection.
pub trait NodeIo: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> NodeIo for T {}

/// What a node answers.
pub enum NodeAnswer {
    /// An ordinary answer, whose body comes as the node sends it.
    Response(Response<Body>),
    /// The head of a 101, and the connection behind it.
    Upgraded(Parts, Box<dyn NodeIo>),
}

impl std::fmt::Debug for NodeAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Response(response) => f.debug_tuple("Response").field(&response.status()).finish(),
            Self::Upgraded(head, _) => f.debug_tuple("Upgraded").field(&head.status).finish_non_exhaustive(),
        }
    }
}

/// Why a node gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// There is no way to the node now.
    #[error(
        "node {0:?} has no stream tunnel to this cloud; check that it is up and that modules.edgeStream is enabled on it"
    )]
    NotConnected(String),
    /// It did not answer in time.
    #[error("node {0:?} did not answer in time")]
    Timeout(String),
    /// Its streams are all in use.
    #[error("node {0:?} has no room for another stream; end one of those that are open")]
    Full(String),
    /// What came is no HTTP, or the way ended before a head.
    #[error("node {0:?} gave no valid answer: {1}")]
    Broken(String, String),
}

impl NodeError {
    /// The status by which a client of the API is told.
    pub fn code(&self) -> StatusCode {
        match self {
            Self::NotConnected(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Full(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Broken(..) => StatusCode::BAD_GATEWAY,
        }
    }
}

/// Reaches nodes.
#[async_trait]
pub trait NodeStreams: Send + Sync + 'static {
    /// Asks `node`'s kubelet. It returns when the head of the answer is there; what it gives ends the stream when it is dropped.
    async fn ask(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError>;
}
