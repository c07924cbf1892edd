//! The health endpoints of a replica, on a plain HTTP port: `/healthz` and `/livez` if it runs, `/readyz` if it accepts nodes and reaches
//! the cluster, and `/metrics`. Nothing of it is secret, and nothing can be changed.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use kubeapi::{Body, MetricsSource, describe::exposition::Text, serve::Handler};
use tokio::sync::watch;

/// The endpoints as an HTTP service; cheap to clone.
#[derive(Clone)]
pub(in crate::cloud) struct Health {
    ready: watch::Receiver<bool>,
    reached: watch::Receiver<bool>,
    metrics: MetricsSource,
}

impl Health {
    /// Creates the service. `ready`: nodes are accepted. `reached`: the cluster's API server answered the last call.
    pub(in crate::cloud) fn new(
        ready: watch::Receiver<bool>,
        reached: watch::Receiver<bool>,
        metrics: MetricsSource,
    ) -> Self {
        Self {
            ready,
            reached,
            metrics,
        }
    }

    /// Returns why no more nodes should connect.
    fn unready(&self) -> Option<&'static str> {
        if !*self.ready.borrow() {
            return Some("the cluster's devices and device models have not been listed yet");
        }
        let away = "the cluster's API server does not answer, or refuses Lease kubeedge/cloudsim; see the log";
        (!*self.reached.borrow()).then_some(away)
    }

    fn answer(&self, method: &Method, path: &str) -> (StatusCode, &'static str, String) {
        const PLAIN: &str = "text/plain; charset=utf-8";
        if *method != Method::GET {
            return (
                StatusCode::METHOD_NOT_ALLOWED,
                PLAIN,
                "only GET is served here".to_owned(),
            );
        }
        match path {
            "/healthz" | "/livez" => (StatusCode::OK, PLAIN, "ok".to_owned()),
            "/readyz" => match self.unready() {
                None => (StatusCode::OK, PLAIN, "ok".to_owned()),
                Some(why) => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, why.to_owned()),
            },
            "/metrics" => {
                let mut text = Text::default();
                (self.metrics)(&mut text);
                (
                    StatusCode::OK,
                    "text/plain; version=0.0.4; charset=utf-8",
                    text.into_string(),
                )
            }
            _ => (
                StatusCode::NOT_FOUND,
                PLAIN,
                "there is /healthz, /livez, /readyz and /metrics".to_owned(),
            ),
        }
    }
}

impl Handler for Health {
    async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        let (code, kind, text) = self.answer(request.method(), request.uri().path());
        let body = Full::new(Bytes::from(text))
            .map_err(|never| match never {})
            .boxed_unsync();
        let mut response = Response::new(body);
        *response.status_mut() = code;
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}
