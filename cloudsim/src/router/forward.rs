//! Calls for nodes of other replicas.

use std::{net::IpAddr, time::Duration};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use kubeapi::{Body, gather};
use wire::{bus::MAX_BODY, headers::ConnectionHeaders};

use super::{RequestPath, Router, client_of, refusal, response};
use crate::{
    controllers::rules::{CALL_TIMEOUT, Call, CallAnswer, CallError, Rules},
    peers::{CALLS_PATH, CLIENT_HEADER, Connection, PeerError, Peers},
};

/// How long another replica may take longer than the node itself.
const FORWARD_SLACK: Duration = Duration::from_secs(10);

/// Forwards a call to the replica to which the node is connected, which counts it. If there is none, the call fails here.
pub(super) async fn call(
    peers: &Peers,
    rules: &Rules,
    call: Call,
    client: IpAddr,
) -> Result<CallAnswer, CallError> {
    let failed = |status, reason, why: &str| {
        Err(CallError::new(
            status,
            reason,
            format!("node {}: {why}", call.node),
        ))
    };
    let request = match peer_request(&call, client) {
        Ok(request) => request,
        Err(error) => {
            return failed(StatusCode::BAD_REQUEST, "PathRefused", &error.to_string());
        }
    };
    let to = (Connection::Session, &*call.node);
    match peers
        .forward(to, request, CALL_TIMEOUT + FORWARD_SLACK)
        .await
    {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            let body = match gather(body, MAX_BODY).await {
                Ok(body) => body,
                Err(unread) => {
                    let why = format!("the answer of another replica is not relayed: {unread}");
                    return failed(StatusCode::BAD_GATEWAY, "NodeFailed", &why);
                }
            };
            Ok(CallAnswer {
                status: head.status,
                headers: end_to_end(&head.headers),
                body,
                failed: None,
            })
        }
        Err(PeerError::NotConnected) => rules.call(call).await,
        Err(error @ PeerError::Timeout) => failed(
            StatusCode::GATEWAY_TIMEOUT,
            "NodeTimeout",
            &error.to_string(),
        ),
        Err(error @ PeerError::Lost(_)) => failed(
            StatusCode::BAD_GATEWAY,
            "NodeDisconnected",
            &error.to_string(),
        ),
    }
}

fn peer_request(call: &Call, client: IpAddr) -> Result<Request<Full<bytes::Bytes>>, http::Error> {
    let Call {
        node,
        namespace,
        path,
        query,
        ..
    } = call;
    let query = query.as_ref().map(|query| format!("?{query}"));
    let query = query.unwrap_or_default();
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(format!("{CALLS_PATH}/{node}/{namespace}/{path}{query}"))
        .body(Full::new(call.body.clone()))?;
    *request.headers_mut() = end_to_end(&call.headers);
    let client = HeaderValue::try_from(client.to_string())?;
    request.headers_mut().insert(CLIENT_HEADER, client);
    Ok(request)
}

/// Returns the headers without those of one connection.
fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let values = headers.get_all(header::CONNECTION).into_iter();
    let own = ConnectionHeaders::named_in(values.filter_map(|value| value.to_str().ok()));
    let kept = headers.iter().filter(|(name, _)| {
        !own.contains(name.as_str())
            && ![header::CONTENT_LENGTH, header::HOST, header::EXPECT].contains(name)
    });
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

impl Router {
    /// Answers a call that another replica has checked and forwarded. It is not forwarded again.
    pub(crate) async fn answer_forwarded(&self, request: Request<Incoming>) -> Response<Body> {
        let answered = self.answer_here(request).await;
        answered.map_or_else(refusal, response)
    }

    async fn answer_here(&self, request: Request<Incoming>) -> Result<CallAnswer, CallError> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let place = RequestPath::parse(path.strip_prefix(CALLS_PATH).unwrap_or(&path))?;
        if !self.rules.has_node(place.node) {
            let why = format!("node {} is not connected to this replica", place.node);
            let status = StatusCode::MISDIRECTED_REQUEST;
            return Err(CallError::new(status, "NodeNotConnected", why));
        }
        let client = head.headers.remove(CLIENT_HEADER);
        let client = client.and_then(|client| client.to_str().ok()?.parse().ok());
        let client = client.unwrap_or_else(|| client_of(&head));
        let (call, _room) = self.read(place, client, head, body).await?;
        self.rules.call(call).await
    }
}
