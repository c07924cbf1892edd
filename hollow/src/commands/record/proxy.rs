//! The proxy as nodes see it: a cloud. It enrols each node at the real cloud with a key of its own, and dials the real cloud for each
//! session and each tunnel. The real cloud decides, and its answers are passed on.

use std::{
    collections::{BTreeMap, HashMap},
    io::ErrorKind,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use parking_lot::Mutex;
use peer::{
    Failure, Service, Stream,
    cloud::{Caller, Cloud, Opened, Refusal, bearer, text},
    edge::{Dialer, Upgrade},
    identity::Identity,
};
use record::{Recorder, Side, Transport, headers};
use tracing::{info, warn};
use wire::{
    compression,
    enroll::{
        CA_PATH, Ca, CertError, Csr, EDGE_CERT_PATH, EXT_KEY_USAGES_HEADER, NODE_NAME_HEADER,
        NODE_PATH, Token, TokenError, Usage, is_node_name, node_of_request, sha256_hex,
        verify_bearer,
    },
};

use super::{relay::relay, state::State, tap::WebSocketTap};

/// The lifetime of a node's certificate at the proxy, which is renewed together with that at the cloud.
const CERTIFICATE_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);
/// Certificate requests whose answer may be lost. More are forgotten.
const MAX_REQUESTS: usize = 1000;
/// Headers of one connection, which are not passed on. An extension such as compression would make the recording unreadable.
const OWN_HEADERS: [header::HeaderName; 5] = [
    header::HOST,
    header::AUTHORIZATION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::SEC_WEBSOCKET_EXTENSIONS,
];

/// Node -> its certificate request (SHA-256), and the proxy's request for it.
type Requests = HashMap<String, (String, Arc<Csr>)>;

/// The proxy.
pub(super) struct Proxy {
    state: State,
    dialer: Dialer,
    /// The join token of the cloud.
    token: Option<Token>,
    recorder: Recorder,
    /// A node that repeats its request, since the answer was lost, gets the answer to the same request of the proxy: a cloud may refuse
    /// another key for the same name.
    requests: Mutex<Requests>,
}

impl Proxy {
    pub(super) fn new(
        state: State,
        dialer: Dialer,
        token: Option<Token>,
        recorder: Recorder,
    ) -> Self {
        Self {
            state,
            dialer,
            token,
            recorder,
            requests: Mutex::default(),
        }
    }

    /// Returns the CA of the proxy.
    pub(super) fn ca(&self) -> &Ca {
        self.state.ca()
    }

    /// Returns how the cloud is reached.
    pub(super) fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Returns the recorder.
    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Returns a join token of the proxy.
    pub(super) fn join_token(&self, lifetime: Duration) -> Result<String, TokenError> {
        Token::mint(self.ca(), clock::system_now(), lifetime)
    }

    /// Returns the node's certificate at the cloud. Without one, the node has enrolled at another proxy.
    // a refusal contains its answer
    #[allow(clippy::result_large_err)]
    pub(super) fn identity(&self, caller: &Caller) -> Result<Identity, Refusal> {
        let refuse = |why: &str| {
            warn!(address = %caller.address, reason = why, "connection refused");
            Refusal::Answer(text(StatusCode::UNAUTHORIZED, why.to_owned()))
        };
        let node = caller.node().map_err(|failure| refuse(failure.reason()))?;
        match self.state.identity(&node) {
            Ok(Some(identity)) => Ok(identity),
            Ok(None) => Err(refuse("the node has no key at the cloud; join it again")),
            Err(error) => {
                warn!(
                    node,
                    error = &*error,
                    "failed to read a key; connection closed"
                );
                Err(Refusal::Close)
            }
        }
    }

