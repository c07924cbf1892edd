//! The router's REST listener, CloudCore's 9443: `/<node>/<namespace>/<path>[/suffix]` leads through a rule to a node.
//!
//! On the loopback interface it is plain HTTP for everybody on this machine, as CloudCore's is for anybody at all. On others it is HTTPS,
//! and callers need a bearer token ([`auth`]). Calls that a rule of this cloud has made are refused, to prevent loops. Refusals are JSON:
//! `{"code": 404, "reason": "RuleNotFound", "message": "…"}`.

mod auth;
mod body;
mod forward;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use kubeapi::{
    Body,
    hosts::{HostError, Hosts, Scheme},
    serve::{BindError, Handler, HandlerService, PeerAddress, Server},
};
use serde_json::json;
use wire::{bus::MAX_BODY, enroll::is_node_name};

pub(crate) use self::auth::Auth;
use self::body::{BodyMemory, BodyPermit, Limits};
use crate::{
    controllers::rules::{Call, CallAnswer, CallError, Rules},
    peers::Peers,
    pki::{self, PkiError, ServerIdentity},
};

/// The options of the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterOptions {
    /// The port; 0 for any free one.
    pub port: u16,
    /// Whether callers from other machines need no token.
    pub anonymous: bool,
}

/// The router cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// The TLS keys cannot be used.
    #[error(transparent)]
    Keys(#[from] PkiError),
    /// The port is in use or not allowed.
    #[error("the router cannot listen; choose another port with --router-port")]
    Bind(#[from] BindError),
}

/// The listener as an HTTP service; cheap to clone.
#[derive(Clone)]
pub(crate) struct Router {
    rules: Rules,
    /// `None` if anybody may call.
    auth: Option<Auth>,
    memory: BodyMemory,
    /// The other replicas; `None` if there are none that this one reaches.
    peers: Option<Peers>,
    /// On the loopback interface, the accepted `Host` names, so that web pages in browsers cannot call.
    hosts: Option<Hosts>,
}

impl Router {
    /// Listens on `address`; callers from other machines are authenticated by `auth`, unless that is switched off.
    pub(crate) async fn bind(
        address: SocketAddr,
        anonymous: bool,
        (rules, peers): (Rules, Option<Peers>),
        auth: Auth,
        identity: &ServerIdentity,
    ) -> Result<Server<HandlerService<Self>>, RouterError> {
        let is_local = address.ip().is_loopback();
        let auth = Some(auth).filter(|_| !is_local && !anonymous);
        let tls = if is_local {
            None
        } else {
            Some(pki::api_tls(identity)?)
        };
        let hosts = is_local.then(|| Hosts::new(Vec::new(), Scheme::Http));
        let router = Self {
            auth,
            peers,
            hosts,
            ..Self::unchecked(rules)
        };
        Ok(Server::bind(address, tls, HandlerService(router)).await?)
    }

    /// Creates a service that checks no callers and forwards nothing.
    pub(crate) fn unchecked(rules: Rules) -> Self {
        Self {
            rules,
            auth: None,
            peers: None,
            memory: BodyMemory::new(Limits::default()),
            hosts: None,
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<CallAnswer, CallError> {
        let (mut head, body) = request.into_parts();
        if let Some(hosts) = &self.hosts {
            let ours = hosts.check(&head.uri, &head.headers);
            ours.map_err(|HostError { code, why }| CallError::new(code, "NotOurs", why))?;
        }
        if self.rules.via().is_in(&head.headers) {
            let why = "a rule of this cloud has sent this; rules may not lead to the router, where they would go round without an end";
            return Err(CallError::new(
                StatusCode::LOOP_DETECTED,
                "LoopDetected",
                why,
            ));
        }
        let path = head.uri.path().to_owned();
        let place = RequestPath::parse(&path)?;
        if let Some(auth) = &self.auth {
            let rule = self.rules.rule_for(place.namespace, place.path);
            auth.permit(&head.headers, place.namespace, rule.as_deref())
                .await?;
            // the token is for the cloud, and must not reach a service on a node
            head.headers.remove(header::AUTHORIZATION);
        }
        let client = client_of(&head);
        let (call, _room) = self.read(place, client, head, body).await?;
        match &self.peers {
            Some(peers) if !self.rules.has_node(&call.node) => {
                forward::call(peers, &self.rules, call, client).await
            }
            _ => self.rules.call(call).await,
        }
    }

    /// Reads the body of a call. The permit is to be kept until the call has ended.
    async fn read(
        &self,
        place: RequestPath<'_>,
        client: IpAddr,
        head: Parts,
        body: Incoming,
    ) -> Result<(Call, BodyPermit), CallError> {
        let length = head.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let length = length.or_else(|| body.is_end_stream().then_some(0));
        if length.is_some_and(|length| length > MAX_BODY) {
            // whoever asks first is told before anything is sent
            if !head.headers.contains_key(header::EXPECT) {
                body::discard(body);
            }
            return Err(body::too_large());
        }
        let (body, room) = self.memory.read(client, body, length).await?;
        let call = Call {
            node: place.node.to_owned(),
            namespace: place.namespace.to_owned(),
            path: place.path.to_owned(),
            query: head.uri.query().map(str::to_owned),
            method: head.method,
            headers: head.headers,
            body,
        };
        Ok((call, room))
    }
}

/// Returns the address of the client.
fn client_of(head: &Parts) -> IpAddr {
    let client = head.extensions.get::<PeerAddress>();
    client.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |PeerAddress(address)| {
        *address
    })
}

/// The parsed path of a request.
#[derive(Debug, PartialEq)]
struct RequestPath<'a> {
    node: &'a str,
    namespace: &'a str,
    path: &'a str,
}

impl<'a> RequestPath<'a> {
    fn parse(path: &'a str) -> Result<Self, CallError> {
        let mut parts = path.strip_prefix('/').unwrap_or(path).splitn(3, '/');
        let (node, namespace, path) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        );
        if is_node_name(node) && !namespace.is_empty() && !path.is_empty() {
            return Ok(Self {
                node,
                namespace,
                path,
            });
        }
        let why = "no rule has this path; call /NODE/NAMESPACE/PATH with the path of a rule, which `cloudsim rules` lists";
        Err(CallError::new(StatusCode::NOT_FOUND, "RuleNotFound", why))
    }
}

impl Handler for Router {
    async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        self.answer(request).await.map_or_else(refusal, response)
    }
}

fn response(answer: CallAnswer) -> Response<Body> {
    let mut response = Response::new(body(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

fn refusal(error: CallError) -> Response<Body> {
    let CallError {
        status,
        reason,
        why,
    } = error;
    let text = json!({"code": status.as_u16(), "reason": reason, "message": why});
    let mut response = Response::new(body(format!("{text}\n").into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn body(bytes: Bytes) -> Body {
    Full::new(bytes)
        .map_err(|never| match never {})
        .boxed_unsync()
}

#[cfg(test)]
mod tests;
