//! The way to a webhook: HTTPS, its certificate always verified.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::verifier::Verifier;

/// The largest answer, in bytes.
pub(crate) const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

/// The most redirects that are followed, as in Go's client.
const MAX_REDIRECTS: usize = 10;

/// How much of a refusing answer is reported.
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
    /// The `AdmissionReview` or `ConversionReview`.
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
    /// Why there is no answer, as text for the client.
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

/// An answer, or where it is.
enum Answer {
    Body(Bytes),
    Redirect(StatusCode, Url),
}

/// Posts the review, and follows redirects as the API server's client does: to a 301, 302 or 303 with a GET, to a 307 or 308 with the
/// review once more.
async fn post(call: WebhookCall) -> Result<Bytes, String> {
    let (mut url, mut body) = (call.url.clone(), Some(call.body.clone()));
    for _ in 0..=MAX_REDIRECTS {
        match ask(&call, &url, body.clone()).await? {
            Answer::Body(body) => return Ok(body),
            Answer::Redirect(status, to) => {
                if to.scheme() != "https" {
                    return Err(format!("the server redirects to {to}, which is not HTTPS"));
                }
                url = to;
                if !matches!(
                    status,
                    StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
                ) {
                    body = None;
                }
            }
        }
    }
    Err(format!("stopped after {MAX_REDIRECTS} redirects"))
}

/// Sends one request: a POST of `body`, or a GET without one.
async fn ask(call: &WebhookCall, url: &Url, body: Option<Bytes>) -> Result<Answer, String> {
    let host = url.host_str().ok_or("the URL has no host")?.to_owned();
    let port = url.port().unwrap_or(443);
    let stream = open(call, url, &host, port).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let _connection = spawn_connection(connection);
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let mut request = Request::builder()
        .method(if body.is_some() {
            Method::POST
        } else {
            Method::GET
        })
        .uri(path)
        .header(header::HOST, format!("{host}:{port}"))
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission");
    if body.is_some() {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let request = request
        .body(Full::new(body.unwrap_or_default()))
        .map_err(|error| error.to_string())?;
    let answer = sender
        .send_request(request)
        .await
        .map_err(|error| error.to_string())?;
    let status = answer.status();
    if let Some(to) = redirect(status, answer.headers(), url)? {
        return Ok(Answer::Redirect(status, to));
    }
    let body = Limited::new(answer.into_body(), MAX_RESPONSE_BYTES)
        .collect()
        .await;
    let body = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => format!("the answer is larger than {MAX_RESPONSE_BYTES} bytes"),
        false => error.to_string(),
    });
    let body = body?.to_bytes();
    if status.is_success() {
        return Ok(Answer::Body(body));
    }
    let excerpt: String = String::from_utf8_lossy(&body)
        .chars()
        .take(MAX_EXCERPT_LENGTH)
        .collect();
    Err(format!("the server answered {status}: {}", excerpt.trim()))
}

/// Returns where an answer redirects to; `None` for any other, also one that does not say where.
fn redirect(status: StatusCode, headers: &HeaderMap, from: &Url) -> Result<Option<Url>, String> {
    let follows = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = headers.get(header::LOCATION).filter(|_| follows) else {
        return Ok(None);
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    let to = from.join(&location);
    to.map(Some)
        .map_err(|error| format!("failed to parse Location header: {error}"))
}

/// Opens a connection, to the endpoints of the webhook's service where `url` is on its host.
async fn open(
    call: &WebhookCall,
    url: &Url,
    host: &str,
    port: u16,
) -> Result<TlsStream<TcpStream>, String> {
    let is_own = url.host() == call.url.host() && port == call.url.port().unwrap_or(443);
    let stream = match call.addresses.as_ref().filter(|_| is_own) {
        Some(addresses) => connect(addresses).await?,
        None => {
            let named = format!("{host}:{port}");
            let target = named.trim_start_matches('[').replace("]:", ":");
            let found = tokio::net::lookup_host((host.trim_matches(['[', ']']), port)).await;
            let found = found.map_err(|error| format!("dial tcp: lookup {target}: {error}"))?;
            connect(&found.collect::<Vec<_>>()).await?
        }
    };
    shake_hands(host, stream, call.ca_bundle.as_deref(), None).await
}

/// A client certificate, DER, and its key, SEC1 DER.
pub(crate) struct ClientCertificate {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// Connects to the first of `addresses` that answers, as `host`.
///
/// # Errors
/// Why there is no connection, as text for the client.
pub(crate) async fn connect_tls(
    host: &str,
    addresses: &[SocketAddr],
    ca_bundle: Option<&[u8]>,
    certificate: Option<&ClientCertificate>,
) -> Result<TlsStream<TcpStream>, String> {
    let stream = connect(addresses).await?;
    shake_hands(host, stream, ca_bundle, certificate).await
}

async fn shake_hands(
    host: &str,
    stream: TcpStream,
    ca_bundle: Option<&[u8]>,
    certificate: Option<&ClientCertificate>,
) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())
        .map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(client(ca_bundle, certificate)?));
    connector
        .connect(name, stream)
        .await
        .map_err(|error| format!("tls: failed to verify certificate: {error}"))
}

/// The connection runs until the guard goes.
pub(crate) fn spawn_connection<F>(connection: F) -> DropGuard
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
    let named = addresses
        .first()
        .map(SocketAddr::to_string)
        .unwrap_or_default();
    // as Go writes it: without the number
    let why = last.to_string().to_lowercase();
    let why = why.split(" (os error").next().unwrap_or_default();
    Err(format!("dial tcp {named}: connect: {why}"))
}

