//! Servers of a cloud, asked without a certificate.

use std::net::Ipv4Addr;

use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use wire::enroll::Ca;

use super::*;
use crate::edgehub::Proxy;

/// Returns the configuration of a machine that is to join at `server`.
fn config(server: HostPort) -> Config {
    Config {
        node_name: "edge-1".into(),
        transport: crate::config::Transport::WebSocket,
        servers: vec![server],
        http_servers: Vec::new(),
        proxy: Proxy::default(),
        token: None,
        project_id: "p".into(),
        in_process: None,
        ca_file: "".into(),
        cert_file: "".into(),
        key_file: "".into(),
        rotate_certificates: false,
        heartbeat: std::time::Duration::from_secs(15),
        handshake_timeout: std::time::Duration::from_secs(1),
        write_deadline: std::time::Duration::from_secs(1),
        qps: 0,
        burst: 0,
        max_message: 1024,
        recorder: Default::default(),
    }
}

/// Runs a server with a certificate of `ca` for one connection. It demands a client certificate, or answers without one.
async fn server(ca: &Ca, demands: bool) -> HostPort {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (cert, key) = ca.sign_server(["127.0.0.1"], clock::system_now()).unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(ca.cert_der().to_vec()))
        .unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
    let verifier = if demands {
        verifier
    } else {
        verifier.allow_unauthenticated()
    };
    let tls = ServerConfig::builder()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from(cert)],
            PrivateKeyDer::Sec1(key.into()),
        )
        .unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = TlsAcceptor::from(Arc::new(tls)).accept(tcp).await else {
            return;
        };
        let mut asked = [0; 1024];
        let _ = stream.read(&mut asked).await;
        let _ = stream
            .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
            .await;
        // the client ends the connection
        let _ = stream.read(&mut asked).await;
    });
    HostPort {
        host: "127.0.0.1".into(),
        port,
    }
}

#[tokio::test]
async fn a_server_without_client_certificates_is_no_cloud_hub() {
    let (ca, other) = (
        Ca::generate(clock::system_now()).unwrap(),
        Ca::generate(clock::system_now()).unwrap(),
    );
    let ask = async |server: HostPort| check_hub(&config(server), ca.cert_der()).await;
    ask(server(&ca, true).await).await.unwrap();
    let api = ask(server(&ca, false).await).await.unwrap_err();
    assert!(
        matches!(&api, HubCheckError::OtherService(_, said) if said == "HTTP/1.1 403 Forbidden"),
        "{api}"
    );
    let stranger = ask(server(&other, true).await).await.unwrap_err();
    assert!(
        matches!(stranger, HubCheckError::OtherServer(..)),
        "{stranger}"
    );
    let named = HostPort {
        host: "localhost".into(),
        ..server(&ca, true).await
    };
    let named = ask(named).await.unwrap_err();
    assert!(
        matches!(&named, HubCheckError::OtherName { names, .. } if names == "127.0.0.1"),
        "{named}"
    );
    let nobody = HostPort {
        host: "127.0.0.1".into(),
        port: 1,
    };
    assert!(matches!(
        ask(nobody).await,
        Err(HubCheckError::Unreachable(..))
    ));
}
