//! MetaServer over TLS on a disconnected node: who is let in, and what they may do.

use std::path::Path;

use http::header::AUTHORIZATION;
use kube::{Client, Config};
use objectstore::MemoryStore;
use serde_json::json;
use wire::enroll::{Ca, Csr, Usage, pem_certificate, pem_ec_private_key};

use super::{super::desired::Desired, *};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

fn files(ca: &Ca, directory: &Path) -> TlsFiles {
    let (cert, key) = ca.sign_server(["127.0.0.1"], clock::system_now()).unwrap();
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    TlsFiles {
        ca: write("ca.crt", pem_certificate(ca.cert_der())),
        cert: write("server.crt", pem_certificate(&cert)),
        key: write("server.key", pem_ec_private_key(&key)),
    }
}

/// Returns the code that a client with this certificate and key or this token gets.
async fn code(
    ca: &Ca,
    url: &str,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    token: Option<&str>,
    path: &str,
) -> u16 {
    let mut config = Config::new(url.parse().unwrap());
    config.root_cert = Some(vec![ca.cert_der().to_vec()]);
    config.default_retry = false;
    if let Some((cert, key)) = identity {
        let base64 =
            |text: String| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        config.auth_info.client_certificate_data = Some(base64(pem_certificate(&cert)));
        config.auth_info.client_key_data = Some(base64(pem_ec_private_key(&key)).into());
    }
    let mut request = http::Request::get(path);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(kube::client::Body::empty()).unwrap();
    let client = Client::try_from(config).unwrap();
    client
        .send(request)
        .await
        .map_or(0, |answer| answer.status().as_u16())
}

/// Protected as by default, with the files in `directory`.
pub(super) fn loopback(directory: &Path) -> Loopback {
    Loopback {
        anonymous: false,
        directory: directory.to_owned(),
        group: None,
        hosts: Vec::new(),
    }
}

fn node_certificate(ca: &Ca, name: &str) -> (Vec<u8>, Vec<u8>) {
    let csr = Csr::for_node(name).unwrap();
    let day = std::time::Duration::from_secs(86400);
    (
        ca.sign_edge(csr.der(), &[Usage::ClientAuth], day, clock::system_now())
            .unwrap(),
        csr.key_sec1_der(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_callers_get_as_far_as_they_may() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let (ca, other) = (
        Ca::generate(clock::system_now()).unwrap(),
        Ca::generate(clock::system_now()).unwrap(),
    );
    let own = Desired::new(MemoryStore::new(), "edge-1".into());
    access::tests::fill(&own).await;
    let token = access::tests::held_token(&own).await;
    let pods = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let config = MetaServerConfig {
        address: ([127, 0, 0, 1], 0).into(),
        copies: MemoryStore::new(),
        authentication: Authentication::Accounts(AccountAuthentication {
            // nothing may listen there: the other address is served all the same
            pods_address: pods.local_addr().unwrap(),
            tls: files(&ca, directory.path()),
            requested: false,
            tokens: TokenRules {
                issuers: vec![ISSUER.into()],
                audiences: Vec::new(),
                key_files: Vec::new(),
            },
            in_cluster: None,
            directory: directory.path().to_owned(),
        }),
    };
    assert_eq!(config.service().unwrap()["spec"]["clusterIP"], "127.0.0.1");
    let (server, _) = new(config, "edge-1", own, access::tests::hub());
    let (mut listening, shutdown) = (server.listening(), CancellationToken::new());
    let running = tokio::spawn(server.run(shutdown.clone()));
    let address = listening.wait_for(Option::is_some).await.unwrap().unwrap();
    let url = format!("https://{address}");
    let [maps, pods] =
        ["configmaps", "pods"].map(|plural| format!("/api/v1/namespaces/ns/{plural}"));
    let (maps, pods) = (maps.as_str(), pods.as_str());

    let node = || Some(node_certificate(&ca, "edge-1"));
    let admin = || Some(ca.sign_admin(clock::system_now()).unwrap());
    let rows = [
        ("anybody may read discovery", None, None, "/apis", 200),
        ("nobody may read objects", None, None, maps, 403),
        ("the node may", node(), None, pods, 200),
        ("an administrator may", admin(), None, pods, 200),
        (
            "another node may not",
            Some(node_certificate(&ca, "edge-2")),
            None,
            maps,
            403,
        ),
        (
            "an account may as told, which is not known without the cloud",
            None,
            Some(token.as_str()),
            maps,
            503,
        ),
        (
            "an account may not otherwise",
            None,
            Some(token.as_str()),
            "/api/v1/namespaces/ns/secrets",
            403,
        ),
        (
            "a wrong token is refused",
            None,
            Some("a.b.c"),
            "/apis",
            401,
        ),
        (
            "a certificate of another CA gets no connection",
            Some(node_certificate(&other, "edge-1")),
            None,
            maps,
            0,
        ),
    ];
    for (what, identity, token, path, expected) in rows {
        assert_eq!(
            code(&ca, &url, identity, token, path).await,
            expected,
            "{what}"
        );
    }
    assert_eq!(
        code(&other, &url, None, None, "/apis").await,
        0,
        "a client does not trust another CA's server"
    );
    assert_eq!(
        code(&ca, &format!("http://{address}"), None, None, "/apis").await,
        0,
        "nothing is served in plain"
    );
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn missing_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let ca = Ca::generate(clock::system_now()).unwrap();
    let good = files(&ca, directory.path());
    let missing = TlsFiles {
        key: directory.path().join("none"),
        ..good.clone()
    };
    let error = tls::config(&missing).unwrap_err().to_string();
    assert!(
        error.contains("none") && error.contains("tlsPrivateKeyFile"),
        "{error}"
    );
    let swapped = TlsFiles {
        cert: good.key.clone(),
        ..good
    };
    assert!(tls::config(&swapped).is_err());
    assert_eq!(
        json!(
            MetaServerConfig {
                address: ([127, 0, 0, 1], 0).into(),
                copies: MemoryStore::new(),
                authentication: Authentication::Loopback(loopback(Path::new("/")))
            }
            .service()
        ),
        json!(null)
    );
}
