//! The HTTPS endpoints of enrolment: the CA certificate, certificates for nodes, and whether a node of a name exists.
//!
//! Source: KubeEdge's CloudHub HTTP server (`/ca.crt`, `/edge.crt`, `/node/{name}`). Three differences. The node name in the header must
//! equal the one in the certificate request, with a token as well. A token gives no certificate for a name that a node holds: otherwise
//! its holder could become any node. Whether a node exists is answered only to clients with a token or a node's certificate,
//! and also whether its name is given.

use std::{collections::BTreeMap, io, sync::OnceLock, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use kubeapi::{
    Body, BoxError, Identity, ReadBodyError, gather,
    serve::{Handler, PeerCertificate},
};
use record::Transport;
use tracing::{debug, info, warn};
use wire::enroll::{
    CA_PATH, EDGE_CERT_PATH, EXT_KEY_USAGES_HEADER, NODE_IS_CONNECTED, NODE_NAME_HEADER,
    NODE_NAME_IS_FREE, NODE_NAME_IS_TAKEN, NODE_PATH, TokenScope, Usage, identity_of, is_node_name,
    verify_bearer,
};

use crate::{
    controllers::sync::SyncRecords,
    faults::{Faults, false_body},
    pki::{JoinTokenError, JoinTokens, Name, RecordError, Trust, lost_message, reserved_names},
    sessions::Sessions,
};

/// CloudCore's limit of a certificate request, bytes.
const CSR_LIMIT: usize = 1024 * 1024;
/// Lifetime of a node's certificate; CloudCore's `edgeCertSigningDuration`.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The prefix of the subject of a node's certificate, before its name.
const NODE_USER: &str = "system:node:";
const NODES: &str = "system:nodes";

/// The endpoints as an HTTP service; cheap to clone.
#[derive(Clone)]
pub(crate) struct Enrolment {
    trust: Trust,
    client: Client,
    faults: Faults,
    records: SyncRecords,
    sessions: Sessions,
    tokens: JoinTokens,
    /// Names of this cloud itself, which no node may have.
    reserved: Vec<String>,
}

/// How a machine has authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Proof {
    /// With the certificate that it renews, DER.
    Certificate(Vec<u8>),
    /// With a join token; the machine may be new.
    Token(TokenScope),
}

/// A refusal: status and body, as CloudCore sends them.
type Refusal = (StatusCode, String);

impl Enrolment {
    /// Creates the service. Certificates are signed by the authority of `trust`; nodes are looked up through `client`. `faults` may
    /// replace the answers. `sessions` is notified of machines that show a token; `tokens` counts their uses, and
    /// `records` is what they have acknowledged.
    pub(crate) fn new(
        trust: &Trust,
        client: &Client,
        faults: &Faults,
        sessions: &Sessions,
        (tokens, records): (&JoinTokens, &SyncRecords),
    ) -> Self {
        Self {
            trust: trust.clone(),
            client: client.clone(),
            faults: faults.clone(),
            records: records.clone(),
            sessions: sessions.clone(),
            tokens: tokens.clone(),
            reserved: Vec::new(),
        }
    }

    /// Adds names that no node may get.
    pub(crate) fn reserving(self, names: &[String]) -> Self {
        Self {
            reserved: names.to_vec(),
            ..self
        }
    }

    /// Records a request with its answer, under the name that the request says.
    fn record(&self, parts: &Parts, csr: Option<&Vec<u8>>, status: StatusCode, answer: &[u8]) {
        let path = parts.uri.path();
        let header = parts.headers.get(NODE_NAME_HEADER);
        let node = header
            .and_then(|name| name.to_str().ok())
            .or_else(|| path.strip_prefix(NODE_PATH))
            .filter(|name| is_node_name(name));
        let recorder = self.sessions.recorder();
        let node = node.unwrap_or_default();
        let connection = recorder.connect(Transport::Enrolment, node, "", BTreeMap::new());
        let body = csr.map(Vec::as_slice).unwrap_or_default();
        let headers = record::headers(&parts.headers);
        connection.request(parts.method.as_str(), path, headers, body);
        connection.response(status.as_u16(), answer);
    }

    async fn answer<B: RequestBody>(
        &self,
        parts: &Parts,
        body: B,
        csr: &OnceLock<Vec<u8>>,
    ) -> Result<Vec<u8>, Refusal> {
        let path = parts.uri.path();
        if parts.method != Method::GET {
            return Err((
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET is served here".to_owned(),
            ));
        }
        match path {
            CA_PATH => Ok(self.trust.authority().cert_der().to_vec()),
            EDGE_CERT_PATH => self.sign(parts, body, csr).await,
            _ => match path.strip_prefix(NODE_PATH) {
                Some(name) if is_node_name(name) => self.node(parts, name).await,
                _ => Err((StatusCode::NOT_FOUND, format!("there is nothing at {path}"))),
            },
        }
    }

