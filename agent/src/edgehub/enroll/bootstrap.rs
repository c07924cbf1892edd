//! The two HTTPS requests of enrolment: the CA (authenticated by the token's hash), then the certificate.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use wire::enroll::{CA_PATH, EDGE_CERT_PATH, NODE_NAME_HEADER, Token};

use super::{super::Config, EnrollError};

mod deferred;

/// Largest answer read: certificates and short refusals.
const LIMIT: usize = 64 * 1024;
/// As EdgeCore's own client.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `https://host:port`, taken apart.
struct Target<'a> {
    url: String,
    authority: &'a str,
    host: ServerName<'static>,
}

impl<'a> Target<'a> {
    fn new(base: &'a str, path: &str) -> Result<Self, EnrollError> {
        let bad = || EnrollError::Url(base.to_owned());
        let authority = base.strip_prefix("https://").ok_or_else(bad)?.trim_end_matches('/');
        let (host, _) = authority.rsplit_once(':').ok_or_else(bad)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let host = ServerName::try_from(host).map_err(|_| bad())?;
        Ok(Self { url: format!("https://{authority}{path}"), authority, host })
    }

    fn failed(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> EnrollError {
        EnrollError::Unreachable { url: self.url.clone(), source: source.into() }
    }
}

/// The cloud's CA certificate, DER. The connection sends nothing and trusts nothing: what it brought is checked afterwards,
/// the CA against the token's hash and the server's certificate against that CA.
pub(super) async fn fetch_ca(base: &str, token: &Token) -> Result<Vec<u8>, EnrollError> {
    let target = Target::new(base, CA_PATH)?;
    let deferred = deferred::Deferred::new();
    let tls = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(deferred.clone())
        .with_no_client_auth();
    let ca = exchange(&target, tls, Request::get(CA_PATH), Bytes::new()).await?;
    let wrong = |why: String| EnrollError::WrongCloud { url: target.url.clone(), why };
    token.check_ca(&ca).map_err(|error| wrong(error.to_string()))?;
    let shown = deferred.shown().ok_or_else(|| wrong("it showed no certificate".into()))?;
    verifier(&ca)?
        .verify_server_cert(&shown.leaf, &shown.intermediates, &target.host, &[], UnixTime::now())
        .map_err(|error| wrong(format!("its own certificate does not come from that CA ({error})")))?;
    Ok(ca)
}

/// This node's certificate, DER, for the request `csr`; the server is verified against `ca`.
pub(super) async fn fetch_certificate(
    config: &Config,
    ca: &[u8],
    token: &Token,
    csr: &[u8],
) -> Result<Vec<u8>, EnrollError> {
    let target = Target::new(&config.http_server, EDGE_CERT_PATH)?;
    let tls = ClientConfig::builder().with_webpki_verifier(verifier(ca)?).with_no_client_auth();
    let request = Request::get(EDGE_CERT_PATH)
        .header(http::header::AUTHORIZATION, format!("Bearer {}", token.jwt()))
        .header(NODE_NAME_HEADER, &config.node_name);
    exchange(&target, tls, request, Bytes::copy_from_slice(csr)).await
}

fn verifier(ca: &[u8]) -> Result<Arc<WebPkiServerVerifier>, EnrollError> {
    let crypto = |error: &dyn std::fmt::Display| EnrollError::Crypto(error.to_string());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(ca.to_vec())).map_err(|error| crypto(&error))?;
    WebPkiServerVerifier::builder(Arc::new(roots)).build().map_err(|error| crypto(&error))
}

async fn exchange(
    target: &Target<'_>,
    tls: ClientConfig,
    request: http::request::Builder,
    body: Bytes,
) -> Result<Vec<u8>, EnrollError> {
    match tokio::time::timeout(TIMEOUT, send(target, tls, request, body)).await {
        Ok(answer) => answer,
        Err(_) => Err(target.failed(format!("no answer within {TIMEOUT:?}"))),
    }
}

async fn send(
    target: &Target<'_>,
    tls: ClientConfig,
    request: http::request::Builder,
    body: Bytes,
) -> Result<Vec<u8>, EnrollError> {
    let tcp = TcpStream::connect(target.authority).await.map_err(|error| target.failed(error))?;
    let stream = TlsConnector::from(Arc::new(tls))
        .connect(target.host.clone(), tcp)
        .await
        .map_err(|error| target.failed(error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| target.failed(error))?;
    let request = request
        .header(http::header::HOST, target.authority)
        .body(Full::new(body))
        .map_err(|error| EnrollError::Url(error.to_string()))?;
    let asked = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let bytes = Limited::new(answer.into_body(), LIMIT).collect().await?.to_bytes();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((status, bytes))
    };
    let (status, bytes) = tokio::select! {
        // cancel-safe: the loser is dropped with the connection
        answer = asked => answer.map_err(|error| target.failed(error))?,
        ended = connection => return Err(target.failed(match ended {
            Ok(()) => "the connection was closed before the answer".into(),
            Err(error) => Box::<dyn std::error::Error + Send + Sync>::from(error),
        })),
    };
    if status.is_success() {
        return Ok(bytes.to_vec());
    }
    let said = String::from_utf8_lossy(&bytes[..bytes.len().min(512)]).trim().to_owned();
    Err(EnrollError::Refused { url: target.url.clone(), status: status.as_u16(), said })
}
