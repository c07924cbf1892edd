//! Accepts connections and upgrades each to what its URL was given out for.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use clock::Instant;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn, upgrade::Upgraded};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;
use wire::websocket::accept_key;

use super::{ports, request::StreamRequest, spdy_streams, websocket};
use crate::runtime::core::Core;

/// The most connections at a time.
const MAX_CONNECTIONS: usize = 1024;
/// How long a request's head may take to arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a session may last: the time after which containerd ends idle ones.
const LONGEST: Duration = Duration::from_secs(4 * 3600);
/// The protocol of remote commands over SPDY.
const COMMAND_OVER_SPDY: &str = "v4.channel.k8s.io";
/// The protocol of port forwards over SPDY.
const PORTS_OVER_SPDY: &str = "portforward.k8s.io";

type Body = Full<Bytes>;

/// The protocol after the upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Spdy(&'static str),
    WebSocket(&'static str),
}

/// Serves until the runtime has ended.
pub(super) async fn run(listener: TcpListener, core: Weak<Core>, end: CancellationToken) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let next = async {
            let permit = Arc::clone(&permits).acquire_owned().await.ok()?;
            Some((listener.accept().await, permit))
        };
        // cancel-safe: a connection that is not accepted stays in the queue
        let accepted = clock::select! {
            () = end.cancelled() => return,
            accepted = next => accepted,
        };
        match accepted {
            None => return,
            Some((Ok((stream, _)), permit)) => {
                tokio::spawn(connection(
                    stream,
                    core.clone(),
                    end.clone(),
                    Arc::new(permit),
                ));
            }
            Some((Err(error), _)) => {
                debug!(%error, "connection to the simulated runtime's streaming server failed");
                // After an error such as too many open files, the server must not retry at once.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    core: Weak<Core>,
    end: CancellationToken,
    permit: Arc<OwnedSemaphorePermit>,
) {
    // Typed input is small and must be sent at once.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| {
        let answer = answer(request, &core, &end, &permit);
        std::future::ready(Ok::<_, std::convert::Infallible>(answer))
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = served.await {
        debug!(%error, "client of the simulated runtime's streaming server disconnected");
    }
}

fn answer(
    mut request: Request<Incoming>,
    core: &Weak<Core>,
    end: &CancellationToken,
    permit: &Arc<OwnedSemaphorePermit>,
) -> Response<Body> {
    let Some(ask) = core.upgrade().and_then(|core| find(&core, &request)) else {
        return text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    let (protocol, response) = match negotiate(request.headers(), &ask) {
        Ok(negotiated) => negotiated,
        Err(refusal) => return *refusal,
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let (core, end, permit) = (core.clone(), end.clone(), Arc::clone(permit));
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let session = timeout(LONGEST, serve(upgraded, protocol, core, ask));
        // A session without its runtime is pointless.
        clock::select! {
            () = end.cancelled() => {}
            _ = session => {}
        }
        drop(permit);
    });
    response
}

fn find(core: &Core, request: &Request<Incoming>) -> Option<StreamRequest> {
    if !matches!(*request.method(), Method::GET | Method::POST) {
        return None;
    }
    let (name, token) = request.uri().path().strip_prefix('/')?.split_once('/')?;
    let ask = core.streaming.tokens.take(token, Instant::now())?;
    (ask.name() == name).then_some(ask)
}

async fn serve(upgraded: Upgraded, protocol: Protocol, core: Weak<Core>, ask: StreamRequest) {
    let io = TokioIo::new(upgraded);
    match (protocol, ask) {
        (Protocol::Spdy(_), StreamRequest::PortForward(ask)) => {
            ports::over_spdy(io, core, ask).await
        }
        (Protocol::Spdy(_), ask) => spdy_streams::serve(io, core, ask).await,
        (Protocol::WebSocket(_), StreamRequest::PortForward(ask)) => {
            ports::over_websocket(io, core, ask).await
        }
        (Protocol::WebSocket(name), ask) => {
            Box::pin(websocket::serve(
                io,
                core,
                ask,
                name == websocket::WITH_CLOSE,
            ))
            .await
        }
    }
}

/// Chooses the protocol and returns it with the answer that names it, or else a refusal.
fn negotiate(
    headers: &HeaderMap,
    ask: &StreamRequest,
) -> Result<(Protocol, Response<Body>), Box<Response<Body>>> {
    let is_ports = matches!(ask, StreamRequest::PortForward(_));
    let upgrade = headers
        .get(header::UPGRADE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    if upgrade.eq_ignore_ascii_case(b"websocket") {
        let known = if is_ports {
            &websocket::PROTOCOLS[1..]
        } else {
            &websocket::PROTOCOLS[..]
        };
        return websocket_answer(headers, known);
    }
    if !upgrade.eq_ignore_ascii_case(b"SPDY/3.1") {
        let why = "unable to upgrade: missing upgrade headers in request";
        return Err(Box::new(text(StatusCode::BAD_REQUEST, why)));
    }
    let known = if is_ports {
        PORTS_OVER_SPDY
    } else {
        COMMAND_OVER_SPDY
    };
    let offered = header_values(headers, "x-stream-protocol-version");
    if offered.is_empty() {
        let why = "unable to upgrade: header X-Stream-Protocol-Version does not exist or is empty";
        return Err(Box::new(text(StatusCode::BAD_REQUEST, why)));
    }
    if !offered.contains(&known) {
        let mut refusal = text(
            StatusCode::FORBIDDEN,
            "unable to upgrade: unable to negotiate protocol",
        );
        refusal.headers_mut().insert(
            "x-accepted-stream-protocol-versions",
            HeaderValue::from_static(known),
        );
        return Err(Box::new(refusal));
    }
    let mut response = switching("SPDY/3.1");
    response
        .headers_mut()
        .insert("x-stream-protocol-version", HeaderValue::from_static(known));
    Ok((Protocol::Spdy(known), response))
}

fn websocket_answer(
    headers: &HeaderMap,
    known: &[&'static str],
) -> Result<(Protocol, Response<Body>), Box<Response<Body>>> {
    let key = headers
        .get(header::SEC_WEBSOCKET_KEY)
        .and_then(|key| key.to_str().ok());
    let accept = key.and_then(|key| HeaderValue::try_from(accept_key(key)).ok());
    let Some(accept) = accept else {
        return Err(Box::new(text(
            StatusCode::BAD_REQUEST,
            "missing or bad Sec-WebSocket-Key",
        )));
    };
    let offered = header_values(headers, "sec-websocket-protocol");
    let chosen = offered
        .iter()
        .find_map(|offered| known.iter().find(|known| *known == offered));
    let Some(chosen) = chosen.copied() else {
        let why = format!(
            "none of the subprotocols is known; known are {}",
            known.join(", ")
        );
        return Err(Box::new(text(StatusCode::FORBIDDEN, why)));
    };
    let mut response = switching("websocket");
    response
        .headers_mut()
        .insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    response.headers_mut().insert(
        header::SEC_WEBSOCKET_PROTOCOL,
        HeaderValue::from_static(chosen),
    );
    Ok((Protocol::WebSocket(chosen), response))
}

/// Returns the values of a header that may be repeated or be a list.
fn header_values<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|value| !value.is_empty())
        .collect()
}

fn switching(to: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    response
        .headers_mut()
        .insert(header::UPGRADE, HeaderValue::from_static(to));
    response
}

fn text(code: StatusCode, why: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::new(why.into()));
    *response.status_mut() = code;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