fn client(
    ca_bundle: Option<&[u8]>,
    certificate: Option<&ClientCertificate>,
) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let mut bundle = Vec::new();
    match ca_bundle {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|_| {
                    "unable to load root certificates: caBundle is no PEM".to_owned()
                })?;
                roots
                    .add(certificate.clone())
                    .map_err(|error| format!("unable to load root certificates: {error}"))?;
                bundle.push(certificate);
            }
            if roots.is_empty() {
                return Err(
                    "unable to load root certificates: caBundle has no certificate".to_owned(),
                );
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
    let config = if bundle.is_empty() {
        config.with_root_certificates(roots)
    } else {
        let verifier = Verifier::new(bundle, roots, provider).map_err(|error| error.to_string())?;
        config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
    };
    let Some(ClientCertificate { certificate, key }) = certificate else {
        return Ok(config.with_no_client_auth());
    };
    let key = PrivateKeyDer::Sec1(key.clone().into());
    config
        .with_client_auth_cert(vec![certificate.clone().into()], key)
        .map_err(|error| format!("the certificate of the front proxy cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http_body_util::combinators::BoxBody;
    use hyper::{body::Incoming, service::service_fn};
    use rcgen::{CertificateParams, KeyPair};
    use rustls::ServerConfig;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    /// A server at `127.0.0.1` that redirects by its paths, and notes the requests.
    struct Server {
        address: SocketAddr,
        ca: Bytes,
        seen: Arc<Mutex<Vec<String>>>,
        _stop: DropGuard,
    }

    impl Server {
        async fn start() -> Self {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
            let certificate = params.self_signed(&key).unwrap();
            let config = ServerConfig::builder_with_provider(Arc::new(
                rustls::crypto::ring::default_provider(),
            ))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(config));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let seen = Arc::new(Mutex::new(Vec::new()));
            let noted = Arc::clone(&seen);
            let stop = spawn_connection(async move {
                loop {
                    let Ok((stream, _)) = listener.accept().await else {
                        continue;
                    };
                    let (acceptor, noted) = (acceptor.clone(), Arc::clone(&noted));
                    tokio::spawn(async move {
                        let stream = TokioIo::new(acceptor.accept(stream).await.unwrap());
                        let answer = service_fn(move |request| answer(request, Arc::clone(&noted)));
                        // a client that has its answer leaves
                        let _ = hyper::server::conn::http1::Builder::new()
                            .serve_connection(stream, answer)
                            .await;
                    });
                }
            });
            Self {
                address,
                ca: certificate.pem().into(),
                seen,
                _stop: stop,
            }
        }

        async fn call(&self, path: &str) -> Result<Bytes, String> {
            let call = WebhookCall {
                url: Url::parse(&format!("https://{}{path}", self.address)).unwrap(),
                addresses: None,
                ca_bundle: Some(self.ca.clone()),
                body: Bytes::from_static(b"review"),
                timeout: Duration::from_secs(30),
            };
            HttpsTransport.call(call).await
        }
    }

    async fn answer(
        request: Request<Incoming>,
        seen: Arc<Mutex<Vec<String>>>,
    ) -> Result<http::Response<BoxBody<Bytes, std::convert::Infallible>>, hyper::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path = parts.uri.path().to_owned();
        seen.lock().unwrap().push(format!(
            "{} {path} {}",
            parts.method,
            String::from_utf8_lossy(&body)
        ));
        let (status, location) = match path.as_str() {
            "/301" | "/302" | "/303" | "/307" | "/308" => {
                (path[1..].parse().unwrap(), Some("/end"))
            }
            "/loop" => (307, Some("/loop")),
            "/plain" => (307, Some("http://127.0.0.1/end")),
            "/nowhere" => (302, None),
            _ => (200, None),
        };
        let mut answer = http::Response::builder().status(status);
        if let Some(location) = location {
            answer = answer.header(header::LOCATION, location);
        }
        Ok(answer
            .body(Full::new(Bytes::from_static(b"answered")).boxed())
            .unwrap())
    }

    #[tokio::test]
    async fn redirects_are_followed_as_go_follows_them() {
        let server = Server::start().await;
        let rows = [
            ("/end", &["POST /end review"][..]),
            ("/301", &["POST /301 review", "GET /end "]),
            ("/302", &["POST /302 review", "GET /end "]),
            ("/303", &["POST /303 review", "GET /end "]),
            ("/307", &["POST /307 review", "POST /end review"]),
            ("/308", &["POST /308 review", "POST /end review"]),
        ];
        for (path, expected) in rows {
            assert_eq!(server.call(path).await.unwrap(), "answered", "{path}");
            assert_eq!(
                std::mem::take(&mut *server.seen.lock().unwrap()),
                expected,
                "{path}"
            );
        }
    }

    #[tokio::test]
    async fn redirects_end_and_lead_to_nothing_that_is_not_encrypted() {
        let server = Server::start().await;
        let rows = [
            ("/loop", "stopped after 10 redirects"),
            (
                "/plain",
                "the server redirects to http://127.0.0.1/end, which is not HTTPS",
            ),
            ("/nowhere", "the server answered 302 Found: answered"),
        ];
        for (path, expected) in rows {
            let told = server.call(path).await.unwrap_err();
            assert_eq!(
                told,
                format!("Post \"https://{}{path}\": {expected}", server.address)
            );
        }
        assert_eq!(
            server
                .seen
                .lock()
                .unwrap()
                .iter()
                .filter(|one| one.contains("/loop"))
                .count(),
            11
        );
    }
}
