//! An HTTPS server that answers as a test says: a webhook, or another API server.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use e2e::TlsListener;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::runtime::Runtime;

/// A request, as the server has it.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    /// Null without one.
    pub(crate) body: Value,
}

/// A server on 127.0.0.1, until it is dropped.
pub(crate) struct HttpsServer {
    pub(crate) port: u16,
    /// The CA of its certificate, PEM in base64: a `caBundle`.
    pub(crate) ca_bundle: String,
    _runtime: Runtime,
}

impl HttpsServer {
    /// Starts a server whose certificate has these names. With `clients`, a CA in PEM, it lets only those in whose certificates are
    /// issued by it.
    pub(crate) fn start<F>(names: &[&str], clients: Option<&str>, answer: F) -> anyhow::Result<Self>
    where
        F: Fn(Asked) -> (u16, Value) + Send + Sync + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let bound = TlsListener::bind(names, clients.map(str::as_bytes));
        let TlsListener {
            listener,
            acceptor,
            port,
            ca,
        } = runtime.block_on(bound)?;
        let answer = Arc::new(answer);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer) = (acceptor.clone(), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let serve = service_fn(move |request| respond(request, Arc::clone(&answer)));
                    // a client that has its answer leaves
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), serve)
                        .await;
                });
            }
        });
        Ok(Self {
            port,
            ca_bundle: STANDARD.encode(ca),
            _runtime: runtime,
        })
    }
}

async fn respond<F>(
    request: hyper::Request<Incoming>,
    answer: Arc<F>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible>
where
    F: Fn(Asked) -> (u16, Value),
{
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.to_string(), value)
    };
    let (status, answer) = answer(Asked {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        headers: parts.headers.iter().map(header).collect(),
        body: serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default(),
    });
    let mut response = hyper::Response::new(Full::new(Bytes::from(answer.to_string())));
    *response.status_mut() = status.try_into().unwrap_or_default();
    response.headers_mut().insert(
        "content-type",
        http::HeaderValue::from_static("application/json"),
    );
    Ok(response)
}
