//! Accepts connections, reads requests and upgrades.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn, upgrade::OnUpgrade};
use hyper_util::rt::{TokioIo, TokioTimer};
use limits::{ShareLimits, Shares};
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tracing::debug;
use wire::{tunnel, websocket};

use super::{Caller, Cloud, MAX_REQUEST, Opened, Refusal, text};
use crate::Service;

/// Connections to one server at a time; more are closed.
const MAX_CONNECTIONS: usize = 1024;
/// Connections of one address.
const MAX_OF_ADDRESS: usize = 256;
/// The largest head of a request, bytes.
const MAX_HEAD: usize = 64 * 1024;
/// How long a handshake or the reading of a request may take.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// Accepts connections until it is dropped, which ends the connections, too.
pub(super) async fn serve<C: Cloud>(
    service: Service,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    cloud: Arc<C>,
) {
    let acceptor = TlsAcceptor::from(tls);
    let mut connections = JoinSet::new();
    let shares = Shares::new(ShareLimits {
        all: MAX_CONNECTIONS,
        each: MAX_OF_ADDRESS,
    });
    loop {
        let accepted = clock::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, address)) = accepted else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(share) = shares.admit(address.ip()) else {
            debug!(?service, %address, "connection closed: too many connections");
            continue;
        };
        let (acceptor, cloud) = (acceptor.clone(), cloud.clone());
        connections.spawn(async move {
            let _share = share;
            match timeout(REQUEST_DEADLINE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => connection(service, cloud, stream, address).await,
                Ok(Err(error)) => debug!(?service, %address, %error, "TLS handshake failed"),
                Err(_) => debug!(?service, %address, "TLS handshake timed out"),
            }
        });
    }
}

/// An upgrade that was accepted, and what is needed after it.
type Pending<A> = Mutex<Option<(OnUpgrade, Request<()>, A)>>;

async fn connection<C: Cloud>(
    service: Service,
    cloud: Arc<C>,
    stream: TlsStream<TcpStream>,
    address: SocketAddr,
) {
    let chain = stream.get_ref().1.peer_certificates();
    let first = chain.and_then(|chain| chain.first());
    let caller = Caller {
        address,
        certificate: first.map(|certificate| certificate.to_vec()),
    };
    let pending = Pending::<C::Accepted>::default();
    let service_of_requests = service_fn(|request: Request<Incoming>| {
        let (cloud, caller, pending) = (&cloud, &caller, &pending);
        async move {
            let answer = match service {
                Service::Https => answer(&**cloud, request, caller).await,
                Service::Hub | Service::Tunnel => {
                    accept(&**cloud, service, request, (caller, pending)).await
                }
            };
            match answer {
                Ok(answer) | Err(Refusal::Answer(answer)) => Ok(answer.map(Full::new)),
                Err(Refusal::Close) => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
            }
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_DEADLINE)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service_of_requests)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        debug!(?service, %address, %error, "connection closed before a request was answered");
        return;
    }
    let Some((upgrade, request, accepted)) = pending.into_inner() else {
        return;
    };
    match upgrade.await {
        Ok(stream) => {
            let opened = Opened {
                request,
                caller,
                accepted,
                stream: TokioIo::new(stream),
            };
            Box::pin(cloud.serve(service, opened)).await;
        }
        Err(error) => debug!(?service, %address, %error, "WebSocket upgrade failed"),
    }
}

async fn answer<C: Cloud>(
    cloud: &C,
    request: Request<Incoming>,
    caller: &Caller,
) -> Result<Response<Bytes>, Refusal> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, MAX_REQUEST).collect();
    let (status, why) = match timeout(REQUEST_DEADLINE, body).await {
        Ok(Ok(body)) => {
            let request = Request::from_parts(head, body.to_bytes());
            return cloud.answer(request, caller).await;
        }
        Ok(Err(_)) => (StatusCode::PAYLOAD_TOO_LARGE, "the request is too large"),
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the request is too slow"),
    };
    Ok(text(status, why))
}

async fn accept<C: Cloud>(
    cloud: &C,
    service: Service,
    mut request: Request<Incoming>,
    (caller, pending): (&Caller, &Pending<C::Accepted>),
) -> Result<Response<Bytes>, Refusal> {
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
    let key = key.and_then(|key| key.to_str().ok());
    let accept_key = key.and_then(|key| HeaderValue::try_from(websocket::accept_key(key)).ok());
    let is_place = service != Service::Tunnel || request.uri().path() == tunnel::PATH;
    let Some(accept_key) = accept_key.filter(|_| is_place) else {
        let why = "a WebSocket upgrade is expected";
        return Ok(text(StatusCode::BAD_REQUEST, why));
    };
    let upgrade = hyper::upgrade::on(&mut request);
    let request = request.map(drop);
    let (mut headers, accepted) = cloud.accept(service, &request, caller).await?;
    for (name, value) in [
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_ACCEPT, accept_key),
    ] {
        headers.insert(name, value);
    }
    *pending.lock() = Some((upgrade, request, accepted));
    let mut answer = text(StatusCode::SWITCHING_PROTOCOLS, Bytes::new());
    *answer.headers_mut() = headers;
    Ok(answer)
}
