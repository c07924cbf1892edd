//! Wraps the service for one connection: counts its requests, and enforces each client's share.

use std::{
    convert::Infallible,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
use limits::{ActiveRequest, ConnectionSlot};
use parking_lot::Mutex;
use tower::Service;

use super::{
    body::{self, PendingWrites},
    peer::{PeerAddress, PeerCertificate},
    share::{self, Client, Shares},
};
use crate::{Body, Identity, request::body::text, streams::Tasks};

/// The state that all requests of a connection share.
pub(super) struct Connection {
    pub(super) slot: ConnectionSlot,
    pub(super) address: IpAddr,
    /// The client's identity by its certificate.
    pub(super) identity: Option<(Identity, PeerCertificate)>,
    pub(super) shares: Shares,
    pub(super) writing: PendingWrites,
    /// The number of the next response.
    pub(super) answers: AtomicU64,
    /// The slot of an upgraded connection, which is freed with it.
    pub(super) upgraded: Mutex<Option<(ActiveRequest, share::Request)>>,
    /// The tasks of upgraded connections.
    pub(super) tasks: Tasks,
}

/// The service; cheap to clone.
#[derive(Clone)]
pub(super) struct TrackedService<S> {
    pub(super) inner: S,
    pub(super) connection: Arc<Connection>,
}

impl<S> Service<Request<Incoming>> for TrackedService<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        let connection = self.connection.clone();
        if let Some((identity, certificate)) = &connection.identity {
            request.extensions_mut().insert(identity.clone());
            request.extensions_mut().insert(certificate.clone());
        }
        request
            .extensions_mut()
            .insert(PeerAddress(connection.address));
        request.extensions_mut().insert(connection.tasks.clone());
        // the one that was asked whether it is ready
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(async move {
            let identity = connection.identity.as_ref().map(|(identity, _)| identity);
            let is_master = identity.is_some_and(Identity::is_master);
            let Ok(active) = connection.slot.begin(is_master) else {
                return Ok(too_many());
            };
            let client = Client::of(identity, connection.address);
            let Ok(mut share) = connection.shares.begin(client, is_master).await else {
                return Ok(too_many());
            };
            let response = inner.call(request).await?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                if share.answer(None).is_err() {
                    // the connection is not handed over, which ends what was begun
                    return Ok(too_many());
                }
                // kept as long as there are bytes of the connection
                *connection.upgraded.lock() = Some((active, share));
                return Ok(response);
            }
            let size = response
                .body()
                .size_hint()
                .exact()
                .and_then(|size| usize::try_from(size).ok());
            if share.answer(size).is_err() {
                return Ok(too_many());
            }
            let number = connection.answers.fetch_add(1, Ordering::Relaxed);
            let writing = connection.writing.clone();
            Ok(response.map(|inner| body::wrap_body(inner, number, writing, active, share)))
        })
    }
}

/// Returns the 429 response, with the API server's text.
fn too_many() -> Response<Body> {
    let mut response = text("Too many requests, please try again later.\n".to_owned());
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
