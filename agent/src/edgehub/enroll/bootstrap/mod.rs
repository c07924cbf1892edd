//! The two HTTPS requests of enrolment: the CA (authenticated by the token's hash), then the certificate. A renewal is only the
//! second.

use std::{
    io,
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{Response, response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper_util::rt::TokioIo;
use record::{Recorder, Transport};
use rustls::{ClientConfig, client::danger::ServerCertVerifier};
use rustls_pki_types::{ServerName, UnixTime};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use wire::{
    enroll::{
        CA_PATH, EDGE_CERT_PATH, NODE_IS_CONNECTED, NODE_NAME_HEADER, NODE_NAME_IS_FREE,
        NODE_NAME_IS_TAKEN, NODE_PATH, Token,
    },
    text::{printable, printable_bytes},
};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use self::deferred::DeferredVerifier;
use super::{Credentials, EnrollError, NodeStatus, verifier};
use crate::{
    config::HostPort,
    edgehub::{Config, InProcessLink, Proxy, dial::tcp},
    tls::{CertificateFault, handshake_text},
};

mod deferred;

/// The largest answer, bytes: certificates and short refusals.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The most names of a certificate that are shown.
const MAX_NAMES: usize = 16;
/// The most bytes of a refusal that are shown.
const MAX_REFUSAL_BYTES: usize = 512;
/// How long a request may take; the value of EdgeCore's client.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What a request needs to know of the node that sends it.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    /// The node's name, for recordings.
    pub(super) node: &'a str,
    pub(super) proxy: &'a Proxy,
    pub(super) recorder: &'a Recorder,
    pub(super) in_process: Option<&'a InProcessLink>,
}

impl<'a> From<&'a Config> for Client<'a> {
    fn from(config: &'a Config) -> Self {
        Self {
            node: &config.node_name,
            proxy: &config.proxy,
            recorder: &config.recorder,
            in_process: config.in_process.as_ref(),
        }
    }
}

/// The URL of a request and its server.
struct Endpoint<'a> {
    client: Client<'a>,
    server: &'a HostPort,
    url: String,
    host: ServerName<'static>,
}

impl<'a> Endpoint<'a> {
    fn new(client: Client<'a>, server: &'a HostPort, path: &str) -> Result<Self, EnrollError> {
        let url = format!("https://{server}{path}");
        let host =
            ServerName::try_from(server.host.clone()).map_err(|_| EnrollError::Url(url.clone()))?;
        Ok(Self {
            client,
            server,
            url,
            host,
        })
    }

    /// Connects over TLS.
    async fn connect(&self, tls: ClientConfig) -> Result<TlsStream<TcpStream>, EnrollError> {
        let tcp = tcp::connect(self.server, self.client.proxy)
            .await
            .map_err(|error| self.connection_error(error))?;
        TlsConnector::from(Arc::new(tls))
            .connect(self.host.clone(), tcp)
            .await
            .map_err(|error| self.connection_error(error))
    }

