//! What an edge needs to reach any cloud: the CA, a certificate, sessions and the stream tunnel.

use std::collections::BTreeMap;

use agent::config::HostPort;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{Full, Limited};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_tungstenite::{WebSocketStream, tungstenite::protocol};
use wire::{
    Message,
    enroll::{CA_PATH, Csr, EDGE_CERT_PATH, NODE_NAME_HEADER, Token},
    session::{NODE_HEADER, PROJECT, PROJECT_HEADER, USE_HEADER, USE_MESSAGES},
    tunnel, websocket,
};

use crate::{
    Failure, Service, Stream, ensure, fail,
    https::{self, MAX_ANSWER, REQUEST_DEADLINE},
    identity::{Identity, client_tls},
    quic::{self, Greeted},
    session::{Automatic, Session},
    transport::Transport,
    tunnel::Tunnel,
};

/// The example of RFC 6455. A random key would protect from caches of proxies, and TLS does.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The addresses of a cloud.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The HTTPS server (KubeEdge's port is 10002).
    pub https: HostPort,
    /// `CloudHub`'s server: WebSocket (10000) or QUIC (10001).
    pub hub: HostPort,
    /// The stream tunnel (10004), if the cloud has it.
    pub tunnel: Option<HostPort>,
}

/// Reaches a cloud as edges do.
#[derive(Clone, Debug)]
pub struct Dialer {
    endpoints: Endpoints,
    /// DER.
    ca: Vec<u8>,
    /// That of sessions.
    transport: Transport,
}

/// The answer to a request for an upgrade.
pub enum Upgrade {
    /// The connection is open; with the headers of the answer.
    Accepted(HeaderMap, Stream),
    /// The cloud has refused it.
    Refused(Response<Bytes>),
}

impl Dialer {
    /// Fetches the CA of a cloud, which the token pins.
    ///
    /// # Errors
    /// The cloud does not answer, or has another CA.
    pub async fn discover(endpoints: Endpoints, token: &Token) -> Result<Self, Failure> {
        let ca = agent::edgehub::fetch_ca(&endpoints.https, token).await;
        // the remedies of the error are for an agent
        let ca = ca.map_err(|error| Failure::Failed(error.what()))?;
        Ok(Self::new(endpoints, ca))
    }

    /// Creates one for a cloud whose CA (DER) is known.
    pub fn new(endpoints: Endpoints, ca: Vec<u8>) -> Self {
        Self {
            endpoints,
            ca,
            transport: Transport::WebSocket,
        }
    }

    /// Opens sessions over this transport.
    #[must_use]
    pub fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Opens sessions over QUIC at this address.
    #[must_use]
    pub fn over_quic(mut self, hub: HostPort) -> Self {
        self.endpoints.hub = hub;
        self.over(Transport::Quic)
    }

    /// Connects over QUIC with the greeting of an edge.
    ///
    /// # Errors
    /// The cloud does not answer.
    pub async fn greet(&self, identity: &Identity, hello: &Message) -> Result<Greeted, Failure> {
        let tls = client_tls(&self.ca, Some(identity))?;
        quic::greet(&self.address(Service::Hub)?, tls, hello).await
    }

    /// Returns the transport of sessions.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Returns the cloud's CA, DER.
    pub fn ca(&self) -> &[u8] {
        &self.ca
    }

    /// Returns the address of a server, `host:port`.
    ///
    /// # Errors
    /// The cloud has no such server.
    pub fn address(&self, service: Service) -> Result<String, Failure> {
        match (service, &self.endpoints.tunnel) {
            (Service::Https, _) => Ok(self.endpoints.https.to_string()),
            (Service::Hub, _) => Ok(self.endpoints.hub.to_string()),
            (Service::Tunnel, Some(address)) => Ok(address.to_string()),
            (Service::Tunnel, None) => Err(Failure::Skipped(
                "no address of the stream tunnel was given".to_owned(),
            )),
        }
    }

    /// Sends a request to the HTTPS server.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn https(
        &self,
        identity: Option<&Identity>,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<Response<Bytes>, Failure> {
        let tls = client_tls(&self.ca, identity)?;
        https::request(&self.address(Service::Https)?, tls, request, body).await
    }

