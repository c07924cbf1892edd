//! The way to a webhook: HTTPS, its certificate always verified.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::verifier::Verifier;

/// The largest answer, in bytes.
const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// How much of an answer that refuses is told.
const MAX_EXCERPT_LENGTH: usize = 256;

/// A webhook that is to be called.
#[derive(Clone, Debug)]
pub struct WebhookCall {
    /// Where it says it is, its parameters included.
    pub url: Url,
    /// Where to connect, for the webhook of a service: the addresses of its endpoints. Else the host of the URL is asked.
    pub addresses: Option<Vec<SocketAddr>>,
    /// The certificates that sign the webhook's, as PEM; without any, those that the system trusts.
    pub ca_bundle: Option<Bytes>,
    /// The `AdmissionReview`.
    pub body: Bytes,
    /// How long it may take in all.
    pub timeout: Duration,
}

/// Calls webhooks.
#[async_trait]
pub trait WebhookTransport: Send + Sync + fmt::Debug + 'static {
    /// The answer to a review.
    ///
    /// # Errors
    /// Why there is none, in words for whoever asked.
    async fn call(&self, call: WebhookCall) -> Result<Bytes, String>;
}

/// Calls webhooks over HTTPS.
#[derive(Debug, Default)]
pub struct HttpsTransport;

#[async_trait]
impl WebhookTransport for HttpsTransport {
    async fn call(&self, call: WebhookCall) -> Result<Bytes, String> {
        let url = call.url.clone();
        let told = |why: String| format!("Post \"{url}\": {why}");
        match timeout(call.timeout, post(call)).await {
            Ok(answer) => answer.map_err(told),
            Err(_) => Err(told("context deadline exceeded".to_owned())),
        }
    }
}

async fn post(call: WebhookCall) -> Result<Bytes, String> {
    let host = call.url.host_str().ok_or("the URL has no host")?.to_owned();
    let port = call.url.port().unwrap_or(443);
    let stream = match &call.addresses {
        Some(addresses) => connect(addresses).await?,
        None => {
            let named = format!("{host}:{port}");
            let target = named.trim_start_matches('[').replace("]:", ":");
            let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await;
            let found = found.map_err(|error| format!("dial tcp: lookup {target}: {error}"))?;
            connect(&found.collect::<Vec<_>>()).await?
        }
    };
    let name =
        ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(client(call.ca_bundle.as_deref())?));
    let stream = connector
        .connect(name, stream)
        .await
        .map_err(|error| format!("tls: failed to verify certificate: {error}"))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let _connection = driven(connection);
    let path = match call.url.query() {
        Some(query) => format!("{}?{query}", call.url.path()),
        None => call.url.path().to_owned(),
    };
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header(header::HOST, format!("{host}:{port}"))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(call.body))
        .map_err(|error| error.to_string())?;
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_RESPONSE_BYTES).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    if status.is_success() {
        return Ok(body);
    }
    let excerpt: String = String::from_utf8_lossy(&body).chars().take(MAX_EXCERPT_LENGTH).collect();
    Err(format!("the server answered {status}: {}", excerpt.trim()))
}

/// The connection runs until the guard goes.
fn driven<F>(connection: F) -> DropGuard
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        // cancel-safe: a connection that is not driven further is closed
        stopped.run_until_cancelled(connection).await.map(drop)
    });
    stop.drop_guard()
}

/// To the first that answers.
async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, String> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    let named = addresses.first().map(SocketAddr::to_string).unwrap_or_default();
    Err(format!("dial tcp {named}: connect: {last}"))
}

fn client(ca_bundle: Option<&[u8]>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let mut bundle = Vec::new();
    match ca_bundle {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate
                    .map_err(|_| "unable to load root certificates: caBundle is no PEM".to_owned())?;
                roots
                    .add(certificate.clone())
                    .map_err(|error| format!("unable to load root certificates: {error}"))?;
                bundle.push(certificate);
            }
            if roots.is_empty() {
                return Err("unable to load root certificates: caBundle has no certificate".to_owned());
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    if bundle.is_empty() {
        return Ok(config.with_root_certificates(roots).with_no_client_auth());
    }
    let verifier = Verifier::new(bundle, roots, provider).map_err(|error| error.to_string())?;
    Ok(config.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
}