    fn connection_error(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> EnrollError {
        let (url, source) = (self.url.clone(), source.into());
        match CertificateFault::find(&*source) {
            Some(fault) => EnrollError::Certificate { url, fault },
            None => EnrollError::Unreachable {
                url,
                server: self.server.to_string(),
                source,
            },
        }
    }
}

/// Fetches the cloud's CA certificate, DER. The connection sends nothing secret and trusts nothing: the CA is verified
/// afterwards against the token's hash, and the server's certificate against that CA.
pub(super) async fn fetch_ca(
    client: Client<'_>,
    server: &HostPort,
    token: &Token,
) -> Result<Vec<u8>, EnrollError> {
    let target = Endpoint::new(client, server, CA_PATH)?;
    let deferred = DeferredVerifier::new();
    let handshake = Handshake::Deferred(&deferred);
    let ca = exchange(&target, handshake, Request::get(CA_PATH), Bytes::new()).await?;
    let wrong = |why: String| EnrollError::WrongCloud {
        url: target.url.clone(),
        why,
    };
    token
        .check_ca(&ca)
        .map_err(|error| wrong(error.to_string()))?;
    let shown = deferred
        .presented_certificates()
        .ok_or_else(|| wrong("the server shows no certificate".into()))?;
    verifier(&ca)?
        .verify_server_cert(
            &shown.leaf,
            &shown.intermediates,
            &target.host,
            &[],
            UnixTime::since_unix_epoch(clock::since_unix_epoch()),
        )
        .map_err(|error| verification_error(&target.url, &server.host, &shown.leaf, error))?;
    Ok(ca)
}

/// Converts the error of the verification to one that names the cure.
fn verification_error(url: &str, host: &str, shown: &[u8], error: rustls::Error) -> EnrollError {
    use rustls::CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext,
    };
    let url = url.to_owned();
    match error {
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            let names = names_of(shown);
            let names = if names.is_empty() {
                "no name at all".to_owned()
            } else {
                names.join(", ")
            };
            EnrollError::OtherName {
                url,
                host: host.to_owned(),
                names,
            }
        }
        rustls::Error::InvalidCertificate(
            why @ (Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }),
        ) => EnrollError::WrongTime {
            url,
            why: validity_error(&why),
        },
        other => EnrollError::WrongCloud {
            url,
            why: format!(
                "its certificate is not of the CA of the token or of this node: {}",
                handshake_text(&io::Error::other(other))
            ),
        },
    }
}

/// Describes a certificate outside of its validity period.
fn validity_error(why: &rustls::CertificateError) -> String {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYetContext};
    let date = |time: &UnixTime| {
        let time = i64::try_from(time.as_secs()).ok();
        let time = time.and_then(|time| jiff::Timestamp::from_second(time).ok());
        time.map_or_else(|| "?".to_owned(), |time| time.to_string())
    };
    match why {
        ExpiredContext { not_after, .. } => format!("it expired at {}", date(not_after)),
        NotValidYetContext { not_before, .. } => format!("it begins at {}", date(not_before)),
        Expired => "it has expired".to_owned(),
        _ => "it is not valid yet".to_owned(),
    }
}

/// Returns the names and addresses of a certificate.
fn names_of(certificate: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let Ok(Some(names)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    let name = |general: &GeneralName<'_>| match general {
        GeneralName::DNSName(name) => Some(printable(name)),
        GeneralName::IPAddress(bytes) => match <[u8; 4]>::try_from(*bytes) {
            Ok(address) => Some(IpAddr::from(address).to_string()),
            Err(_) => <[u8; 16]>::try_from(*bytes)
                .ok()
                .map(|address| IpAddr::from(address).to_string()),
        },
        _ => None,
    };
    names
        .value
        .general_names
        .iter()
        .filter_map(name)
        .take(MAX_NAMES)
        .collect()
}

/// Queries the node of this name. CloudCore answers anybody, cloudsim only with a token or the node's certificate.
pub(super) async fn query_node(
    config: &Config,
    server: &HostPort,
    proof: &Credential<'_>,
) -> Result<NodeStatus, EnrollError> {
    let path = format!("{NODE_PATH}{}", config.node_name);
    let target = Endpoint::new(config.into(), server, &path)?;
    let (handshake, request) = proof.authenticate(Request::get(&path));
    match exchange(&target, handshake, request, Bytes::new()).await {
        Ok(said) if said == NODE_IS_CONNECTED.as_bytes() => Ok(NodeStatus::Connected),
        Ok(said) if said == NODE_NAME_IS_TAKEN.as_bytes() => Ok(NodeStatus::Taken),
        Ok(said) if said == NODE_NAME_IS_FREE.as_bytes() => Ok(NodeStatus::Free),
        Ok(_) => Ok(NodeStatus::Exists),
        Err(EnrollError::Refused { status: 404, .. }) => Ok(NodeStatus::Unknown),
        Err(error) => Err(error),
    }
}

/// How this node is authenticated at the HTTPS server.
pub(super) enum Credential<'a> {
    /// By the join token; the server is verified with this CA.
    Token { ca: &'a [u8], token: &'a Token },
    /// By its certificate.
    Certificate(&'a Credentials),
}