    async fn sign<B: RequestBody>(
        &self,
        parts: &Parts,
        body: B,
        recorded: &OnceLock<Vec<u8>>,
    ) -> Result<Vec<u8>, Refusal> {
        let header = |name: &str| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let refused = |why: String| (StatusCode::BAD_REQUEST, why);
        let name = header(NODE_NAME_HEADER).unwrap_or_default();
        if !is_node_name(name) {
            return Err(refused(format!(
                "the header NodeName says {name:?}, which no node can be called"
            )));
        }
        let proof = self.authenticate(parts, name).await?;
        let usages = Usage::parse_header(header(EXT_KEY_USAGES_HEADER))
            .map_err(|error| refused(error.to_string()))?;
        let unreadable =
            |unread: ReadBodyError| (unread.code(), format!("the certificate request: {unread}"));
        let csr = gather(body, CSR_LIMIT).await.map_err(unreadable)?;
        let _ = recorded.set(csr.to_vec());
        let signed = self
            .trust
            .authority()
            .sign_edge(&csr, &usages, VALIDITY, clock::system_now());
        let signed = signed.map_err(|error| refused(error.to_string()))?;
        match identity_of(&signed) {
            Ok(wire::enroll::Identity::Node(subject)) if subject == name => {
                match proof {
                    Proof::Token(scope) => {
                        self.mark_reenrolled(name, &signed, scope.id.as_deref())
                            .await?
                    }
                    Proof::Certificate(old) => {
                        let new = (signed.as_slice(), self.trust.authority().cert_der());
                        let renewed = self
                            .trust
                            .certificates()
                            .record_renewed(name, &old, new)
                            .await;
                        if !renewed.map_err(record_refusal)? {
                            return Err(self.revocation_refusal(name).await);
                        }
                    }
                }
                info!(node = name, "enrolled: certificate issued");
                Ok(signed)
            }
            Ok(other) => Err(refused(format!(
                "the certificate request is for {other}, the header NodeName says {name:?}"
            ))),
            Err(error) => Err(refused(format!(
                "the certificate request has no name: {error}"
            ))),
        }
    }

    /// Marks the node as re-enrolled: the machine may hold nothing of what was sent to its name before.
    async fn mark_reenrolled(
        &self,
        name: &str,
        certificate: &[u8],
        token: Option<&str>,
    ) -> Result<(), Refusal> {
        let certificates = self.trust.certificates();
        if let Some(token) = token
            && !certificates
                .is_repeated(name, token, certificate)
                .await
                .map_err(record_refusal)?
        {
            self.tokens.take(token).await.map_err(|error| match error {
                JoinTokenError::UsedUp => (
                    StatusCode::UNAUTHORIZED,
                    format!("token validation failure: {error}"),
                ),
                error => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            })?;
        }
        let authority = self.trust.authority().cert_der();
        let begun = certificates
            .record_issued(name, certificate, authority, self.trust.grace(), token)
            .await;
        if !begun.map_err(record_refusal)? {
            // it may have been lost, too
            self.is_free(name).await?;
            return Err(name_taken(name));
        }
        let doubted = self.records.mark_unacknowledged(name).await;
        doubted.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        self.sessions.reenrolled_nodes().add(name, certificate);
        Ok(())
    }

    /// Checks that the name is free: no live node holds it, or an administrator has released it.
    async fn is_free(&self, name: &str) -> Result<(), Refusal> {
        let authority = self.trust.authority().cert_der();
        let known = self
            .trust
            .certificates()
            .name(name, authority, self.trust.grace())
            .await;
        let is_held = match known.map_err(record_refusal)? {
            Name::Lost => return Err((StatusCode::CONFLICT, lost_message(name))),
            Name::Held => true,
            Name::Free => false,
            // of an older cloud's node nothing but the Node may be known
            Name::Unknown => self.sessions.has(name) || self.has_reported(name).await?,
        };
        if is_held {
            Err(name_taken(name))
        } else {
            Ok(())
        }
    }

    /// Reports whether a node of this name has ever reported its status.
    async fn has_reported(&self, name: &str) -> Result<bool, Refusal> {
        let found = Api::<Node>::all(self.client.clone()).get_opt(name).await;
        let found =
            found.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        let info = found.and_then(|node| node.status?.node_info);
        Ok(info.is_some_and(|info| !info.kubelet_version.is_empty()))
    }

    /// Accepts a verified certificate of the same node (a renewal), or a join token together with a free name.
    async fn authenticate(&self, parts: &Parts, name: &str) -> Result<Proof, Refusal> {
        let proof = self.verify_proof(parts, name).await?;
        if matches!(proof, Proof::Token(_)) {
            if let Some(why) = reserved_names::reason(name, &self.reserved) {
                let why = format!(
                    "no node can be called {name}: {why}; choose another name for this machine"
                );
                return Err((StatusCode::CONFLICT, why));
            }
            self.is_free(name).await?;
        }
        Ok(proof)
    }

    /// The refusal of a certificate that was revoked or replaced.
    async fn revocation_refusal(&self, name: &str) -> Refusal {
        let why = match self.trust.certificates().is_lost(name).await {
            Ok(true) => lost_message(name),
            _ => format!("the certificate of node {name} was revoked; join with a token"),
        };
        (StatusCode::UNAUTHORIZED, why)
    }

