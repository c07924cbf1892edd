//! The HTTPS endpoints by which a machine becomes a node: the CA's certificate, a certificate of its own, and whether a node
//! of its name exists.
//!
//! Source: KubeEdge's CloudHub HTTP server (`/ca.crt`, `/edge.crt`, `/node/{name}`). One difference: the node name in the
//! header must be the certificate request's, also where a token is shown; otherwise a token's holder could become any node.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use kubeapi::{Body, Identity, Unread, gather};
use tower::Service;
use tracing::{debug, info, warn};
use wire::enroll::{
    CA_PATH, EDGE_CERT_PATH, EXT_KEY_USAGES_HEADER, NODE_IS_CONNECTED, NODE_NAME_HEADER, Usage, identity_of,
    is_node_name, verify_bearer,
};

use crate::{
    controllers::sync::SyncRecords,
    faults::{Faults, false_body},
    hub::Sessions,
    pki::Trust,
};

/// CloudCore's limit of a certificate request, bytes.
const CSR_LIMIT: usize = 1024 * 1024;
/// How long a node's certificate is good for; CloudCore's `edgeCertSigningDuration`.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// What the subject of a node's certificate says before its name.
const NODE_USER: &str = "system:node:";
const NODES: &str = "system:nodes";

/// The endpoints as a service; cheap to clone.
#[derive(Clone)]
pub(crate) struct Enrolment {
    trust: Trust,
    client: Client,
    faults: Faults,
    records: SyncRecords,
    sessions: Sessions,
}

/// By what a machine was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    /// The certificate that it renews.
    Certificate,
    /// A join token: it may never have been here before.
    Token,
}

/// A refusal: status and text, as CloudCore gives them.
type Refusal = (StatusCode, String);

impl Enrolment {
    /// Certificates of the authority that counts; nodes are looked up through `client`. `faults` may put other answers in the place
    /// of the true ones. `sessions` hears of machines that show a token.
    pub(crate) fn new(trust: Trust, client: Client, faults: Faults, sessions: Sessions) -> Self {
        let records = SyncRecords::new(client.clone());
        Self { trust, client, faults, records, sessions }
    }

    async fn answer(&self, parts: &Parts, body: Incoming) -> Result<Vec<u8>, Refusal> {
        let path = parts.uri.path();
        if parts.method != Method::GET {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET is served here".to_owned()));
        }
        match path {
            CA_PATH => Ok(self.trust.authority().cert_der().to_vec()),
            EDGE_CERT_PATH => self.sign(parts, body).await,
            _ => match path.strip_prefix("/node/") {
                Some(name) if is_node_name(name) => self.node(name).await,
                _ => Err((StatusCode::NOT_FOUND, format!("there is nothing at {path}"))),
            },
        }
    }

    async fn sign(&self, parts: &Parts, body: Incoming) -> Result<Vec<u8>, Refusal> {
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let refused = |why: String| (StatusCode::BAD_REQUEST, why);
        let name = header(NODE_NAME_HEADER).unwrap_or_default();
        if !is_node_name(name) {
            return Err(refused(format!("the header NodeName says {name:?}, which no node can be called")));
        }
        let proof = self.authenticate(parts, name)?;
        let usages =
            Usage::parse_header(header(EXT_KEY_USAGES_HEADER)).map_err(|error| refused(error.to_string()))?;
        let unreadable = |unread: Unread| (unread.code(), format!("the certificate request: {unread}"));
        let csr = gather(body, CSR_LIMIT).await.map_err(unreadable)?;
        let signed = self.trust.authority().sign_edge(&csr, &usages, VALIDITY, SystemTime::now());
        let signed = signed.map_err(|error| refused(error.to_string()))?;
        match identity_of(&signed) {
            Ok(wire::enroll::Identity::Node(subject)) if subject == name => {
                if proof == Proof::Token {
                    self.begins_anew(name, &signed).await?;
                }
                info!(node = name, "enrolled: a certificate was issued");
                Ok(signed)
            }
            other => Err(refused(format!(
                "the certificate request is for {other:?}, the header NodeName says {name:?}"
            ))),
        }
    }

    /// This machine may hold nothing of what was sent to the node of its name before.
    async fn begins_anew(&self, name: &str, certificate: &[u8]) -> Result<(), Refusal> {
        let doubted = self.records.doubt(name).await;
        doubted.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        self.sessions.beginners().add(name, certificate);
        Ok(())
    }

    /// A verified certificate of the same node (it renews), or a join token.
    fn authenticate(&self, parts: &Parts, name: &str) -> Result<Proof, Refusal> {
        let unauthorized = |why: String| (StatusCode::UNAUTHORIZED, why);
        if let Some(identity) = parts.extensions.get::<Identity>() {
            let is_node = identity.groups.iter().any(|group| group == NODES);
            if is_node && identity.user.strip_prefix(NODE_USER) == Some(name) {
                return Ok(Proof::Certificate);
            }
            return Err(unauthorized(format!(
                "the certificate shown is {}'s and not node {name}'s",
                identity.user
            )));
        }
        let value = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = value.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default().trim();
        if token.is_empty() {
            return Err(unauthorized("token validation failure, token is empty".to_owned()));
        }
        verify_bearer(token, self.trust.authority(), SystemTime::now())
            .map_err(|error| unauthorized(format!("token validation failure: {error}")))?;
        Ok(Proof::Token)
    }

    /// Whether there is such a node. One that is connected is there, also while its object is being made anew.
    async fn node(&self, name: &str) -> Result<Vec<u8>, Refusal> {
        if self.sessions.has(name) {
            return Ok(NODE_IS_CONNECTED.as_bytes().to_vec());
        }
        match Api::<Node>::all(self.client.clone()).get_opt(name).await {
            Ok(Some(_)) => Ok(Vec::new()),
            Ok(None) => Err((StatusCode::NOT_FOUND, format!("node {name} does not exist"))),
            Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        }
    }
}

impl Service<Request<Incoming>> for Enrolment {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            if let Some(parts) = false_body(this.faults.answers()) {
                return Ok(Response::new(StreamBody::new(parts).boxed_unsync()));
            }
            let (parts, body) = request.into_parts();
            let (status, bytes) = match this.answer(&parts, body).await {
                Ok(bytes) => (StatusCode::OK, Bytes::from(bytes)),
                Err((status, why)) => {
                    // a machine that is about to join asks whether its name is free
                    if status == StatusCode::NOT_FOUND {
                        debug!(path = parts.uri.path(), why, "there is no such thing");
                    } else {
                        warn!(path = parts.uri.path(), %status, why, "enrolment refused");
                    }
                    (status, Bytes::from(why))
                }
            };
            let mut response = Response::new(Full::new(bytes).map_err(|never| match never {}).boxed_unsync());
            *response.status_mut() = status;
            Ok(response)
        })
    }
}
