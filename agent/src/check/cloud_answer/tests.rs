//! Servers of a cloud: with a wrong clock, of another cloud, silent, and away.

use std::{fs, net::Ipv4Addr, sync::Arc};

use jiff::Timestamp;
use rustls::ServerConfig;
use rustls_pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use wire::enroll::{Ca, pem_certificate};

use super::*;
use crate::{
    check::{
        Inputs, Machine, clock, cloud, hub, quic,
        report::{CheckResult, Finding},
        streams,
        tests::node_config,
    },
    cli::{InstallPaths, Stage},
    config::{Host, Transport},
};

const HOUR: Duration = Duration::from_hours(1);

/// Serves HTTPS with a certificate that `ca` signed at `signed`, and reports `date` as its time.
async fn server(ca: &Ca, signed: SystemTime, date: SystemTime) -> u16 {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let names = ["127.0.0.1"];
    let (cert, key) = ca.sign_server_for(names, HOUR * 24, signed).unwrap();
    let key = PrivateKeyDer::Sec1(key.into());
    let tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::from(cert)], key)
        .unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let date = Timestamp::try_from(date).unwrap();
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = TlsAcceptor::from(Arc::new(tls.clone())).accept(tcp).await else {
                continue;
            };
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let answer = format!("HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    port
}

/// A node whose cloud has this CA, and all of whose servers are at this port.
fn config(directory: &TempDir, ca: &Ca, port: u16) -> Config {
    let mut config = node_config(directory, "127.0.0.1");
    let tls = &config.edge_hub.tls;
    fs::create_dir_all(tls.ca.parent().unwrap()).unwrap();
    fs::write(&tls.ca, pem_certificate(ca.cert_der())).unwrap();
    let server = HostPort {
        host: "127.0.0.1".into(),
        port,
    };
    config.edge_hub.servers = vec![server.clone()];
    config.edge_hub.http_servers = vec![server];
    config
}

/// Runs the checks `cloud` and `clock`.
async fn check(directory: &TempDir, config: &Config) -> (Finding, CheckResult, Finding) {
    let paths = InstallPaths {
        config: None,
        root: directory.path().into(),
    };
    let (path, machine, host) = (paths.config(), Machine::unknown(), Host::detect());
    let inputs = Inputs::new(Stage::Node, &paths, &path, config, &machine, &host);
    (
        cloud::check(&inputs).await,
        clock::check(&inputs).await,
        hub::check(&inputs).await,
    )
}

#[tokio::test]
async fn clocks_and_certificates_of_the_cloud_are_told_apart() {
    let now = ::clock::system_now();
    let (ca, other) = (
        Ca::generate(now - HOUR * 100).unwrap(),
        Ca::generate(now).unwrap(),
    );
    let slow = "(slow)";
    for (signer, signed, date, cloud_is, clock_is) in [
        (&ca, now - HOUR, now, "ok", "within"),
        (
            &ca,
            now - HOUR,
            now + Duration::from_secs(60),
            "ok",
            "60 s slow",
        ),
        // this machine is two days behind: the certificate is not valid yet here
        (&ca, now + HOUR * 48, now + HOUR * 49, "not valid", slow),
        (
            &ca,
            now - HOUR * 72,
            now,
            "not valid",
            "the cloud's time is unknown",
        ),
        (
            &other,
            now - HOUR,
            now,
            "another CA has signed its certificate",
            "the cloud's time is unknown",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let port = server(signer, signed, date).await;
        let (cloud, clock, hub) = check(&directory, &config(&directory, &ca, port)).await;
        let (what, _) = cloud.result.texts();
        match cloud_is {
            "ok" => assert!(matches!(cloud.result, CheckResult::Passed(_)), "{cloud:?}"),
            part => assert!(
                matches!(cloud.result, CheckResult::Failed { .. }) && what.contains(part),
                "{part}: {cloud:?}"
            ),
        }
        let (what, _) = clock.texts();
        let is_expected = match clock_is {
            "(slow)" => matches!(clock, CheckResult::Failed { .. }) && what.contains("slow"),
            // a second may pass meanwhile
            "60 s slow" => matches!(clock, CheckResult::Warning { .. }) && what.contains("slow"),
            part => what.contains(part),
        };
        assert!(is_expected, "{clock_is}: {clock:?}");
        // no CloudHub: it answers without a certificate
        assert!(matches!(hub.result, CheckResult::Failed { .. }), "{hub:?}");
    }
}

#[tokio::test]
async fn each_transport_that_is_not_reached_is_reported_with_its_port() {
    let directory = tempfile::tempdir().unwrap();
    let ca = Ca::generate(::clock::system_now()).unwrap();
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let mut config = config(&directory, &ca, port);
    let (cloud, clock, hub) = check(&directory, &config).await;
    for (found, part) in [(cloud.result, "TCP port"), (hub.result, "TCP port")] {
        let (what, cure) = found.texts();
        assert!(what.contains(&port.to_string()), "{found:?}");
        assert!(cure.is_some_and(|cure| cure.contains(part)), "{found:?}");
    }
    assert!(matches!(clock, CheckResult::Skipped(_)), "{clock:?}");
    let paths = InstallPaths {
        config: None,
        root: directory.path().into(),
    };
    config.edge_hub.transport = Transport::Quic;
    let text =
        "modules: {edgeStream: {enable: true, server: '127.0.0.1:1'}, edgeHub: {heartbeat: 15}}";
    let (parsed, _) = crate::config::parse(&paths.config(), text, None, &Host::detect()).unwrap();
    config.edge_stream = parsed.edge_stream;
    let stream = config.edge_stream.as_mut().unwrap();
    stream.endpoint.server.port = port;
    stream.tls = config.edge_hub.tls.clone();
    let (path, machine, host) = (paths.config(), Machine::unknown(), Host::detect());
    let inputs = Inputs::new(Stage::Node, &paths, &path, &config, &machine, &host);
    let found = quic::check(&inputs).await.result;
    let has =
        |found: &CheckResult, part: &str| found.texts().1.is_some_and(|cure| cure.contains(part));
    assert!(has(&found, &format!("UDP port {port}")), "{found:?}");
    let found = streams::check(&inputs).await;
    assert!(has(&found, &format!("TCP port {port}")), "{found:?}");
    assert!(matches!(
        hub::check(&inputs).await.result,
        CheckResult::NotApplicable(_)
    ));
}
