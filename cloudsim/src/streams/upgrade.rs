//! The upgrade of one connection to a tunnel: it must be a WebSocket request of the node that the certificate names.

use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::service_fn,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use wire::{
    tunnel::{ADDRESS_HEADER, NODE_HEADER, PATH, window},
    websocket::accept_key,
};

use super::table::DialHeaders;

/// The largest head of a request, bytes.
const MAX_HEAD: usize = 16 * 1024;

/// The reason why a connection got no tunnel.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpgradeError {
    #[error("{0}")]
    Refused(String),
    #[error("the request is not a WebSocket upgrade")]
    Http(#[source] hyper::Error),
}

/// The node's headers and the upgraded connection, or why there is no tunnel.
type Decision = Result<(DialHeaders, OnUpgrade), String>;

/// Answers the request on `io`. `identity` is the node, or why the client may have no tunnel. Returns the node's headers and the
/// connection.
pub(super) async fn upgrade<T>(
    io: T,
    identity: Result<&str, &str>,
    within: Duration,
) -> Result<(DialHeaders, TokioIo<Upgraded>), UpgradeError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let decided = Arc::<Mutex<Option<Decision>>>::default();
    let identity = identity.map(str::to_owned).map_err(str::to_owned);
    let service = service_fn(|mut request: Request<Incoming>| {
        let (answer, outcome) = match check(&request, identity.as_deref().map_err(String::as_str)) {
            Ok(key) => {
                let dial_headers = dial_headers(&request);
                (
                    switching(&key, dial_headers.window),
                    Ok((dial_headers, hyper::upgrade::on(&mut request))),
                )
            }
            Err((status, why)) => (refusal(status, &why), Err(why)),
        };
        *decided.lock() = Some(outcome);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    builder
        .max_buf_size(MAX_HEAD)
        .timer(TokioTimer::new())
        .header_read_timeout(within);
    let served = builder
        .serve_connection(TokioIo::new(io), service)
        .with_upgrades()
        .await;
    let outcome = decided.lock().take();
    match outcome {
        Some(Err(why)) => Err(UpgradeError::Refused(why)),
        Some(Ok((dial_headers, upgrade))) => Ok((
            dial_headers,
            TokioIo::new(upgrade.await.map_err(UpgradeError::Http)?),
        )),
        None => Err(served.err().map_or_else(
            || UpgradeError::Refused("it asked for nothing".to_owned()),
            UpgradeError::Http,
        )),
    }
}

/// Returns the WebSocket key of a valid request; otherwise status and reason.
fn check(
    request: &Request<Incoming>,
    identity: Result<&str, &str>,
) -> Result<String, (StatusCode, String)> {
    let header = |name: &str| {
        request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    let has = |name: &str, token: &str| {
        header(name)
            .split(',')
            .any(|part| part.trim().eq_ignore_ascii_case(token))
    };
    let node = identity.map_err(|why| (StatusCode::FORBIDDEN, why.to_owned()))?;
    if request.method() != Method::GET || request.uri().path() != PATH {
        let why = format!("there is nothing but GET {PATH} here, the stream tunnel of nodes");
        return Err((StatusCode::NOT_FOUND, why));
    }
    let claimed = header(NODE_HEADER);
    if claimed != node {
        let why = format!(
            "the header {NODE_HEADER} says {claimed:?} and the certificate {node:?}; start the agent with the name in its certificate, or enrol it again"
        );
        return Err((StatusCode::FORBIDDEN, why));
    }
    let key = header(header::SEC_WEBSOCKET_KEY.as_str());
    let is_websocket = has(header::UPGRADE.as_str(), "websocket")
        && has(header::CONNECTION.as_str(), "upgrade")
        && header(header::SEC_WEBSOCKET_VERSION.as_str()) == "13";
    if !is_websocket || key.is_empty() {
        return Err((
            StatusCode::BAD_REQUEST,
            "it is no upgrade to a WebSocket of version 13".to_owned(),
        ));
    }
    Ok(key.to_owned())
}

/// Reads the node's headers; an invalid address is ignored.
fn dial_headers(request: &Request<Incoming>) -> DialHeaders {
    let headers = request.headers();
    let address = headers
        .get(ADDRESS_HEADER)
        .and_then(|value| value.to_str().ok());
    let address = address.and_then(|dial_headers| dial_headers.parse::<IpAddr>().ok());
    DialHeaders {
        address: address.map(|ip| ip.to_string()).unwrap_or_default(),
        window: window::parse_window(headers.get(window::HEADER).map(http::HeaderValue::as_bytes)),
    }
}

/// Builds the answer; a node with windows gets this cloud's window.
fn switching(key: &str, window: Option<usize>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(
        header::CONNECTION,
        http::HeaderValue::from_static("Upgrade"),
    );
    headers.insert(header::UPGRADE, http::HeaderValue::from_static("websocket"));
    if let Ok(accept) = accept_key(key).parse() {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    if window.is_some() {
        headers.insert(window::HEADER, window::WINDOW.into());
    }
    answer
}

fn refusal(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(format!("{why}\n")));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONNECTION, http::HeaderValue::from_static("close"));
    answer
}
