//! The edge to servers of this machine: HTTP/1.1 over loopback, connections kept for a moment. Redirects are answers like any other:
//! nobody follows them.

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
    body::{Held, Large, Unread},
    call::{Answer, Call, Refusal},
};

/// How long a connection that is not used is kept. Servers keep theirs for five seconds and more.
const IDLE: Duration = Duration::from_secs(2);
/// Connections that are kept for one server.
const MAX_IDLE_CONNECTIONS: usize = 16;
/// The largest head of an answer that is read.
const MAX_HEAD: usize = 64 * 1024;
/// Most interim answers (1xx) before the one that counts.
const MAX_INTERIM: usize = 16;

/// Calls local servers; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Client(legacy::Client<HttpConnector, Full<Bytes>>);

impl Client {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
            .pool_timer(TokioTimer::new())
            .http1_max_buf_size(MAX_HEAD)
            .build(connector);
        Self(client)
    }

    /// Calls, and reads all of the answer; the place of a large one comes with it. Whoever calls this has a deadline.
    pub(super) async fn call(
        &self,
        call: Call,
        large: &Large,
    ) -> Result<(Answer, Option<tokio::sync::OwnedSemaphorePermit>), Refusal> {
        let Call { port, method, uri, headers, body } = call;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let too_many = interim(&mut request);
        let answer = tokio::select! {
            biased;
            // cancel-safe, both: the call ends with whichever wins
            () = too_many.notified() => {
                let why = format!("the service at port {port} gave more than {MAX_INTERIM} interim answers (1xx)");
                return Err(Refusal::new(StatusCode::BAD_GATEWAY, why));
            }
            answer = self.0.request(request) => answer.map_err(|error| failed(port, &error))?,
        };
        read(port, answer, large).await
    }
}

/// Told when the answer to this request has more interim ones in front of it than any service needs.
fn interim(request: &mut Request<Full<Bytes>>) -> Arc<Notify> {
    let (count, too_many) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let tell = too_many.clone();
    hyper::ext::on_informational(request, move |_| {
        if count.fetch_add(1, Ordering::Relaxed) >= MAX_INTERIM {
            tell.notify_one();
        }
    });
    too_many
}

async fn read(
    port: u16,
    answer: Response<Incoming>,
    large: &Large,
) -> Result<(Answer, Option<tokio::sync::OwnedSemaphorePermit>), Refusal> {
    let (head, body) = answer.into_parts();
    if head.status.is_informational() {
        let why = format!("the service at port {port} wants another protocol, which cannot be handed on");
        return Err(Refusal::new(StatusCode::BAD_GATEWAY, why));
    }
    match large.read(body).await {
        Ok(Held { bytes, place }) => {
            Ok((Answer { status: head.status, headers: head.headers, body: bytes }, place))
        }
        Err(unread @ (Unread::TooLarge | Unread::Broken(_))) => {
            let why = format!("the answer of the service at port {port} cannot be handed on: {unread}");
            Err(Refusal::new(StatusCode::BAD_GATEWAY, why))
        }
    }
}

/// What went wrong, in words for whoever called.
fn failed(port: u16, error: &legacy::Error) -> Refusal {
    if error.is_connect() {
        let why = format!(
            "nothing answers at port {port} of this node; start the service, or correct service_port"
        );
        return Refusal::new(StatusCode::BAD_GATEWAY, why);
    }
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let why = format!("the service at port {port} does not answer in HTTP: {cause}");
    Refusal::new(StatusCode::BAD_GATEWAY, why)
}
