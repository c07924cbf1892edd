//! The three servers of the kit: HTTPS, CloudHub, stream tunnel.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::task::TaskTracker;
use wire::{
    enroll::{CA_PATH, EDGE_CERT_PATH, NODE_NAME_HEADER, Usage, verify_bearer},
    tunnel, websocket,
};

use super::{
    hub,
    state::{Cloud, Enrolment},
};
use crate::peer::tunnel::Tunnel;

/// The largest request, bytes: KubeEdge's limit.
const MAX_REQUEST: usize = 1024 * 1024;
/// Connections at a time; one edge needs three.
const MAX_CONNECTIONS: usize = 64;
/// How long a handshake may take.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(30);
/// The lifetime of an edge's certificate.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// What a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// CA and certificates.
    Https,
    /// Sessions.
    Hub,
    /// Stream tunnels.
    Tunnel,
}

/// Accepts connections until it is dropped.
pub(super) async fn serve(
    service: Service,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    cloud: Arc<Cloud>,
    connections: TaskTracker,
) {
    let acceptor = TlsAcceptor::from(tls);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        // more are refused: nobody but the tested edge is expected
        if connections.len() >= MAX_CONNECTIONS {
            continue;
        }
        let (acceptor, cloud) = (acceptor.clone(), cloud.clone());
        connections.spawn(async move {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE_DEADLINE, acceptor.accept(stream)).await {
                match service {
                    Service::Hub => hub::serve(cloud, stream).await,
                    Service::Https | Service::Tunnel => serve_http(service, cloud, stream).await,
                }
            }
        });
    }
}

async fn serve_http(service: Service, cloud: Arc<Cloud>, stream: TlsStream<TcpStream>) {
    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
    let answer = service_fn(|request: Request<Incoming>| {
        let cloud = cloud.clone();
        async move {
            Ok::<_, Infallible>(match service {
                Service::Tunnel => open_tunnel(&cloud, request),
                _ => enrol(&cloud, request, has_certificate).await,
            })
        }
    });
    hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades()
        .await
        .ok();
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}

async fn enrol(
    cloud: &Cloud,
    request: Request<Incoming>,
    has_certificate: bool,
) -> Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    if path == CA_PATH {
        cloud.change(|state| state.ca_requests += 1);
        return text(StatusCode::OK, cloud.ca.cert_der().to_vec());
    }
    if let Some(name) = path.strip_prefix("/node/") {
        let known = cloud
            .state
            .lock()
            .objects
            .contains_key(&format!("null/node/{name}"));
        let status = if known {
            StatusCode::OK
        } else {
            StatusCode::NOT_FOUND
        };
        return text(status, "");
    }
    if path != EDGE_CERT_PATH {
        return text(StatusCode::NOT_FOUND, "no such path");
    }
    let of = |name: &str| {
        let value = request.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let bearer =
        of("authorization").and_then(|value| Some(value.strip_prefix("Bearer ")?.to_owned()));
    let node = of(NODE_NAME_HEADER).unwrap_or_default();
    let body = Limited::new(request.into_body(), MAX_REQUEST)
        .collect()
        .await;
    let Ok(body) = body else {
        return text(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
    };
    let csr = body.to_bytes().to_vec();
    cloud.change(|state| {
        state.enrolments.push(Enrolment {
            bearer: bearer.clone(),
            node,
            csr: csr.clone(),
        });
    });
    let now = SystemTime::now();
    let token = verify_bearer(bearer.as_deref().unwrap_or_default(), &cloud.ca, now);
    if !has_certificate && token.is_err() {
        return text(StatusCode::UNAUTHORIZED, "token validation failure");
    }
    let usages = [Usage::ClientAuth];
    match cloud.ca.sign_edge(&csr, &usages, CERTIFICATE_LIFETIME, now) {
        Ok(certificate) => text(StatusCode::OK, certificate),
        Err(error) => text(StatusCode::BAD_REQUEST, error.to_string()),
    }
}

fn open_tunnel(cloud: &Arc<Cloud>, mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
    let key = key
        .and_then(|key| key.to_str().ok())
        .map(websocket::accept_key);
    let Some(key) = key.filter(|_| request.uri().path() == tunnel::PATH) else {
        return text(
            StatusCode::BAD_REQUEST,
            "a WebSocket upgrade of the tunnel is expected",
        );
    };
    let mut headers = BTreeMap::new();
    for (name, value) in request.headers() {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        headers.insert(name.as_str().to_owned(), value);
    }
    let (upgrade, cloud) = (hyper::upgrade::on(&mut request), cloud.clone());
    tokio::spawn(async move {
        if let Ok(stream) = upgrade.await {
            let tunnel = Tunnel::new(stream, websocket::Role::Server);
            cloud.change(|state| state.tunnel = Some((headers, tunnel)));
        }
    });
    let response = Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, key)
        .body(Full::default());
    response.unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, ""))
}