impl Credential<'_> {
    /// Returns the handshake, and the request with the token if there is one.
    fn authenticate(
        &self,
        request: http::request::Builder,
    ) -> (Handshake<'_>, http::request::Builder) {
        match self {
            Self::Token { ca, token } => {
                let bearer = format!("Bearer {}", token.jwt());
                let request = request.header(http::header::AUTHORIZATION, bearer);
                (Handshake::Ca(ca), request)
            }
            Self::Certificate(own) => (Handshake::Certificate(own), request),
        }
    }
}

/// What this node trusts in a handshake, and what it shows.
#[derive(Clone, Copy)]
enum Handshake<'a> {
    /// The server's certificate is verified later; nothing is shown.
    Deferred(&'a Arc<DeferredVerifier>),
    /// Trusts this CA (DER); nothing is shown.
    Ca(&'a [u8]),
    /// Trusts the CA of this identity, and shows its certificate.
    Certificate(&'a Credentials),
}

impl Handshake<'_> {
    fn tls(self) -> Result<ClientConfig, EnrollError> {
        match self {
            Self::Deferred(verifier) => Ok(deferred::client_config(verifier)),
            Self::Ca(ca) => {
                let tls = ClientConfig::builder().with_webpki_verifier(verifier(ca)?);
                Ok(tls.with_no_client_auth())
            }
            Self::Certificate(own) => own.client_config(),
        }
    }

    fn verifier(self) -> Result<Arc<dyn ServerCertVerifier>, EnrollError> {
        Ok(match self {
            Self::Deferred(verifier) => Arc::<DeferredVerifier>::clone(verifier),
            Self::Ca(ca) => verifier(ca)?,
            Self::Certificate(own) => verifier(own.ca())?,
        })
    }

    fn certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Deferred(_) | Self::Ca(_) => None,
            Self::Certificate(own) => Some(own.cert()),
        }
    }
}

/// Requests this node's certificate, DER, with `csr`.
pub(super) async fn fetch_certificate(
    config: &Config,
    server: &HostPort,
    proof: &Credential<'_>,
    csr: &[u8],
) -> Result<Vec<u8>, EnrollError> {
    let target = Endpoint::new(config.into(), server, EDGE_CERT_PATH)?;
    let request = Request::get(EDGE_CERT_PATH).header(NODE_NAME_HEADER, &config.node_name);
    let (handshake, request) = proof.authenticate(request);
    exchange(&target, handshake, request, Bytes::copy_from_slice(csr)).await
}

async fn exchange(
    target: &Endpoint<'_>,
    handshake: Handshake<'_>,
    request: http::request::Builder,
    body: Bytes,
) -> Result<Vec<u8>, EnrollError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, send(target, handshake, request, body)).await {
        Ok(answer) => answer,
        Err(_) => Err(target.connection_error(format!("no answer within {REQUEST_TIMEOUT:?}"))),
    }
}

async fn send(
    target: &Endpoint<'_>,
    handshake: Handshake<'_>,
    request: http::request::Builder,
    body: Bytes,
) -> Result<Vec<u8>, EnrollError> {
    let client = target.client;
    let stream = match client.in_process {
        Some(link) => {
            link.verify_server(&*handshake.verifier()?, &target.host)
                .map_err(|error| target.connection_error(error))?;
            None
        }
        None => Some(target.connect(handshake.tls()?).await?),
    };
    let request = request
        .header(http::header::HOST, target.server.to_string())
        .body(body.clone())
        .map_err(|error| EnrollError::Url(error.to_string()))?;
    let recorder = client.recorder.connect(
        Transport::Enrolment,
        client.node,
        &target.server.to_string(),
        Default::default(),
    );
    let path = request.uri().path();
    recorder.request("GET", path, record::headers(request.headers()), &body);
    let answered = match (stream, client.in_process) {
        (Some(stream), _) => send_request(stream, request.map(Full::new)).await,
        (None, Some(link)) => {
            let answered = link.cloud.enrol(request, handshake.certificate()).await;
            answered.map(Response::into_parts).map_err(BoxError::from)
        }
        (None, None) => Err("there is no connection".into()),
    };
    let (head, bytes) = answered.map_err(|error| target.connection_error(error))?;
    let status = head.status;
    recorder.response(status.as_u16(), &bytes);
    if status.is_success() {
        return Ok(bytes.to_vec());
    }
    let said = printable_bytes(&bytes, MAX_REFUSAL_BYTES);
    Err(EnrollError::Refused {
        url: target.url.clone(),
        status: status.as_u16(),
        said,
    })
}

