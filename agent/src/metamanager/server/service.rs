//! Requests on their way in: to what the API says of itself, to reads, to writes.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full};
use kubeapi::{Body, BoxError, Unread, gather};
use tower::Service;
use tracing::debug;
use wire::application::{SelfReview, Verb};

use super::{
    super::answer::{Refusal, object, refusal},
    access::{Access, Caller},
    ask::{Away, Cloud, Failure},
    copies::{Copies, resource},
    kinds::Kinds,
    kubelet::LateKubelet,
    list::Lists,
    local::Local,
    loopback::LocalClients,
    reviews::{self, identity},
    room::Room,
    route::{Ask, Route, route},
    watches::Kept,
    write::given,
};

/// The largest body taken; the API server's limit.
const LIMIT: usize = 3 * 1024 * 1024;

/// Finds out who asks, and what they may.
#[derive(Clone)]
pub(super) enum Authenticator {
    /// Certificates of the cloud's CA and tokens of service accounts.
    Accounts(Arc<Access>),
    /// Programs of this machine.
    Local(Arc<LocalClients>),
    /// The agent's own rooms, which ask in process.
    Agent,
}

/// The service; cheap to clone.
#[derive(Clone)]
pub(super) struct ApiServer {
    /// Who may ask what; `None`: nobody anything.
    pub(super) authenticator: Option<Authenticator>,
    pub(super) cloud: Cloud,
    pub(super) copies: Copies,
    pub(super) kinds: Kinds,
    pub(super) kubelet: LateKubelet,
    pub(super) kept: Kept,
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

impl Authenticator {
    async fn authenticate(&self, parts: &Parts) -> Result<Caller, Refusal> {
        match self {
            Self::Accounts(access) => access.caller(parts).await,
            Self::Local(clients) => clients.authenticate(parts).map(|()| Caller::Owner),
            Self::Agent => Ok(Caller::Owner),
        }
    }

    /// Whether MetaServer lets the caller do this with objects.
    pub(super) async fn authorize(&self, caller: &Caller, ask: &Ask) -> Result<(), Refusal> {
        match self {
            Self::Accounts(access) => {
                access.check(caller, ask).await?;
                if ask.is_session() && ask.verb == Verb::Get {
                    // a GET that becomes a WebSocket does as much as a POST
                    access.check(caller, &Ask { verb: Verb::Create, ..ask.clone() }).await?;
                }
                Ok(())
            }
            Self::Local(clients) => clients.authorize(ask),
            Self::Agent => Ok(()),
        }
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
        // who has not said who they are may ask nothing, as in Kubernetes
        if let Some(review) = SelfReview::of(&ask.target).filter(|_| caller != Caller::Anonymous) {
            reviews::check(&ask)?;
            let question = given(&parts.headers, &read(body).await?)?;
            let about = (parts, self.cloud.node());
            let answer = reviews::answer(review, authenticator, &caller, about, &question).await?;
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

    /// What the API says of itself. What is not known here, as an aggregated API, the cloud may know.
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

/// JSON as it came.
pub(super) fn raw(code: StatusCode, json: Vec<u8>) -> Response<Body> {
    let body = Full::new(Bytes::from(json)).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The same answer with a warning that clients print: it is as this node last knew it.
pub(super) fn last_known(mut answer: Response<Body>, away: Away) -> Response<Body> {
    let text = format!("299 - \"{}; this is what this node holds\"", away.why());
    if let Ok(value) = HeaderValue::from_str(&text) {
        answer.headers_mut().append(header::WARNING, value);
    }
    answer
}

async fn read<B>(body: B) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<BoxError>,
{
    gather(body, LIMIT).await.map_err(|unread| match unread {
        Unread::TooLarge(limit) => Refusal::too_large(limit),
        late @ Unread::Late(_) => Refusal::late(&late.to_string()),
        broken @ Unread::Broken(_) => Refusal::bad_request(&broken.to_string()),
    })
}
