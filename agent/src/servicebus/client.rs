//! The HTTP/1.1 client of local servers, over loopback, with short-lived idle connections. Redirects are not followed but
//! returned.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::sync::Notify;

use super::{
    body::{BodyWithPermit, LargeBodyLimiter, ReadError},
    call::{Answer, Call, CallError},
};

/// How long an idle connection is kept. Servers keep theirs for five seconds and more.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The most idle connections to one server.
const MAX_IDLE_CONNECTIONS: usize = 16;
/// The largest head of a response, bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// The most interim responses (1xx) before the final one.
const MAX_INTERIM_RESPONSES: usize = 16;

/// Calls local servers; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Client(legacy::Client<HttpConnector, Full<Bytes>>);

impl Client {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_keepalive(Some(limits::KEEPALIVE_IDLE));
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .pool_timer(TokioTimer::new())
            .http1_max_buf_size(MAX_HEAD_BYTES)
            .build(connector);
        Self(client)
    }

    /// Calls a server and reads the whole response; also returns the permit of a large one. The caller has a deadline.
    pub(super) async fn call(
        &self,
        call: Call,
        large: &LargeBodyLimiter,
    ) -> Result<(Answer, Option<tokio::sync::OwnedSemaphorePermit>), CallError> {
        let Call {
            port,
            method,
            uri,
            headers,
            body,
        } = call;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let too_many = notify_too_many_interim(&mut request);
        let answer = clock::select! {
            biased;
            // cancel-safe: the call ends with whichever wins
            () = too_many.notified() => {
                let why = format!("the service at port {port} gave more than {MAX_INTERIM_RESPONSES} interim answers (1xx)");
                return Err(CallError::new(StatusCode::BAD_GATEWAY, why));
            }
            answer = self.0.request(request) => answer.map_err(|error| call_error(port, &error))?,
        };
        read(port, answer, large).await
    }
}

/// Notifies when the response to this request has more interim responses than any service needs.
fn notify_too_many_interim(request: &mut Request<Full<Bytes>>) -> Arc<Notify> {
    let (count, too_many) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let tell = too_many.clone();
    hyper::ext::on_informational(request, move |_| {
        if count.fetch_add(1, Ordering::Relaxed) >= MAX_INTERIM_RESPONSES {
            tell.notify_one();
        }
    });
    too_many
}

async fn read(
    port: u16,
    answer: Response<Incoming>,
    large: &LargeBodyLimiter,
) -> Result<(Answer, Option<tokio::sync::OwnedSemaphorePermit>), CallError> {
    let (head, body) = answer.into_parts();
    if head.status.is_informational() {
        let why =
            format!("the service at port {port} wants another protocol, which cannot be handed on");
        return Err(CallError::new(StatusCode::BAD_GATEWAY, why));
    }
    match large.read(body).await {
        Ok(BodyWithPermit { bytes, permit }) => Ok((
            Answer {
                status: head.status,
                headers: head.headers,
                body: bytes,
            },
            permit,
        )),
        Err(unread @ (ReadError::TooLarge | ReadError::Broken(_))) => {
            let why =
                format!("the answer of the service at port {port} cannot be handed on: {unread}");
            Err(CallError::new(StatusCode::BAD_GATEWAY, why))
        }
    }
}

/// Converts an error of the client to one for the caller.
fn call_error(port: u16, error: &legacy::Error) -> CallError {
    if error.is_connect() {
        let why = format!(
            "nothing answers at port {port} of this node; start the service, or correct service_port"
        );
        return CallError::new(StatusCode::BAD_GATEWAY, why);
    }
    let cause =
        std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let why = format!("the service at port {port} does not answer in HTTP: {cause}");
    CallError::new(StatusCode::BAD_GATEWAY, why)
}
