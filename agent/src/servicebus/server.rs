//! The server for programs of this machine: they may call the URLs of the cloud that a rule has registered, and no others.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use componentbase::Backoff;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kubeapi::{
    Body,
    hosts::{HostError, Hosts, Scheme},
    serve::{ClientLimits, Server, ServerLimits},
};
use limits::ConnectionLimits;
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem, pem::PemObject};
use tokio::{sync::watch, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Error,
    body::{BodyWithPermit, LargeBodyLimiter, ReadError},
    call::CallError,
    local,
    metrics::ServiceBusMetrics,
    targets::Targets,
};
use crate::{
    config::CertificateFiles,
    edgehub::{EdgeHub, Unreachable},
};

/// How long the body of a request may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The waits between two attempts to listen.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// Answers the requests of programs.
#[derive(Debug)]
pub(super) struct RequestHandler {
    pub(super) targets: Targets,
    pub(super) hub: EdgeHub,
    pub(super) timeout: Duration,
    pub(super) metrics: Arc<ServiceBusMetrics>,
    pub(super) large: LargeBodyLimiter,
    pub(super) address: SocketAddr,
}

/// Builds the TLS configuration with the certificate of these files, without client certificates.
fn tls(files: &CertificateFiles) -> Result<ServerConfig, Error> {
    let failed = |path: &std::path::Path| {
        let path = path.to_owned();
        move |source: pem::Error| Error::File {
            path,
            source: Box::new(source),
        }
    };
    let certificates = CertificateDer::pem_file_iter(&files.cert).map_err(failed(&files.cert))?;
    let chain = certificates
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed(&files.cert))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(failed(&files.key))?;
    ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| Error::Unfit(Box::new(error)))
}

/// Serves until `shutdown`; a port that is taken, or a certificate that cannot be read, is tried again.
pub(super) async fn run(
    handler: Arc<RequestHandler>,
    certificate: Option<&CertificateFiles>,
    listens: &watch::Sender<Option<SocketAddr>>,
    shutdown: CancellationToken,
) {
    let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
    let mut is_failure_logged = false;
    loop {
        match bind(handler.clone(), certificate).await {
            Ok(server) => {
                listens.send_replace(Some(server.local_addr()));
                info!(address = %server.local_addr(), "ServiceBus listening");
                server.run(shutdown).await;
                return;
            }
            Err(error) => {
                if !is_failure_logged {
                    let error = &error as &dyn std::error::Error;
                    warn!(
                        error,
                        "failed to start ServiceBus (modules.serviceBus); retrying"
                    );
                }
                is_failure_logged = true;
                tokio::time::sleep(backoff.next(clock::rng().random())).await;
            }
        }
    }
}

async fn bind(
    handler: Arc<RequestHandler>,
    certificate: Option<&CertificateFiles>,
) -> Result<
    Server<
        impl tower::Service<
            Request<Incoming>,
            Response = Response<Body>,
            Error = Infallible,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static,
    >,
    Error,
> {
    let tls = certificate.map(tls).transpose()?;
    let scheme = if tls.is_some() {
        Scheme::Https
    } else {
        Scheme::Http
    };
    // an address of the network has unknown host names
    let hosts = handler
        .address
        .ip()
        .is_loopback()
        .then(|| Hosts::new(Vec::new(), scheme));
    let (address, limits) = (handler.address, limits(handler.timeout));
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let (handler, hosts) = (handler.clone(), hosts.clone());
        async move { Ok::<_, Infallible>(handler.serve(request, hosts.as_ref()).await) }
    });
    Ok(Server::bind(address, tls, service).await?.limits(limits))
}

/// Returns the limits: programs of one machine are few, and each of their requests waits for the cloud.
fn limits(timeout: Duration) -> ServerLimits {
    let usual = ServerLimits::default();
    ServerLimits {
        connections: ConnectionLimits {
            established: 256,
            reserved: 8,
            pending: 64,
            per_address: 256,
        },
        client: ClientLimits {
            requests: 64,
            queue: timeout.min(Duration::from_secs(10)),
            ..usual.client
        },
        ..usual
    }
}

impl RequestHandler {
    async fn serve(&self, request: Request<Incoming>, hosts: Option<&Hosts>) -> Response<Body> {
        let (status, told) = match self.answer(request, hosts).await {
            Ok(answered) => answered,
            Err(refused) => (refused.status, local::error_body(&refused)),
        };
        self.metrics.local(status);
        let body = Full::new(Bytes::from(told.to_string()))
            .map_err(|never| match never {})
            .boxed_unsync();
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        response
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        hosts: Option<&Hosts>,
    ) -> Result<(StatusCode, serde_json::Value), CallError> {
        if let Some(HostError { code, why }) =
            hosts.and_then(|hosts| hosts.check(request.uri(), request.headers()).err())
        {
            return Err(CallError::new(
                code,
                format!("{why}; use a loopback address"),
            ));
        }
        if request.method() != Method::POST {
            let why =
                "only POST is possible here; the request's body contains the method of the call";
            return Err(CallError::new(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        let read = timeout(BODY_TIMEOUT, self.large.read(request.into_body())).await;
        let read = read.map_err(|_| {
            CallError::new(
                StatusCode::REQUEST_TIMEOUT,
                format!("the request did not arrive within {BODY_TIMEOUT:?}"),
            )
        })?;
        // the permit is returned when the cloud has answered
        let BodyWithPermit {
            bytes,
            permit: _place,
        } = read.map_err(|unread| {
            let status = match unread {
                ReadError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
                ReadError::Broken(_) => StatusCode::BAD_REQUEST,
            };
            CallError::new(status, format!("cannot read the request: {unread}"))
        })?;
        let url = local::target(&bytes)?;
        if !self.targets.has(&url) {
            return Err(local::not_registered(&url));
        }
        let message = local::upload(url, &bytes).into_message(clock::unix_millis());
        drop(bytes);
        match self.hub.request(message, self.timeout).await {
            Ok(answer) => local::answer(answer),
            Err(Unreachable::Timeout(patience)) => {
                let why = format!(
                    "the cloud did not answer within {patience:?} (modules.serviceBus.timeout)"
                );
                Err(CallError::new(StatusCode::GATEWAY_TIMEOUT, why))
            }
            Err(unreachable @ (Unreachable::Offline | Unreachable::Superseded)) => {
                Err(CallError::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    format!("{unreachable}; call again when it is"),
                ))
            }
        }
    }
}
