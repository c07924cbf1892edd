//! The router's REST listener, CloudCore's 9443: `/<node>/<namespace>/<path>[/suffix]` leads through a rule to a node.
//!
//! On the loopback interface it is plain HTTP for anybody on this machine, as CloudCore's is for anybody at all. Beyond, it is HTTPS, and
//! a caller shows a bearer token ([`auth`]). Refusals are JSON: `{"code": 404, "reason": "RuleNotFound", "message": "…"}`.

mod auth;

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use kubeapi::{
    Body, gather,
    hosts::{Hosts, NotOurs, Scheme},
    serve::{BindError, Server},
};
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tower::Service;
use wire::{bus::MAX_BODY, enroll::is_node_name};

pub(crate) use self::auth::Auth;
use crate::{
    controllers::rules::{Call, CallAnswer, CallError, Rules},
    pki::{self, PkiError, ServerIdentity},
};

/// Kilobytes of the bodies of all calls that are under way.
const BODIES: usize = 256 * 1024;
/// How long a call waits for others to make room for its body.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);

/// What the listener is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterOptions {
    /// The port; 0 for any.
    pub port: u16,
    /// Beyond the loopback interface, callers need no token.
    pub anonymous: bool,
}

/// Why it does not start.
#[derive(Debug, thiserror::Error)]
pub enum NoRouter {
    /// No keys.
    #[error(transparent)]
    Keys(#[from] PkiError),
    /// The port is taken or not allowed.
    #[error("the router cannot listen; change it with --router-port")]
    Bind(#[from] BindError),
}

/// The listener as a service; cheap to clone.
#[derive(Clone)]
pub(crate) struct Router {
    rules: Rules,
    /// Nothing where anybody may call.
    auth: Option<Auth>,
    bodies: Arc<Semaphore>,
    /// Where everybody on this machine may call: the names by which it is called, so that pages of browsers may not.
    hosts: Option<Hosts>,
}

impl Router {
    /// Listens at `address`; whoever calls from elsewhere is asked `auth`, unless that is switched off.
    pub(crate) async fn bind(
        address: SocketAddr,
        anonymous: bool,
        rules: Rules,
        (auth, identity): (Auth, &ServerIdentity),
    ) -> Result<Server<Self>, NoRouter> {
        let is_local = address.ip().is_loopback();
        let auth = Some(auth).filter(|_| !is_local && !anonymous);
        let tls = if is_local { None } else { Some(pki::api_tls(identity)?) };
        let hosts = is_local.then(|| Hosts::new(Vec::new(), Scheme::Http));
        let bodies = Arc::new(Semaphore::new(BODIES));
        Ok(Server::bind(address, tls, Self { rules, auth, bodies, hosts }).await?)
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<CallAnswer, CallError> {
        let (mut head, body) = request.into_parts();
        if let Some(hosts) = &self.hosts {
            let ours = hosts.check(&head.uri, &head.headers);
            ours.map_err(|NotOurs { code, why }| CallError::new(code, "NotOurs", why))?;
        }
        let place = Place::parse(head.uri.path())?;
        if let Some(auth) = &self.auth {
            let rule = self.rules.rule_for(place.namespace, place.path);
            auth.permit(&head.headers, place.namespace, rule.as_deref()).await?;
            // it is for the cloud, and no service at a node is to see it
            head.headers.remove(header::AUTHORIZATION);
        }
        let length = head.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let length = length.unwrap_or(if body.is_end_stream() { 0 } else { MAX_BODY });
        if length > MAX_BODY {
            return Err(unread(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the body is larger than {MAX_BODY} bytes"),
            ));
        }
        // kept until the call has ended
        let _room = self.room(length).await?;
        let body = gather(body, MAX_BODY).await.map_err(|error| unread(error.code(), error.to_string()))?;
        let call = Call {
            node: place.node.to_owned(),
            namespace: place.namespace.to_owned(),
            path: place.path.to_owned(),
            query: head.uri.query().map(str::to_owned),
            method: head.method,
            headers: head.headers,
            body,
        };
        self.rules.call(call).await
    }

    /// Room for a body of `length` bytes.
    async fn room(&self, length: usize) -> Result<OwnedSemaphorePermit, CallError> {
        let weight = u32::try_from(length / 1024 + 1).unwrap_or(u32::MAX);
        match timeout(ROOM_TIMEOUT, Arc::clone(&self.bodies).acquire_many_owned(weight)).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) | Err(_) => {
                let why = "the calls that are under way take all the room there is; try again later";
                Err(CallError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyCalls", why))
            }
        }
    }
}

fn unread(status: StatusCode, why: String) -> CallError {
    let reason = if status == StatusCode::PAYLOAD_TOO_LARGE { "BodyTooLarge" } else { "BodyUnread" };
    CallError::new(status, reason, why)
}

/// Where a request goes.
#[derive(Debug, PartialEq)]
struct Place<'a> {
    node: &'a str,
    namespace: &'a str,
    path: &'a str,
}

impl<'a> Place<'a> {
    fn parse(path: &'a str) -> Result<Self, CallError> {
        let mut parts = path.strip_prefix('/').unwrap_or(path).splitn(3, '/');
        let (node, namespace, path) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        if is_node_name(node) && !namespace.is_empty() && !path.is_empty() {
            return Ok(Self { node, namespace, path });
        }
        let why = "a request goes to /NODE/NAMESPACE/PATH, where PATH is that of a rule";
        Err(CallError::new(StatusCode::NOT_FOUND, "RuleNotFound", why))
    }
}

impl Service<Request<Incoming>> for Router {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move { Ok(this.answer(request).await.map_or_else(refusal, response)) })
    }
}

fn response(answer: CallAnswer) -> Response<Body> {
    let mut response = Response::new(body(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

fn refusal(error: CallError) -> Response<Body> {
    let CallError { status, reason, why } = error;
    let text = json!({"code": status.as_u16(), "reason": reason, "message": why});
    let mut response = Response::new(body(text.to_string().into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn body(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

#[cfg(test)]
mod tests;