    /// Fetches the CA without a certificate.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn request_ca(&self) -> Result<Response<Bytes>, Failure> {
        self.https(None, Request::get(CA_PATH), Vec::new()).await
    }

    /// Requests a certificate with a bearer token, or with `identity`.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn certify(
        &self,
        node: &str,
        bearer: Option<&str>,
        identity: Option<&Identity>,
        csr: Vec<u8>,
    ) -> Result<Response<Bytes>, Failure> {
        let mut request = Request::get(EDGE_CERT_PATH).header(NODE_NAME_HEADER, node);
        if let Some(bearer) = bearer {
            request = request.header(header::AUTHORIZATION, format!("Bearer {bearer}"));
        }
        self.https(identity, request, csr).await
    }

    /// Enrols a node with a join token.
    ///
    /// # Errors
    /// The cloud refuses, or does not answer.
    pub async fn enrol(&self, node: &str, token: &Token) -> Result<Identity, Failure> {
        let csr = Csr::for_node(node)?;
        let answer = self
            .certify(node, Some(token.jwt()), None, csr.der().to_vec())
            .await?;
        ensure!(
            answer.status() == StatusCode::OK,
            "{EDGE_CERT_PATH} answered {}: {}",
            answer.status().as_u16(),
            String::from_utf8_lossy(answer.body())
        );
        Ok(Identity {
            certificate: answer.body().to_vec(),
            key: csr.key_sec1_der(),
        })
    }

    /// Requests the upgrade of a connection to WebSocket. Missing headers of the handshake are added.
    ///
    /// # Errors
    /// The server cannot be reached, or does not answer as RFC 6455 demands.
    pub async fn upgrade(
        &self,
        service: Service,
        mut request: Request<()>,
        identity: Option<&Identity>,
    ) -> Result<Upgrade, Failure> {
        let address = self.address(service)?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_str(&address)?);
        for (name, value) in [
            (header::CONNECTION, "Upgrade"),
            (header::UPGRADE, "websocket"),
            (header::SEC_WEBSOCKET_VERSION, "13"),
            (header::SEC_WEBSOCKET_KEY, KEY),
        ] {
            headers
                .entry(name)
                .or_insert(HeaderValue::from_static(value));
        }
        let accept = websocket::accept_key(headers[header::SEC_WEBSOCKET_KEY].to_str()?);
        let stream = https::connect(&address, client_tls(&self.ca, identity)?).await?;
        let upgraded = async {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(async move { connection.with_upgrades().await.ok() });
            let request = request.map(|()| Full::<Bytes>::default());
            let answer = sender.send_request(request).await?;
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                let (head, body) = answer.into_parts();
                let body = https::collect(Limited::new(body, MAX_ANSWER)).await?;
                return Ok(Upgrade::Refused(Response::from_parts(head, body)));
            }
            let headers = answer.headers().clone();
            let found = headers.get(header::SEC_WEBSOCKET_ACCEPT);
            ensure!(
                found.is_some_and(|found| found.as_bytes() == accept.as_bytes()),
                "the answer to the WebSocket upgrade has a wrong Sec-WebSocket-Accept"
            );
            let stream = TokioIo::new(hyper::upgrade::on(answer).await?);
            Ok(Upgrade::Accepted(headers, stream))
        };
        match timeout(REQUEST_DEADLINE, upgraded).await {
            Ok(upgraded) => upgraded,
            Err(_) => fail!("no WebSocket upgrade by {address} within {REQUEST_DEADLINE:?}"),
        }
    }

    /// Opens a connection that the cloud must accept.
    async fn open(
        &self,
        service: Service,
        request: Request<()>,
        identity: Option<&Identity>,
    ) -> Result<Stream, Failure> {
        match self.upgrade(service, request, identity).await? {
            Upgrade::Accepted(_, stream) => Ok(stream),
            Upgrade::Refused(answer) => {
                fail!("the WebSocket upgrade was refused: {}", answer.status())
            }
        }
    }

    /// Opens a session with these headers; [`session_headers`] are the usual ones.
    ///
    /// # Errors
    /// The cloud refuses, or does not answer.
    pub async fn session(
        &self,
        identity: Option<&Identity>,
        headers: &BTreeMap<&'static str, String>,
        automatic: Automatic,
    ) -> Result<Session, Failure> {
        if self.transport == Transport::Quic {
            let address = self.address(Service::Hub)?;
            let tls = client_tls(&self.ca, identity)?;
            let stream = quic::connect(&address, tls, headers).await?;
            return Ok(Session::start(stream, automatic));
        }
        let node = headers.get(NODE_HEADER).map_or("", String::as_str);
        let mut request = Request::get(format!("/{PROJECT}/{node}/events"));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let stream = self.open(Service::Hub, request.body(())?, identity).await?;
        let socket = WebSocketStream::from_raw_socket(stream, protocol::Role::Client, None).await;
        Ok(Session::start(socket, automatic))
    }

    /// Opens the stream tunnel of a node.
    ///
    /// # Errors
    /// The cloud refuses, does not answer, or has no tunnel.
    pub async fn tunnel(&self, node: &str, identity: Option<&Identity>) -> Result<Tunnel, Failure> {
        let request = Request::get(tunnel::PATH)
            .header(tunnel::NODE_HEADER, node)
            .header(tunnel::ADDRESS_HEADER, "192.0.2.1")
            .body(())?;
        let stream = self.open(Service::Tunnel, request, identity).await?;
        Ok(Tunnel::new(stream, websocket::Role::Client))
    }
}

/// Returns the headers of a session, as an edge sends them.
pub fn session_headers(node: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        (USE_HEADER, USE_MESSAGES.to_owned()),
        (NODE_HEADER, node.to_owned()),
        (PROJECT_HEADER, PROJECT.to_owned()),
    ])
}
