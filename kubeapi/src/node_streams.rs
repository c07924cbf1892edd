//! The connection from an API to the kubelet API of a node: logs, exec, attach, port-forward, and the pages that `nodes/proxy` reaches.

use async_trait::async_trait;
use http::{HeaderMap, Method, Response, StatusCode, response::Parts};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::request::body::Body;

/// A request to a kubelet: `GET /containerLogs/{namespace}/{pod}/{container}?…`, `POST /exec/…`.
///
/// Source: the kubelet's server, `pkg/kubelet/server`.
#[derive(Clone, Debug)]
pub struct NodeRequest {
    /// The method; for an upgrade the one that the kubelet expects.
    pub method: Method,
    /// The path and the encoded query, with the leading slash.
    pub path_and_query: String,
    /// The headers; those of an upgrade name the protocol.
    pub headers: HeaderMap,
}

/// The bytes of an upgraded connection.
pub trait NodeIo: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> NodeIo for T {}

/// The response of a node.
pub enum NodeAnswer {
    /// An ordinary response, whose body is streamed.
    Response(Response<Body>),
    /// The head of a 101 response, and the upgraded connection.
    Upgraded(Parts, Box<dyn NodeIo>),
}

impl std::fmt::Debug for NodeAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Response(response) => {
                f.debug_tuple("Response").field(&response.status()).finish()
            }
            Self::Upgraded(head, _) => f
                .debug_tuple("Upgraded")
                .field(&head.status)
                .finish_non_exhaustive(),
        }
    }
}

/// Why a node did not respond.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The node is not connected.
    #[error(
        "node {0:?} has no stream tunnel to this cloud; run `edge-agent check` on it: it needs modules.edgeStream, and the cloud's port for streams (10004)"
    )]
    NotConnected(String),
    /// The node did not respond in time.
    #[error("node {0:?} did not answer in time")]
    Timeout(String),
    /// All streams of the node are in use.
    #[error("node {0:?} has no capacity for another stream; close an open one")]
    Full(String),
    /// The response is not HTTP, or the connection ended before its head.
    #[error("no valid response from node {0:?}: {1}")]
    Broken(String, String),
}

impl NodeError {
    /// Returns the status for the client of the API.
    pub fn code(&self) -> StatusCode {
        match self {
            Self::NotConnected(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Full(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Broken(..) => StatusCode::BAD_GATEWAY,
        }
    }
}

/// Sends requests to the kubelets of nodes.
#[async_trait]
pub trait NodeStreams: Send + Sync + 'static {
    /// Sends a request to `node`'s kubelet. Returns when the head of the response has arrived; dropping the result ends the stream.
    async fn ask(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError>;
}