/// The answer of a server of the cloud.
#[derive(Debug)]
pub(crate) struct ServerAnswer {
    /// The server's time, if its certificate was valid at that time.
    pub(crate) date: Option<SystemTime>,
    /// Whether the server's certificate is one of the cloud, valid by this machine's clock.
    pub(crate) verified: Result<(), EnrollError>,
}

/// Requests the CA certificate, which anybody may read, for the time in the answer's header. The server's certificate is verified
/// afterwards: by the clock of this machine, and by that of the server, since either may be wrong. Nothing secret is sent.
pub(super) async fn request_time(
    config: &Config,
    server: &HostPort,
    ca: &[u8],
) -> Result<ServerAnswer, EnrollError> {
    let target = Endpoint::new(config.into(), server, CA_PATH)?;
    let deferred = DeferredVerifier::new();
    let stream = target.connect(deferred::client_config(&deferred)).await?;
    let request = Request::get(CA_PATH)
        .header(http::header::HOST, server.to_string())
        .body(Full::new(Bytes::new()))
        .map_err(|error| EnrollError::Url(error.to_string()))?;
    let (head, _) = send_request(stream, request)
        .await
        .map_err(|error| target.connection_error(error))?;
    let Some(shown) = deferred.presented_certificates() else {
        return Err(target.connection_error("it showed no certificate"));
    };
    let verifier = verifier(ca)?;
    let verify = |time: UnixTime| {
        verifier.verify_server_cert(&shown.leaf, &shown.intermediates, &target.host, &[], time)
    };
    let date = head.headers.get(http::header::DATE);
    let date = date.and_then(|date| parse_http_date(date.to_str().ok()?));
    let is_valid_at = |date: &SystemTime| {
        let since = date.duration_since(SystemTime::UNIX_EPOCH);
        since.is_ok_and(|since| verify(UnixTime::since_unix_epoch(since)).is_ok())
    };
    let verified = verify(UnixTime::since_unix_epoch(clock::since_unix_epoch()))
        .map(drop)
        .map_err(|error| verification_error(&target.url, &server.host, &shown.leaf, error));
    Ok(ServerAnswer {
        date: date.filter(is_valid_at),
        verified,
    })
}

/// Parses the date of HTTP (RFC 9110, section 5.6.7), which is always in UTC.
fn parse_http_date(text: &str) -> Option<SystemTime> {
    let time = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(time.timestamp().into())
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Sends one request and reads the whole answer.
async fn send_request<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<(response::Parts, Bytes), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let asked = async {
        let answer = sender.send_request(request).await?;
        let (head, body) = answer.into_parts();
        let bytes = Limited::new(body, MAX_ANSWER_BYTES)
            .collect()
            .await?
            .to_bytes();
        Ok::<_, BoxError>((head, bytes))
    };
    tokio::pin!(asked, connection);
    let ended = clock::select! {
        biased;
        // cancel-safe: neither is dropped here
        answer = &mut asked => return answer,
        ended = &mut connection => ended,
    };
    // a server that closes without `close_notify` may have answered in full before: the answer is then in the connection's
    // buffers
    match (asked.await, ended) {
        (Ok(answer), _) => Ok(answer),
        (Err(_), Err(error)) => Err(error.into()),
        (Err(_), Ok(())) => Err("the connection was closed before the answer".into()),
    }
}

#[cfg(test)]
mod tests;
