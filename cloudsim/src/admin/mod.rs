//! The administrators' API for what is not Kubernetes': sessions of nodes, faults, tokens. It is served below `/cloudsim/v1/` on the
//! API's port.
//!
//! | request | what |
//! |---|---|
//! | `GET nodes` | the sessions of nodes |
//! | `GET messages` | what the cloud and its nodes send to each other, as lines of a recording: those so far, then new ones |
//! | `GET snapshot` | the whole state of the cloud and of its nodes, with keys and Secrets; only for `system:masters` |
//! | `GET why/pods/NAMESPACE/NAME`, `GET why/devices/NAMESPACE/NAME`, `GET why/nodes/NAME` | the steps of an object, and the first missing one |
//! | `POST login` | creates a login link to the page for the caller |
//! | `GET mesh` | the nodes at the relay, their paths to others, and the traffic between them |
//! | `GET faults` | all injected faults |
//! | `POST faults/NODE`, `POST faults/all` | adds a fault of a link, or of all that have none of their own |
//! | `PUT faults/NODE`, `PUT faults/all` | the same, in the place of all others of that target |
//! | `DELETE faults/NODE/ID`, `DELETE faults/all/ID` | removes one fault |
//! | `DELETE faults/NODE`, `DELETE faults/all`, `DELETE faults` | removes all of a target; the last also false certificates and answers |
//! | `PUT certificate` | `{"certificate": NAME}`: what the servers for nodes show |
//! | `PUT answers` | `{"answers": NAME}`: how the enrolment server answers |
//! | `POST reset/NODE` | revokes the node's certificates and ends its session: its name is free for a join token |
//! | `POST reset` | the same for all names whose records were lost with a damaged database |
//! | `POST tokens` | `{"node": NAME, "seconds": N, "uses": N}`, each optional: a join token, and whether the name is held until a reset |
//! | `POST rules/NODE` | `{"to": PLACE, "body": TEXT}`: sends a message through the rule with that source; returns the result |
//! | `POST hostile/NODE` | `{"shape": NAME}`: sends a message that no cloud should send |
//!
//! Members of `system:masters` may send all requests. Other users may send those that RBAC allows for these paths. Every user may
//! log in to the page, and send `why`, which reads objects with the permissions of its caller.

mod access;
mod api;
mod request;
mod snapshot;
mod why;

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use kubeapi::{Body, Identity, gather, serve::Handler};
use record::WindowReader;
use serde_json::{Value, json};
use tokio::time::{Interval, interval};
use tracing::info;

pub(crate) use self::api::{ClusterApi, UserApi};
use self::request::{AdminRequest, Command, Refusal, RuleMessage, parse_request};
use crate::{
    controllers::rules::Rules,
    faults::{Certificate, Faults},
    page::{Page, SessionId, Visitor, authority, is_valid},
    pki::{JoinTokenError, JoinTokens, Name, Trust},
    sessions::Sessions,
    snapshot::TakeSnapshot,
};

/// The path prefix.
pub const PREFIX: &str = "/cloudsim/v1/";
/// How the names of nodes' users begin.
const NODE_USER: &str = "system:node:";
/// The path with which any caller gets a login link.
const LOGIN: &str = "/cloudsim/v1/login";
/// How often it is checked whether a reader may still read.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The largest body, bytes.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The API as an HTTP service; cheap to clone.
#[derive(Clone)]
pub(crate) struct Admin {
    faults: Faults,
    sessions: Sessions,
    trust: Trust,
    tokens: JoinTokens,
    client: Client,
    rules: Rules,
    invalid_tokens: access::InvalidTokens,
    /// The live page; `None` if it is off.
    page: Option<Page>,
    snapshots: Option<Arc<dyn TakeSnapshot>>,
}

/// The answer to a request.
enum Answer {
    Value(Value),
    /// Lines that follow each other without an end.
    Lines(Body),
}

/// A caller that reads messages.
struct Reading {
    reader: WindowReader,
    checks: Interval,
    client: Client,
    page: Page,
    caller: Visitor,
    /// The session of the page, if the page reads.
    session: Option<SessionId>,
    path: String,
}

impl Reading {
    /// Returns the next lines; `None` when the caller may no longer read them.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            clock::select! {
                // cancel-safe: a tick that is not seen comes again
                _ = self.checks.tick() => {}
                // cancel-safe: lines are taken only when this arm wins
                lines = self.reader.next() => return lines,
            }
            if !self.is_admitted().await {
                return None;
            }
        }
    }

    async fn is_admitted(&self) -> bool {
        let is_known = match &self.session {
            Some(session) => self.page.visitor(session, &self.client).await.is_some(),
            None => is_valid(&self.client, &self.caller).await,
        };
        let request = (&Method::GET, self.path.as_str());
        let admitted = access::admit(&self.client, &self.caller.identity, request);
        is_known && admitted.await.is_ok()
    }
}

