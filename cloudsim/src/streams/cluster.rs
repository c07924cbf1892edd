//! The tunnels of nodes to all replicas of the cloud: a replica without the tunnel of a node forwards requests to the replica that has it.

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kubeapi::{Body, NodeAnswer, NodeError, NodeRequest, NodeStreams};
use wire::enroll::is_node_name;

use super::{
    Tunnels,
    deliver::{deliver, refusal},
    table::HEAD_TIMEOUT,
};
use crate::peers::{Connection, PeerError, Peers, STREAMS_PATH};

/// How long a replica may take longer than the node itself.
const FORWARD_SLACK: Duration = Duration::from_secs(5);

/// The tunnels of this replica and of the others; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ClusterTunnels {
    own: Tunnels,
    /// `None` if this replica reaches no others.
    peers: Option<Peers>,
}

impl ClusterTunnels {
    pub(crate) fn new(own: Tunnels, peers: Option<Peers>) -> Self {
        Self { own, peers }
    }

    /// Reports whether the node has a tunnel to any replica.
    pub(super) async fn has(&self, node: &str) -> bool {
        if self.own.has(node) {
            return true;
        }
        match &self.peers {
            Some(peers) => peers.has_tunnel(node).await,
            None => false,
        }
    }

    /// Returns the node that reports this address, if there is exactly one.
    pub(super) async fn at(&self, address: &str) -> Option<String> {
        let mut nodes: BTreeSet<String> = self.own.nodes_at(address);
        if let Some(peers) = &self.peers {
            nodes.extend(peers.nodes_at(address).await);
        }
        let node = nodes.pop_first()?;
        nodes.is_empty().then_some(node)
    }
}

#[async_trait]
impl NodeStreams for ClusterTunnels {
    async fn ask(&self, node: &str, request: NodeRequest) -> Result<NodeAnswer, NodeError> {
        let Some(peers) = self.peers.as_ref().filter(|_| !self.own.has(node)) else {
            return self.own.ask(node, request).await;
        };
        let broken = |why: &dyn ToString| NodeError::Broken(node.to_owned(), why.to_string());
        let request = peer_request(node, request).map_err(|error| broken(&error))?;
        let to = (Connection::Tunnel, node);
        let answered = peers
            .forward(to, request, HEAD_TIMEOUT + FORWARD_SLACK)
            .await;
        let mut answer = answered.map_err(|error| match error {
            PeerError::NotConnected => NodeError::NotConnected(node.to_owned()),
            PeerError::Timeout => NodeError::Timeout(node.to_owned()),
            PeerError::Lost(why) => broken(&why),
        })?;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(NodeAnswer::Response(answer.map(BodyExt::boxed_unsync)));
        }
        let io = hyper::upgrade::on(&mut answer).await;
        let io = io.map_err(|error| broken(&error))?;
        Ok(NodeAnswer::Upgraded(
            answer.into_parts().0,
            Box::new(TokioIo::new(io)),
        ))
    }
}

/// Returns the request to a replica; the headers are those for the node, and there is no body.
fn peer_request(
    node: &str,
    asked: NodeRequest,
) -> Result<Request<Full<bytes::Bytes>>, http::Error> {
    let path = asked.path_and_query.trim_start_matches('/');
    let mut request = Request::builder()
        .method(asked.method)
        .uri(format!("{STREAMS_PATH}{node}/{path}"))
        .body(Full::default())?;
    *request.headers_mut() = asked.headers;
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        request.headers_mut().remove(name);
    }
    Ok(request)
}

/// Answers a request that another replica has forwarded; `path` is what follows [`STREAMS_PATH`]. A node without a tunnel to this replica
/// is reported as such, whatever other replicas have.
pub(crate) async fn answer_forwarded(
    tunnels: &Tunnels,
    path: &str,
    request: Request<Incoming>,
) -> Response<Body> {
    let (node, path) = path.split_once('/').unwrap_or((path, ""));
    if !is_node_name(node) || !tunnels.has(node) {
        let why = format!("node {node:?} has no stream tunnel to this replica");
        return refusal((StatusCode::MISDIRECTED_REQUEST, why));
    }
    let delivered = deliver(tunnels, node, format!("/{path}"), request).await;
    delivered.unwrap_or_else(refusal)
}
