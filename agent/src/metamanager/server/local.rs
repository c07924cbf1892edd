//! The Kubernetes API over the copies.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Method, Request, Response, request::Parts};
use http_body_util::{BodyExt, Full};
use kubeapi::{ApiService, Body, Identity};
use serde_json::Value;
use tower::Service;

/// The API; cheap to clone. Its callers are authorized before.
#[derive(Clone, Debug)]
pub(super) struct LocalApi(ApiService);

impl LocalApi {
    pub(super) fn new(api: ApiService) -> Self {
        Self(api)
    }

    /// Answers a request without a body.
    pub(super) async fn answer(&self, parts: &Parts) -> Response<Body> {
        self.call(bodyless(parts), Identity::master()).await
    }

    /// Answers a request for a log or a session of a pod of this node by `caller`, who is authorized.
    pub(super) async fn stream(&self, parts: &Parts, caller: Identity) -> Response<Body> {
        let mut request = bodyless(parts);
        // also the connection, which is handed over at an upgrade
        *request.extensions_mut() = parts.extensions.clone();
        self.call(request, caller).await
    }

    /// Returns the answer as JSON; `null` if it is none.
    pub(super) async fn json(&self, method: &Method, path: &str) -> Value {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .body(Full::new(Bytes::new()));
        let Ok(request) = request else {
            return Value::Null;
        };
        // the size of stored objects was limited when they were stored
        match self
            .call(request, Identity::master())
            .await
            .into_body()
            .collect()
            .await
        {
            Ok(body) => serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
            Err(_) => Value::Null,
        }
    }

    async fn call(&self, mut request: Request<Full<Bytes>>, caller: Identity) -> Response<Body> {
        request.extensions_mut().insert(caller);
        let answer: Result<_, Infallible> = self.0.clone().call(request).await;
        match answer {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }
}

/// Returns the request without its body and extensions.
fn bodyless(parts: &Parts) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(Bytes::new()));
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    request
}
