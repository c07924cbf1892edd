//! One request to the kubelet of a node, and the answer to its client.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kubeapi::{Body, NodeAnswer, NodeIo, NodeRequest, NodeStreams};
use tokio::io::{AsyncWriteExt, BufReader};
use tracing::debug;

/// The path before the name of a node and a path of its kubelet, for clients that choose the path.
pub(super) const NODES_PATH: &str = "/nodes/";
/// The buffer of a stream's output, bytes: two TLS records. The default of `copy` costs the API server twice the time.
const RELAY_BUFFER_BYTES: usize = 32 * 1024;

/// A refusal: status and reason.
pub(super) type Refusal = (StatusCode, String);

/// Sends a request to the kubelet of a node, and relays what follows.
pub(super) async fn deliver(
    streams: &dyn NodeStreams,
    node: &str,
    path_and_query: String,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let asked = NodeRequest {
        method: request.method().clone(),
        path_and_query,
        headers: request.headers().clone(),
    };
    let answered = streams.ask(node, asked).await;
    match answered.map_err(|error| (error.code(), error.to_string()))? {
        NodeAnswer::Response(response) => Ok(response),
        NodeAnswer::Upgraded(head, io) => {
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                match upgrade.await {
                    Ok(upgraded) => relay(TokioIo::new(upgraded), io).await,
                    Err(error) => debug!(%error, "failed to upgrade a connection"),
                }
            });
            Ok(Response::from_parts(head, empty()))
        }
    }
}

/// Copies bytes until either side has ended.
async fn relay(client: impl NodeIo, node: Box<dyn NodeIo>) {
    let (mut client_reader, mut client_writer) = tokio::io::split(client);
    let (node_reader, mut node_writer) = tokio::io::split(node);
    let mut node_reader = BufReader::with_capacity(RELAY_BUFFER_BYTES, node_reader);
    let ended = clock::select! {
        ended = tokio::io::copy_buf(&mut node_reader, &mut client_writer) => ended,
        // the client has gone, so nobody reads any more
        ended = tokio::io::copy(&mut client_reader, &mut node_writer) => ended,
    };
    if let Err(error) = ended {
        debug!(%error, "connection to a node lost");
    }
    let _ = client_writer.shutdown().await;
}

fn empty() -> Body {
    Full::default()
        .map_err(|never| match never {})
        .boxed_unsync()
}

/// Returns the answer to a refused request.
pub(super) fn refusal((status, why): Refusal) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{why}\n"))).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
}