impl Admin {
    /// Creates the service over these parts of a cloud.
    pub(crate) fn new(
        faults: &Faults,
        sessions: &Sessions,
        trust: &Trust,
        tokens: &JoinTokens,
        client: &Client,
        rules: &Rules,
    ) -> Self {
        let (faults, sessions, client) = (faults.clone(), sessions.clone(), client.clone());
        let rules = rules.clone();
        Self {
            faults,
            sessions,
            trust: trust.clone(),
            tokens: tokens.clone(),
            client,
            rules,
            invalid_tokens: access::InvalidTokens::default(),
            page: None,
            snapshots: None,
        }
    }

    /// Adds the live page.
    pub(crate) fn with_page(self, page: Option<Page>) -> Self {
        Self { page, ..self }
    }

    /// Adds what takes snapshots.
    pub(crate) fn with_snapshots(self, snapshots: Option<Arc<dyn TakeSnapshot>>) -> Self {
        Self { snapshots, ..self }
    }

    async fn answer(&self, api: &UserApi, request: Request<Incoming>) -> Result<Answer, Refusal> {
        let (parts, body) = request.into_parts();
        let caller = access::caller(&self.client, &self.invalid_tokens, &parts).await?;
        if let Some(path) = parts.uri.path().strip_prefix(why::PREFIX) {
            let object = why::parse(&parts.method, path)?;
            let client = api
                .client_for(caller.clone(), &parts.headers, object.namespace())
                .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
            return Ok(Answer::Value(self.explain(&client, caller, object).await?));
        }
        // whoever may use the API may log in to the page as the same user
        if parts.uri.path() != LOGIN {
            let request = (&parts.method, parts.uri.path());
            access::admit(&self.client, &caller, request).await?;
        } else {
            // a session that begins another one would have no end, and no token that is checked
            let is_session = parts.extensions.get::<SessionId>().is_some();
            let why = match caller.user.starts_with(NODE_USER) {
                true => Some("nodes cannot log in to the page"),
                false => is_session.then_some("a page session cannot create login links"),
            };
            if let Some(why) = why {
                return Err((StatusCode::FORBIDDEN, why.to_owned()));
            }
        }
        let body = gather(body, MAX_BODY_BYTES)
            .await
            .map_err(|unread| (unread.code(), unread.to_string()))?;
        let path = parts.uri.path().strip_prefix(PREFIX).unwrap_or_default();
        let value = match parse_request(&parts.method, path, &body)? {
            AdminRequest::Nodes => json!({"nodes": self.sessions.list()}),
            AdminRequest::Mesh => json!(self.sessions.relays().state()),
            AdminRequest::Faults => json!(self.faults.active()),
            AdminRequest::Messages => {
                return Ok(Answer::Lines(self.messages(caller, &parts)?));
            }
            AdminRequest::Snapshot => {
                let taken = snapshot::take(self.snapshots.clone(), &caller).await?;
                return Ok(Answer::Lines(taken));
            }
            AdminRequest::Login => {
                let link = self
                    .page()?
                    .login_link(Visitor::new(caller, &parts.headers));
                let url = format!(
                    "https://{}{}",
                    authority(&parts).unwrap_or_default(),
                    link.path
                );
                json!({"url": url, "seconds": link.lifetime.as_secs()})
            }
            AdminRequest::Command(order) => {
                info!(order = order.as_str(), "administrator request executed");
                self.carry_out(order).await?
            }
        };
        Ok(Answer::Value(value))
    }

    fn page(&self) -> Result<&Page, Refusal> {
        let off = "the page is off; start the cloud with --ui";
        (self.page.as_ref()).ok_or_else(|| (StatusCode::NOT_FOUND, off.to_owned()))
    }

    /// Returns the messages as a body that ends with the connection, or when the caller may no longer read them.
    fn messages(&self, caller: Identity, parts: &Parts) -> Result<Body, Refusal> {
        let page = self.page()?;
        let reading = Reading {
            reader: page.messages(),
            checks: interval(CHECK_INTERVAL),
            client: self.client.clone(),
            page: page.clone(),
            caller: Visitor::new(caller, &parts.headers),
            session: parts.extensions.get().cloned(),
            path: parts.uri.path().to_owned(),
        };
        let lines = stream::unfold(reading, async |mut reading| {
            let lines = reading.next().await?;
            Some((Ok::<_, Infallible>(Frame::data(lines.into())), reading))
        });
        let body = StreamBody::new(lines).map_err(|never| match never {});
        Ok(body.boxed_unsync())
    }

