//! The HTTP service: dispatches requests to discovery, reads and writes.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use clock::Instant;
use http::{Request, Response, StatusCode, request::Parts};
use kubeapi::{Body, BoxError, ReadBodyError, gather};
use tower::Service;
use tracing::debug;
use wire::application::{SelfReview, Verb};

use super::{
    super::response::{ApiError, error_response, object_response},
    access::Caller,
    authenticator::Authenticator,
    cloud::{CallError, Cloud},
    copies::Copies,
    eviction::CollectionUsage,
    json::{object_of, raw_response},
    keys::resource,
    kinds::Kinds,
    kubelet::LateKubelet,
    list::CollectionLister,
    local::LocalApi,
    operations::{LateOperations, Operation},
    reviews::{self, identity},
    route::{Route, route},
    watches::ClientWatches,
};

/// The largest request body, bytes; the API server's limit.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// The service; cheap to clone.
#[derive(Clone)]
pub(super) struct ApiServer {
    /// Authenticates callers; `None` refuses all.
    pub(super) authenticator: Option<Authenticator>,
    pub(super) cloud: Cloud,
    pub(super) copies: Copies,
    pub(super) kinds: Kinds,
    pub(super) kubelet: LateKubelet,
    pub(super) watches: ClientWatches,
    pub(super) lists: CollectionLister,
    pub(super) local: LocalApi,
    pub(super) usage: CollectionUsage,
    pub(super) operations: LateOperations,
}

impl<B> Service<Request<B>> for ApiServer
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            Ok(this
                .handle(&parts, body)
                .await
                .unwrap_or_else(|error| error_response(&error)))
        })
    }
}

impl ApiServer {
    async fn handle<B>(&self, parts: &Parts, body: B) -> Result<Response<Body>, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let authenticator = self
            .authenticator
            .as_ref()
            .ok_or_else(ApiError::unauthorized)?;
        let caller = authenticator.authenticate(parts).await?;
        if Operation::is_at(&parts.method, parts.uri.path()) {
            let parsed = Operation::parse(parts.uri.path(), &read_body(body).await?);
            let operation = parsed.ok_or_else(ApiError::path_not_found)?;
            let operation = operation.map_err(|why| ApiError::bad_request(&why))?;
            authenticator
                .authorize(&caller, &operation.as_request())
                .await?;
            return self.operations.answer(&operation).await;
        }
        let request = match route(&parts.method, &parts.uri) {
            Route::Objects(request) => request,
            Route::Discovery => return self.discovery(parts).await,
            Route::Refused(why) => return Err(ApiError::method_not_allowed(why)),
            Route::Unknown => return Err(ApiError::path_not_found()),
        };
        // anonymous callers are refused, as by default in Kubernetes
        if let Some(review) =
            SelfReview::of(&request.target).filter(|_| caller != Caller::Anonymous)
        {
            reviews::check(&request)?;
            let question = object_of(&parts.headers, &read_body(body).await?)?;
            let node = self.cloud.node();
            let answer =
                reviews::answer(review, authenticator, &caller, parts, node, &question).await?;
            return Ok(object_response(StatusCode::CREATED, &answer));
        }
        authenticator.authorize(&caller, &request).await?;
        debug!(verb = request.verb.as_str(), target = %request.target, part = request.part, "MetaServer request received");
        if request.is_stream() {
            return self
                .stream(
                    &request,
                    parts,
                    identity(authenticator, &caller, parts, self.cloud.node()),
                )
                .await;
        }
        self.usage
            .record_use(resource(&request.target), Instant::now());
        match request.verb {
            Verb::Get => self.get(&request, parts).await,
            Verb::List => self.list(&request, parts).await,
            Verb::Watch => self.watch(&request, parts).await,
            Verb::Create | Verb::Update | Verb::UpdateStatus | Verb::Patch | Verb::Delete => {
                self.write(&request, parts, read_body(body).await?).await
            }
        }
    }

    /// Answers discovery. What is not known here, such as an aggregated API, the cloud may know.
    async fn discovery(&self, parts: &Parts) -> Result<Response<Body>, ApiError> {
        self.kinds.refresh(self.cloud.link()).await;
        let answer = self.local.answer(parts).await;
        if answer.status() != StatusCode::NOT_FOUND {
            return Ok(answer);
        }
        match self.cloud.get_path(parts.uri.path()).await {
            Ok(text) => Ok(raw_response(StatusCode::OK, text)),
            Err(CallError::Refused(refusal)) => Err(refusal),
            Err(CallError::Unavailable(_)) => Ok(answer),
        }
    }
}

async fn read_body<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    gather(body, MAX_BODY_BYTES)
        .await
        .map_err(|unread| match unread {
            ReadBodyError::TooLarge(limit) => ApiError::too_large(limit),
            late @ ReadBodyError::Timeout(_) => ApiError::request_timeout(&late.to_string()),
            broken @ ReadBodyError::Broken(_) => ApiError::bad_request(&broken.to_string()),
        })
}
