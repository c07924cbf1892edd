//! The HTTP service: dispatches requests to discovery, reads and writes.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, request::Parts};
use kubeapi::{Body, BoxError, Unread, gather};
use tower::Service;
use tracing::debug;
use wire::application::{SelfReview, Verb};

use super::{
    super::answer::{Refusal, object, refusal},
    access::Caller,
    ask::{Cloud, Failure},
    authenticator::Authenticator,
    copies::Copies,
    json::{object_of, raw},
    keys::resource,
    kinds::Kinds,
    kubelet::LateKubelet,
    list::Lists,
    local::Local,
    reviews::{self, identity},
    room::Room,
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
    pub(super) kept: ClientWatches,
    pub(super) lists: Lists,
    pub(super) local: Local,
    pub(super) room: Room,
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
            Ok(this.handle(&parts, body).await.unwrap_or_else(|error| refusal(&error)))
        })
    }
}

impl ApiServer {
    async fn handle<B>(&self, parts: &Parts, body: B) -> Result<Response<Body>, Refusal>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<BoxError>,
    {
        let authenticator = self.authenticator.as_ref().ok_or_else(Refusal::unauthorized)?;
        let caller = authenticator.authenticate(parts).await?;
        let ask = match route(&parts.method, &parts.uri) {
            Route::Objects(ask) => ask,
            Route::About => return self.about(parts).await,
            Route::Refused(why) => return Err(Refusal::method_not_allowed(why)),
            Route::Unknown => return Err(Refusal::no_path()),
        };
        // anonymous callers are refused, as by default in Kubernetes
        if let Some(review) = SelfReview::of(&ask.target).filter(|_| caller != Caller::Anonymous) {
            reviews::check(&ask)?;
            let question = object_of(&parts.headers, &read(body).await?)?;
            let node = self.cloud.node();
            let answer = reviews::answer(review, authenticator, &caller, parts, node, &question).await?;
            return Ok(object(StatusCode::CREATED, &answer));
        }
        authenticator.authorize(&caller, &ask).await?;
        debug!(verb = ?ask.verb, target = %ask.target, part = ask.part, "MetaServer is asked");
        if ask.is_stream() {
            return self
                .stream(&ask, parts, identity(authenticator, &caller, parts, self.cloud.node()))
                .await;
        }
        self.room.asked(resource(&ask.target), Instant::now());
        match ask.verb {
            Verb::Get => self.get(&ask, parts).await,
            Verb::List => self.list(&ask, parts).await,
            Verb::Watch => self.watch(&ask, parts).await,
            Verb::Create | Verb::Update | Verb::UpdateStatus | Verb::Patch | Verb::Delete => {
                self.write(&ask, parts, read(body).await?).await
            }
        }
    }

    /// Answers discovery. What is not known here, such as an aggregated API, the cloud may know.
    async fn about(&self, parts: &Parts) -> Result<Response<Body>, Refusal> {
        self.kinds.refresh(self.cloud.link()).await;
        let answer = self.local.answer(parts).await;
        if answer.status() != StatusCode::NOT_FOUND {
            return Ok(answer);
        }
        match self.cloud.path(parts.uri.path()).await {
            Ok(text) => Ok(raw(StatusCode::OK, text)),
            Err(Failure::Refused(refusal)) => Err(refusal),
            Err(Failure::Away(_)) => Ok(answer),
        }
    }
}

async fn read<B>(body: B) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    gather(body, MAX_BODY_BYTES).await.map_err(|unread| match unread {
        Unread::TooLarge(limit) => Refusal::too_large(limit),
        late @ Unread::Late(_) => Refusal::late(&late.to_string()),
        broken @ Unread::Broken(_) => Refusal::bad_request(&broken.to_string()),
    })
}
