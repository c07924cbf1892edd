//! Calls of the servers that are targets of rules: HTTP and HTTPS, without redirects, within limits.

use std::{error::Error, sync::OnceLock, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kubeapi::gather;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;
use wire::bus::MAX_BODY;

use super::{
    addresses::{self, Resolver},
    via::Via,
};

/// The time for connecting to a target.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for a call of a target; KubeEdge's.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The header with the message's id, by which a target recognizes repetitions.
const REQUEST_ID_HEADER: &str = "x-request-id";
/// The header with the node of a message.
const NODE_HEADER: &str = "x-kubeedge-node";

type HttpClient = Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>;

/// A call of a target.
#[derive(Clone, Debug)]
pub(super) struct TargetCall {
    pub(super) url: Uri,
    pub(super) method: Method,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
    pub(super) id: String,
    pub(super) node: String,
}

/// The answer of a target.
#[derive(Debug)]
pub(super) struct TargetAnswer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// The client for targets.
#[derive(Debug)]
pub(super) struct Targets {
    /// This cloud's name in `Via`.
    via: Via,
    /// The HTTP client, created with the first call: it reads the machine's trusted CAs.
    client: OnceLock<HttpClient>,
}

impl Targets {
    pub(super) fn new(via: Via) -> Self {
        Self {
            via,
            client: OnceLock::new(),
        }
    }

    /// Returns this cloud's name in `Via`.
    pub(super) fn via(&self) -> &Via {
        &self.via
    }

    /// Calls a target; the error is for people.
    pub(super) async fn call(&self, call: TargetCall) -> Result<TargetAnswer, String> {
        let url = call.url.clone();
        if addresses::has_refused(&url) {
            return Err(format!(
                "{url} cannot be called: {}",
                addresses::METADATA_REFUSED
            ));
        }
        let request = request(call, self.via.value())
            .map_err(|error| format!("{url} cannot be called: {error}"))?;
        let asking = async {
            let response = self.client.get_or_init(client).request(request).await;
            let response =
                response.map_err(|error| format!("{url} cannot be called: {}", causes(&error)))?;
            let (head, body) = response.into_parts();
            let body = gather(body, MAX_BODY).await;
            let body =
                body.map_err(|unread| format!("the answer of {url} is not relayed: {unread}"))?;
            Ok(TargetAnswer {
                status: head.status,
                headers: head.headers,
                body,
            })
        };
        timeout(CALL_TIMEOUT, asking)
            .await
            .unwrap_or_else(|_| Err(format!("{url} did not answer within {CALL_TIMEOUT:?}")))
    }
}

fn request(call: TargetCall, via: HeaderValue) -> Result<Request<Full<Bytes>>, http::Error> {
    let id =
        HeaderValue::from_str(&call.id).unwrap_or_else(|_| HeaderValue::from_static("unknown"));
    Request::builder()
        .method(call.method)
        .uri(call.url)
        .header(header::CONTENT_TYPE, call.content_type)
        .header(header::VIA, via)
        .header(
            header::USER_AGENT,
            concat!("cloudsim/", env!("CARGO_PKG_VERSION")),
        )
        .header(REQUEST_ID_HEADER, id)
        .header(NODE_HEADER, call.node)
        .body(Full::new(call.body))
}

fn client() -> HttpClient {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "cannot load some CA certificates of this machine; calls to targets that use them will fail");
    }
    roots.add_parsable_certificates(found.certs);
    let tls = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connector = HttpConnector::new_with_resolver(Resolver::new());
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(limits::KEEPALIVE_IDLE));
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_timer(TokioTimer::new())
        .build(connector)
}

/// Formats an error with its causes.
fn causes(error: &(dyn Error + 'static)) -> String {
    std::iter::successors(Some(error), |&error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
