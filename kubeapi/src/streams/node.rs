//! Sends requests to a node's kubelet and relays its responses.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::slots::Slot;
use crate::{
    Body, NodeAnswer, NodeError, NodeRequest, NodeStreams, request::body, status::StatusError,
};

/// How long a node may take to send the head of its response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of a node's error that are relayed, and how long reading them may take.
const MAX_REFUSAL_BYTES: usize = 50_000;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends a request to a node's kubelet.
pub(super) async fn send_request(
    streams: &dyn NodeStreams,
    node: &str,
    request: NodeRequest,
) -> Result<NodeAnswer, StatusError> {
    let answered = timeout(ANSWER_TIMEOUT, streams.ask(node, request)).await;
    let answered = answered.unwrap_or_else(|_| Err(NodeError::Timeout(node.to_owned())));
    answered.map_err(|error| StatusError::of_node(error.code(), error.to_string()))
}

/// Makes a GET request.
pub(super) fn get(path_and_query: String) -> NodeRequest {
    NodeRequest {
        method: Method::GET,
        path_and_query,
        headers: HeaderMap::new(),
    }
}

/// Reads the text of an error, as far as it arrives in time.
pub(super) async fn text(body: Body) -> String {
    let mut text = Vec::new();
    let mut body = body;
    let reading = async {
        while text.len() < MAX_REFUSAL_BYTES
            && let Some(Ok(frame)) = body.frame().await
        {
            if let Ok(data) = frame.into_data() {
                text.extend_from_slice(&data);
            }
        }
    };
    // what has not come by then is left out
    let _ = timeout(REFUSAL_TIMEOUT, reading).await;
    text.truncate(MAX_REFUSAL_BYTES);
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

/// Relays what a node answered in place of an upgrade unchanged, as the API server does; clients show its text.
pub(super) async fn relay_answer(answer: Response<Body>) -> Result<Response<Body>, StatusError> {
    let (head, body) = answer.into_parts();
    if head.status.is_informational() || head.status.is_success() || head.status.is_redirection() {
        let why = format!(
            "invalid upgrade response: status code {}",
            head.status.as_u16()
        );
        return Err(StatusError::of_node(StatusCode::INTERNAL_SERVER_ERROR, why));
    }
    let text = text(body).await;
    let mut answer = Response::new(body::whole(text.into()));
    *answer.status_mut() = head.status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let media_type = head
        .headers
        .get(header::CONTENT_TYPE)
        .cloned()
        .unwrap_or(plain);
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    Ok(answer)
}

/// Wraps the body so that it keeps its slot until it ends.
pub(super) fn hold_slot(body: Body, slot: Slot) -> Body {
    body.map_frame(move |frame| {
        // moved in here, it is dropped with the body
        let _ = &slot;
        frame
    })
    .boxed_unsync()
}
