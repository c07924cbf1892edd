//! The service between EdgeD's client and the store: requests that concern the cloud are sent there, all others to the store.
//!
//! Sent to the cloud are reads of a ConfigMap or Secret that is not stored, and requests for persistent volumes and claims,
//! leases, tokens and events. While the cloud is not connected they are answered 503 at once, but for volumes, claims and
//! tokens, of which the last known state is returned.

mod classify;
pub(super) mod events;
mod leases;
mod lookup;
mod pods;
mod repair;
mod tokens;

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use componentbase::PodsComplete;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use kube::client::Body as ClientBody;
use kubeapi::{ApiService, Body};
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};
use tower::Service;
use wire::{Answer, Down, Downstream, Message, Upstream};

use self::classify::{RemoteRequest, classify};
pub(super) use self::tokens::{resource as token_resource, stored_token};
use super::{
    desired::Desired,
    response::{ApiError, error_response, object_response},
};
use crate::{
    edgehub::{EdgeHub, Unreachable},
    outbox::Item,
};

/// How long the cloud may take before it is asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The largest request body, bytes; the API server's limit.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// The service; cheap to clone.
#[derive(Clone)]
pub(super) struct Remote {
    local: ApiService,
    desired: Desired,
    hub: EdgeHub,
    pods_complete: PodsComplete,
    config: Config,
}

/// The queue and the timeout for requests to the cloud.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// The queue of events for the cloud.
    pub(super) events: mpsc::Sender<Box<Item>>,
    /// How long the cloud may take to answer.
    pub(super) timeout: Duration,
}

impl Remote {
    pub(super) fn new(
        local: ApiService,
        desired: Desired,
        hub: EdgeHub,
        pods_complete: PodsComplete,
        config: Config,
    ) -> Self {
        Self {
            local,
            desired,
            hub,
            pods_complete,
            config,
        }
    }

    /// Returns the cloud's answer with its message. The request is repeated until the timeout, because CloudCore drops requests
    /// that it cannot handle, as while it starts.
    async fn request(&self, request: Upstream) -> Result<(Answer, Message), ApiError> {
        let end = Instant::now() + self.config.timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self
                .hub
                .request(
                    request.clone().into_message(clock::unix_millis()),
                    RETRY_INTERVAL.min(left),
                )
                .await
            {
                Err(Unreachable::Timeout(_)) if left > RETRY_INTERVAL => {}
                Err(Unreachable::Timeout(_)) => {
                    return parse_answer(Err(Unreachable::Timeout(self.config.timeout)));
                }
                answer => return parse_answer(answer),
            }
        }
    }

    /// Sends a request once, for callers that retry by themselves.
    async fn request_once(&self, request: Upstream) -> Result<(Answer, Message), ApiError> {
        parse_answer(
            self.hub
                .request(
                    request.into_message(clock::unix_millis()),
                    RETRY_INTERVAL.min(self.config.timeout),
                )
                .await,
        )
    }

    async fn handle(
        &self,
        remote_request: RemoteRequest,
        request: Request<ClientBody>,
    ) -> Result<Response<Body>, ApiError> {
        match remote_request {
            RemoteRequest::StoreFirst(kind, namespace, name) => {
                self.store_first(kind, &namespace, &name).await
            }
            RemoteRequest::CloudFirst(kind, namespace, name) => {
                self.cloud_first(kind, &namespace, &name).await
            }
            RemoteRequest::Lease(name) => {
                let method = request.method().clone();
                self.lease(&method, &name, body(request).await?).await
            }
            RemoteRequest::Token(namespace, account) => {
                self.token(&namespace, &account, body(request).await?).await
            }
            RemoteRequest::Event(namespace) => {
                self.send_event(&namespace, body(request).await?).await
            }
            RemoteRequest::PatchEvent(namespace, name) => {
                self.send_event_patch(&namespace, &name, body(request).await?)
                    .await
            }
            RemoteRequest::Pod(namespace, name) => self.pod(&namespace, &name, request).await,
            RemoteRequest::DeletePod(namespace, name) => {
                self.delete_pod(&namespace, &name, request).await
            }
        }
    }
}

fn parse_answer(answer: Result<Message, Unreachable>) -> Result<(Answer, Message), ApiError> {
    let message = answer.map_err(|error| ApiError::unavailable(&error.to_string()))?;
    match Down::from(message.clone()).body {
        Downstream::Answer { answer, .. } => Ok((answer, message)),
        _ => Err(ApiError::bad_gateway(
            "the cloud's answer is of another kind than the request",
        )),
    }
}

/// Reads the object in a request's body.
async fn body(request: Request<ClientBody>) -> Result<Value, ApiError> {
    let bytes: Bytes = match Limited::new(request.into_body(), MAX_BODY_BYTES)
        .collect()
        .await
    {
        Ok(collected) => collected.to_bytes(),
        Err(error) => {
            return Err(ApiError::bad_request(&format!(
                "cannot read the body: {error}"
            )));
        }
    };
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiError::bad_request(&format!("the body is not JSON: {error}")))
}

impl Service<Request<ClientBody>> for Remote {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ClientBody>) -> Self::Future {
        let Some(remote_request) = classify(request.method(), request.uri()) else {
            return self.local.call(request);
        };
        let this = self.clone();
        Box::pin(async move {
            Ok(this
                .handle(remote_request, request)
                .await
                .unwrap_or_else(|error| error_response(&error)))
        })
    }
}

/// Returns the response with the object: 201 for a POST, 200 for all others.
fn success(method: &Method, value: &Value) -> Response<Body> {
    object_response(
        if method == Method::POST {
            http::StatusCode::CREATED
        } else {
            http::StatusCode::OK
        },
        value,
    )
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use objectstore::MemoryStore;
    use wire::ResourceType;

    use super::*;
    use crate::{edgehub::fake_cloud::fake_cloud, metamanager::pods_complete::CompletenessTracker};

    #[tokio::test(start_paused = true)]
    async fn a_request_to_a_silent_cloud_is_repeated_until_the_timeout() {
        for (seconds, times) in [(3, 1), (25, 3), (60, 6)] {
            let api = kubeapi::Api::builder(MemoryStore::new()).build();
            let desired = Desired::new(MemoryStore::new(), "edge-1".into());
            let (hub, _inbound, mut line) = fake_cloud();
            let (_, pods_complete) = CompletenessTracker::new(desired.clone(), hub.link());
            let limit = Duration::from_secs(seconds);
            let config = Config {
                events: mpsc::channel(1).0,
                timeout: limit,
            };
            let remote = Remote::new(api.service(), desired, hub, pods_complete, config);
            line.up();
            let begun = Instant::now();
            let refusal = remote
                .store_first(ResourceType::ConfigMap, "ns", "settings")
                .await
                .unwrap_err();
            assert_eq!(begun.elapsed().as_secs(), seconds);
            assert!(refusal.is_unavailable(), "{refusal:?}");
            let asked = std::iter::from_fn(|| line.next().now_or_never()).count();
            assert_eq!(asked, times, "{seconds} s");
        }
    }
}