    /// Passes a request on to the HTTPS server of the cloud, and returns the answer.
    async fn forward(
        &self,
        request: &Request<Bytes>,
        caller: &Caller,
        body: Vec<u8>,
    ) -> Result<Response<Bytes>, Refusal> {
        let mut onward = Request::builder()
            .method(request.method().clone())
            .uri(request.uri().clone());
        for (name, value) in request.headers() {
            if !OWN_HEADERS.contains(name) && name != header::CONNECTION {
                onward = onward.header(name, value);
            }
        }
        if let Some(token) = bearer(request) {
            if let Err(error) = verify_bearer(token, self.ca(), clock::system_now()) {
                let why = format!("token validation failure: {error}");
                return Ok(text(StatusCode::UNAUTHORIZED, why));
            }
            let Some(token) = &self.token else {
                let why = "the proxy has no join token of the cloud; start it with --token";
                return Ok(text(StatusCode::SERVICE_UNAVAILABLE, why));
            };
            onward = onward.header(header::AUTHORIZATION, format!("Bearer {}", token.jwt()));
        }
        let identity = match caller.certificate {
            Some(_) => Some(self.identity(caller)?),
            None => None,
        };
        let answer = self.dialer.https(identity.as_ref(), onward, body).await;
        answer.map(without_framing).map_err(|failure| {
            cloud_away(&failure, Service::Https, caller);
            Refusal::Close
        })
    }

    /// Gets a certificate for a node at the cloud, for a key of the proxy, and issues one for the node's key.
    async fn certify(
        &self,
        request: &Request<Bytes>,
        caller: &Caller,
    ) -> Result<Response<Bytes>, Refusal> {
        let Ok(node) = node_of_request(request.body()) else {
            // the cloud refuses it in its own words
            return self.forward(request, caller, request.body().to_vec()).await;
        };
        if bearer(request).is_none() && caller.node().is_ok_and(|owner| owner != node) {
            let why = "the request is for the certificate of another node";
            return Ok(text(StatusCode::FORBIDDEN, why));
        }
        let bad_request = |error: &dyn std::error::Error| {
            Refusal::Answer(text(StatusCode::BAD_REQUEST, error.to_string()))
        };
        let usages = request.headers().get(EXT_KEY_USAGES_HEADER);
        let usages = Usage::parse_header(usages.and_then(|value| value.to_str().ok()))
            .map_err(|error| bad_request(&error))?;
        let csr = self
            .request_of(&node, request.body())
            .map_err(|error| bad_request(&error))?;
        let answer = self.forward(request, caller, csr.der().to_vec()).await?;
        if answer.status() != StatusCode::OK {
            return Ok(answer);
        }
        if usages.contains(&Usage::ClientAuth) {
            let identity = Identity {
                certificate: answer.body().to_vec(),
                key: csr.key_sec1_der(),
            };
            if let Err(error) = self.state.set_identity(&node, &identity) {
                warn!(
                    node,
                    error = &*error,
                    "failed to store a key; certificate not issued"
                );
                return Err(Refusal::Close);
            }
        }
        info!(node, "enrolled at the cloud");
        let now = clock::system_now();
        let signed = self
            .ca()
            .sign_edge(request.body(), &usages, CERTIFICATE_LIFETIME, now);
        let signed = signed.map_err(|error| bad_request(&error))?;
        Ok(text(StatusCode::OK, signed))
    }

    /// Returns the proxy's certificate request for a request of a node.
    fn request_of(&self, node: &str, request: &[u8]) -> Result<Arc<Csr>, CertError> {
        let mut requests = self.requests.lock();
        let hash = sha256_hex(request);
        if let Some((known, csr)) = requests.get(node)
            && *known == hash
        {
            return Ok(csr.clone());
        }
        let csr = Arc::new(Csr::for_node(node)?);
        if requests.len() == MAX_REQUESTS {
            requests.clear();
        }
        requests.insert(node.to_owned(), (hash, csr.clone()));
        Ok(csr)
    }
}

impl Cloud for Proxy {
    /// The connection to the cloud, and whether its messages are compressed.
    type Accepted = (Stream, bool);

