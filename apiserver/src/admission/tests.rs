//! Webhooks over sockets.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{HttpsTransport, WebhookCall, WebhookTransport};

/// A webhook for `hook.default.svc` and `localhost`, until the guard goes.
struct Hook {
    address: SocketAddr,
    /// Of who signed its certificate, as PEM.
    ca: String,
    _guard: DropGuard,
}

/// What is answered to a question at a path, with which code; nothing at all for `None`.
type Answers = fn(&str, Value) -> Option<(u16, Vec<u8>)>;

/// Answers as `answer` says.
async fn hook(answer: Answers) -> Hook {
    let issuer = CertifiedIssuer::self_signed(
        {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params
        },
        KeyPair::generate().unwrap(),
    )
    .unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "hook.default.svc".to_owned()];
    let certificate = CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = config
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        while let Some(Ok((stream, _))) = stopped.run_until_cancelled(listener.accept()).await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service = service_fn(move |request: hyper::Request<Incoming>| async move {
                    let path = request.uri().to_string();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    match answer(&path, serde_json::from_slice(&body).unwrap()) {
                        Some((code, body)) => Ok(Response::builder()
                            .status(code)
                            .body(Full::new(Bytes::from(body)))
                            .unwrap()),
                        None => {
                            std::future::pending::<()>().await;
                            Err("never")
                        }
                    }
                });
                let served = hyper::server::conn::http1::Builder::new();
                // whoever called has gone
                let _ended = served.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Hook {
        address,
        ca: issuer.pem(),
        _guard: stop.drop_guard(),
    }
}

fn answers(path: &str, question: Value) -> Option<(u16, Vec<u8>)> {
    match path {
        "/ok?timeout=1s" => Some((200, question.to_string().into_bytes())),
        "/broken" => Some((503, b"not now".to_vec())),
        "/large" => Some((200, vec![b' '; 5 * 1024 * 1024])),
        _ => None,
    }
}

fn call(hook: &Hook, url: &str) -> WebhookCall {
    WebhookCall {
        url: url
            .replace("PORT", &hook.address.port().to_string())
            .parse()
            .unwrap(),
        addresses: None,
        ca_bundle: Some(Bytes::from(hook.ca.clone())),
        body: Bytes::from(json!({"a": 1}).to_string()),
        timeout: Duration::from_millis(1500),
    }
}

#[tokio::test]
async fn a_webhook_is_called_over_https() {
    let hook = hook(answers).await;
    let ok = call(&hook, "https://localhost:PORT/ok?timeout=1s");
    assert_eq!(HttpsTransport.call(ok.clone()).await.unwrap(), ok.body);
    // that of a service is asked for by its name
    let service = call(&hook, "https://hook.default.svc/ok?timeout=1s");
    let service = WebhookCall {
        addresses: Some(vec![hook.address]),
        ..service
    };
    assert_eq!(HttpsTransport.call(service).await.unwrap(), ok.body);
}

#[tokio::test]
async fn why_a_webhook_cannot_be_called_is_told() {
    let hook = hook(answers).await;
    let other = self::hook(answers).await;
    let ok = call(&hook, "https://localhost:PORT/ok?timeout=1s");
    let url = ok.url.to_string();
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let cases = [
        (
            WebhookCall {
                ca_bundle: Some(Bytes::from(other.ca.clone())),
                ..ok.clone()
            },
            "tls: failed to verify certificate",
        ),
        (
            WebhookCall {
                ca_bundle: None,
                ..ok.clone()
            },
            "tls: failed to verify certificate",
        ),
        (
            WebhookCall {
                ca_bundle: Some(Bytes::from_static(b"nothing")),
                ..ok.clone()
            },
            "unable to load root certificates",
        ),
        (
            WebhookCall {
                addresses: Some(vec![hook.address]),
                ..call(&hook, "https://other.default.svc/ok")
            },
            "tls: failed to verify certificate",
        ),
        (
            WebhookCall {
                addresses: Some(vec![gone]),
                ..ok.clone()
            },
            "connect: ",
        ),
        (
            call(&hook, "https://localhost:PORT/broken"),
            "the server answered 503 Service Unavailable: not now",
        ),
        (
            call(&hook, "https://localhost:PORT/large"),
            "larger than 4194304 bytes",
        ),
        (
            call(&hook, "https://localhost:PORT/never"),
            "context deadline exceeded",
        ),
    ];
    for (call, expected) in cases {
        let asked = format!("Post \"{}\": ", call.url);
        let why = HttpsTransport.call(call).await.unwrap_err();
        assert!(
            why.starts_with(&asked) && why.contains(expected),
            "{url}: {why}, not {expected}"
        );
    }
}