    async fn carry_out(&self, order: Command) -> Result<Value, Refusal> {
        match order {
            Command::Set(whom, conditions) => {
                let set = self.faults.set(&whom, *conditions);
                set.map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
            }
            Command::Add(whom, conditions) => {
                let added = self.faults.add(&whom, *conditions);
                added.map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
            }
            Command::Remove(whom, id) => {
                if !self.faults.remove(&whom, id) {
                    let why = format!("{whom} has no fault with the id {id}");
                    return Err((StatusCode::NOT_FOUND, why));
                }
            }
            Command::Clear(Some(whom)) => self.faults.clear(&whom),
            Command::Clear(None) => self.faults.clear_everything(),
            Command::Hostile(node, shape) => {
                let sent = self.faults.send_hostile(&node, shape).await;
                sent.map_err(|error| (StatusCode::CONFLICT, error.to_string()))?;
            }
            Command::Message(node, message) => return self.send(&node, message).await,
            Command::Answers(answers) => self.faults.set_answers(answers),
            Command::Reset(node) => return self.reset(&node).await,
            Command::ResetLost => {
                let lost = self.trust.certificates().reset_lost().await;
                let lost =
                    lost.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
                return Ok(json!({"lost": lost}));
            }
            Command::Token(request) => {
                let made = self.tokens.mint(self.trust.authority(), &request).await;
                let made = made.map_err(|error| match error {
                    JoinTokenError::Asked(why) => (StatusCode::UNPROCESSABLE_ENTITY, why),
                    error => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
                })?;
                let held = match &request.node {
                    Some(node) => self.is_held(node).await?,
                    None => false,
                };
                return Ok(json!({"token": made, "held": held}));
            }
            Command::Certificate(certificate) => {
                self.faults.set_certificate(certificate);
                if certificate == Certificate::RotatedAuthority {
                    let token = self.trust.token();
                    let token = token
                        .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
                    let mut active = json!(self.faults.active());
                    active["token"] = token.into();
                    return Ok(active);
                }
            }
        }
        Ok(json!(self.faults.active()))
    }
}

impl Admin {
    /// Sends a message through a rule; returns the result.
    async fn send(&self, node: &str, message: RuleMessage) -> Result<Value, Refusal> {
        let answer = self
            .rules
            .send_by_hand(node, &message.to, message.body.into())
            .await;
        let answer = answer.map_err(|error| (error.status, error.why))?;
        let body = String::from_utf8_lossy(&answer.body);
        Ok(json!({"status": answer.status.as_u16(), "body": body}))
    }

    /// Reports whether a join token gives no certificate for the node's name before it is reset.
    async fn is_held(&self, node: &str) -> Result<bool, Refusal> {
        let (authority, grace) = (self.trust.authority().cert_der(), self.trust.grace());
        let known = self.trust.certificates().name(node, authority, grace).await;
        let known =
            known.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        Ok(matches!(known, Name::Held | Name::Lost))
    }

    /// Revokes the node's certificates; refused if there is no such node, which is most probably a wrong name.
    async fn reset(&self, node: &str) -> Result<Value, Refusal> {
        let failed =
            |error: &dyn std::error::Error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
        let certificates = self.trust.certificates();
        let has_any = certificates
            .has_any(node)
            .await
            .map_err(|error| failed(&error))?;
        if !has_any && !self.sessions.has(node) {
            let found = Api::<Node>::all(self.client.clone()).get_opt(node).await;
            if found.map_err(|error| failed(&error))?.is_none() {
                let why =
                    format!("this cloud has no node {node}; `cloudsim nodes` lists all nodes");
                return Err((StatusCode::NOT_FOUND, why));
            }
        }
        let reset = certificates
            .reset(node)
            .await
            .map_err(|error| failed(&error))?;
        self.sessions.end(node);
        Ok(json!({"node": node, "reset": reset}))
    }
}

/// The Kubernetes API with the administrators' API and the page beside it.
#[derive(Clone)]
pub(crate) struct ApiWithAdmin {
    pub(crate) api: UserApi,
    pub(crate) admin: Admin,
}

impl Handler for ApiWithAdmin {
    async fn handle(mut self, request: Request<Incoming>) -> Response<Body> {
        let mut request = request;
        if matches!(self.api, UserApi::Cluster(_)) {
            // the certificates of this cloud's nodes identify nobody to the cluster
            request.extensions_mut().remove::<Identity>();
        }
        if let Some(page) = &self.admin.page {
            let (mut parts, body) = request.into_parts();
            let path = parts.uri.path();
            if path.starts_with(ui::PREFIX) || path == ui::PREFIX.trim_end_matches('/') {
                return page.answer(&parts);
            }
            page.authenticate(&mut parts, &self.admin.client).await;
            request = Request::from_parts(parts, body);
        }
        if !request.uri().path().starts_with(PREFIX) {
            return self.api.call(request).await;
        }
        match self.admin.answer(&self.api, request).await {
            Ok(Answer::Value(value)) => response(StatusCode::OK, &value),
            Ok(Answer::Lines(body)) => with_type(body, "application/x-ndjson"),
            Err((code, why)) => response(code, &refusal(code, &why)),
        }
    }
}

/// Returns a refusal in the API's format, which its clients can read.
fn refusal(code: StatusCode, why: &str) -> Value {
    let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": why, "reason": reason, "code": code.as_u16(),
    })
}

fn response(code: StatusCode, value: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(value.to_string()))
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut response = with_type(body, "application/json");
    *response.status_mut() = code;
    response
}

fn with_type(body: Body, content_type: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static(content_type);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