    /// Verifies the certificate or token that the machine presents.
    async fn verify_proof(&self, parts: &Parts, name: &str) -> Result<Proof, Refusal> {
        let unauthorized = |why: String| (StatusCode::UNAUTHORIZED, why);
        if let Some(identity) = parts.extensions.get::<Identity>() {
            let is_node = identity.groups.iter().any(|group| group == NODES);
            if is_node && identity.user.strip_prefix(NODE_USER) == Some(name) {
                let shown = parts.extensions.get::<PeerCertificate>();
                let shown = shown.map(|shown| shown.0.as_ref()).unwrap_or_default();
                if self
                    .trust
                    .admits(name, shown)
                    .await
                    .map_err(record_refusal)?
                {
                    return Ok(Proof::Certificate(shown.to_owned()));
                }
                return Err(self.revocation_refusal(name).await);
            }
            return Err(unauthorized(format!(
                "the certificate shown is {}'s and not node {name}'s",
                identity.user
            )));
        }
        let value = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let token = value
            .and_then(|value| value.strip_prefix("Bearer "))
            .unwrap_or_default()
            .trim();
        if token.is_empty() {
            return Err(unauthorized(
                "token validation failure, token is empty".to_owned(),
            ));
        }
        let scope = verify_bearer(token, self.trust.authority(), clock::system_now());
        let scope =
            scope.map_err(|error| unauthorized(format!("token validation failure: {error}")))?;
        match scope.node.as_deref().filter(|only| *only != name) {
            Some(only) => {
                let why = format!("token validation failure: the token is for node {only} alone");
                Err(unauthorized(why))
            }
            None => Ok(Proof::Token(scope)),
        }
    }

    /// Answers whether the node exists, to clients that may be one. A connected node exists even before its Node object does.
    async fn node(&self, parts: &Parts, name: &str) -> Result<Vec<u8>, Refusal> {
        self.verify_proof(parts, name).await?;
        if self.sessions.has(name) {
            return Ok(NODE_IS_CONNECTED.as_bytes().to_vec());
        }
        let is_taken = match self.is_free(name).await {
            Ok(()) => false,
            Err((StatusCode::CONFLICT, _)) => true,
            Err(refusal) => return Err(refusal),
        };
        match Api::<Node>::all(self.client.clone()).get_opt(name).await {
            Ok(_) if is_taken => Ok(NODE_NAME_IS_TAKEN.as_bytes().to_vec()),
            Ok(Some(_)) => Ok(NODE_NAME_IS_FREE.as_bytes().to_vec()),
            Ok(None) => Err((StatusCode::NOT_FOUND, format!("node {name} does not exist"))),
            Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        }
    }
}

/// The refusal for a name that a node holds.
fn name_taken(name: &str) -> Refusal {
    let why = format!(
        "the name {name} is taken: a node of this name has a valid certificate. Choose another name; or, to replace that node, ask an \
         administrator to run `cloudsim node reset {name}` (or to delete the Node), and try again"
    );
    (StatusCode::CONFLICT, why)
}

/// The refusal when the certificate's record cannot be written: no certificate is issued that could not be revoked.
fn record_refusal(error: RecordError) -> Refusal {
    warn!(
        error = &error as &dyn std::error::Error,
        "failed to record certificate; certificate not issued"
    );
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// The body of a request.
trait RequestBody: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send {}

impl<B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send> RequestBody for B {}

impl Handler for Enrolment {
    async fn handle(self, request: Request<Incoming>) -> Response<Body> {
        self.response(request).await
    }
}

impl Enrolment {
    /// Answers a request of this process.
    ///
    /// # Errors
    /// A fault ends the response before its end.
    pub(crate) async fn respond(&self, request: Request<Bytes>) -> io::Result<Response<Bytes>> {
        let (head, body) = self.response(request.map(Full::new)).await.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        Ok(Response::from_parts(head, body))
    }

    async fn response<B: RequestBody>(&self, request: Request<B>) -> Response<Body> {
        if let Some(parts) = false_body(self.faults.answers()) {
            return Response::new(StreamBody::new(parts).boxed_unsync());
        }
        let (parts, body) = request.into_parts();
        let csr = OnceLock::new();
        let (status, bytes) = match self.answer(&parts, body, &csr).await {
            Ok(bytes) => (StatusCode::OK, Bytes::from(bytes)),
            Err((status, why)) => {
                // a machine that is about to join asks whether its name is free
                if status == StatusCode::NOT_FOUND {
                    debug!(
                        path = parts.uri.path(),
                        reason = why,
                        "request for an unknown object refused"
                    );
                } else {
                    warn!(path = parts.uri.path(), %status, reason = why, "enrolment refused");
                }
                (status, Bytes::from(why))
            }
        };
        self.record(&parts, csr.get(), status, &bytes);
        let mut response = Response::new(
            Full::new(bytes)
                .map_err(|never| match never {})
                .boxed_unsync(),
        );
        *response.status_mut() = status;
        response
    }
}