    async fn answer(
        &self,
        request: Request<Bytes>,
        caller: &Caller,
    ) -> Result<Response<Bytes>, Refusal> {
        let path = request.uri().path();
        let header = request.headers().get(NODE_NAME_HEADER);
        let node = header
            .and_then(|name| name.to_str().ok())
            .or_else(|| path.strip_prefix(NODE_PATH))
            .filter(|name| is_node_name(name))
            .unwrap_or_default();
        let peer = caller.address.to_string();
        let connection = self
            .recorder
            .connect(Transport::Enrolment, node, &peer, BTreeMap::new());
        let (method, all) = (request.method().as_str(), headers(request.headers()));
        connection.request(method, path, all, request.body());
        let answer = match path {
            CA_PATH => Ok(text(StatusCode::OK, self.ca().cert_der().to_vec())),
            EDGE_CERT_PATH => self.certify(&request, caller).await,
            _ => {
                self.forward(&request, caller, request.body().to_vec())
                    .await
            }
        };
        if let Ok(answer) | Err(Refusal::Answer(answer)) = &answer {
            connection.response(answer.status().as_u16(), answer.body());
        }
        answer
    }

    async fn accept(
        &self,
        service: Service,
        request: &Request<()>,
        caller: &Caller,
    ) -> Result<(HeaderMap, Self::Accepted), Refusal> {
        let identity = self.identity(caller)?;
        let mut onward = Request::new(());
        *onward.method_mut() = request.method().clone();
        *onward.uri_mut() = request.uri().clone();
        *onward.headers_mut() = request.headers().clone();
        for name in OWN_HEADERS {
            onward.headers_mut().remove(name);
        }
        match self.dialer.upgrade(service, onward, Some(&identity)).await {
            Ok(Upgrade::Accepted(headers, stream)) => {
                let form = headers.get(compression::HEADER);
                let is_compressed = form.is_some_and(|form| form == compression::FORM);
                Ok((headers, (stream, is_compressed)))
            }
            Ok(Upgrade::Refused(answer)) => Err(Refusal::Answer(without_framing(answer))),
            Err(failure) => {
                cloud_away(&failure, service, caller);
                Err(Refusal::Close)
            }
        }
    }

    async fn serve(&self, service: Service, opened: Opened<Self::Accepted>) {
        let node = opened.caller.node().unwrap_or_default();
        let transport = match service {
            Service::Tunnel => Transport::Tunnel,
            Service::Hub | Service::Https => Transport::WebSocket,
        };
        let connection = self.recorder.connect(
            transport,
            &node,
            &opened.caller.address.to_string(),
            headers(opened.request.headers()),
        );
        info!(node, ?service, "connected");
        let (cloud, is_compressed) = opened.accepted;
        let mut up = WebSocketTap::new(service, Side::Edge, is_compressed, connection.clone());
        let mut down = WebSocketTap::new(service, Side::Cloud, is_compressed, connection);
        let ended = relay(opened.stream, cloud, (&mut up, &mut down)).await;
        up.finish();
        down.finish();
        match ended {
            Ok(()) => info!(node, ?service, "disconnected"),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                info!(node, ?service, "disconnected without the end of TLS");
            }
            Err(error) => warn!(node, ?service, %error, "connection lost"),
        }
    }
}

/// Logs why the cloud does not answer.
pub(super) fn cloud_away(failure: &Failure, service: Service, caller: &Caller) {
    warn!(
        node = caller.node().unwrap_or_default(),
        ?service,
        error = failure.reason(),
        "failed to reach the cloud; connection of the node closed"
    );
}

/// Removes headers about the length of an answer, which is whole now.
fn without_framing(mut answer: Response<Bytes>) -> Response<Bytes> {
    for name in [
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::CONNECTION,
    ] {
        answer.headers_mut().remove(name);
    }
    answer
}
