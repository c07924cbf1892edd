//! Tests of users, rules and certificates over sockets.

use std::{net::SocketAddr, path::Path, sync::Arc};

use mqtt::{Access, Action, Config, Listener, Rule, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use rustls_pki_types::{PrivateKeyDer, ServerName};
use testkit::within;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    bytes::{ack, clean5, clean311, connect5, connect311, packet, publish, subscribe, text},
    support::{Broker, Raw, plain},
};

fn own_topics() -> Rule {
    Rule {
        user: None,
        action: Action::All,
        filter: "device/%u/#".into(),
        allow: true,
    }
}

#[tokio::test]
async fn passwords_are_checked() {
    let access = Access::default()
        .with_user("u", b"secret")
        .with_anonymous(false);
    let broker = Broker::start(Config { access, ..plain() }).await;
    let with = |password: &str| connect311(0xC2, 0, &[&text("a"), &text("u"), &text(password)]);
    for (connect, code) in [
        (with("wrong"), 4),
        (connect311(2, 0, &[&text("a")]), 5),
        (with("secret"), 0),
    ] {
        let mut client = Raw::open(broker.address).await;
        client.send(&connect).await;
        client.expect(&[0x20, 2, 0, code]).await;
    }
    let with = |password: &str| connect5(0xC2, &[], &[&text("a"), &text("u"), &text(password)]);
    for (connect, code) in [(with("wrong"), 0x86), (clean5("a"), 0x87)] {
        let mut client = Raw::open(broker.address).await;
        client.send(&connect).await;
        assert_eq!(client.packet().await.unwrap()[2..4], [0, code]);
        client.closed().await;
    }
    Raw::connect(broker.address, &with("secret")).await;
    broker.stop().await;
}

#[tokio::test]
async fn a_session_is_its_users() {
    let access = Access::default().with_user("u", b"p").with_user("v", b"p");
    let broker = Broker::start(Config { access, ..plain() }).await;
    let with = |user: &str| connect311(0xC0, 0, &[&text("a"), &text(user), &text("p")]);
    let mut mine = Raw::connect(broker.address, &with("u")).await;
    let mut thief = Raw::open(broker.address).await;
    thief.send(&with("v")).await;
    thief.expect(&[0x20, 2, 0, 5]).await;
    mine.send(&[0xC0, 0]).await;
    mine.expect(&[0xD0, 0]).await;
    drop(mine);
    broker.stop().await;
}

#[tokio::test]
async fn a_device_has_its_own_topics_only() {
    let rule = Rule {
        filter: "device/%c/#".into(),
        ..own_topics()
    };
    let broker = Broker::start(Config {
        access: Access::default().with_rule(rule),
        ..plain()
    })
    .await;
    let mut heard = broker.handle.subscribe("#", 8).await.unwrap();
    let mut client = Raw::connect(broker.address, &clean5("d1")).await;
    client
        .send(&publish(2, "device/d2/x", 1, Some(&[]), b"no"))
        .await;
    client.expect(&packet(0x40, &[&[0, 1, 0x87]])).await;
    client
        .send(&publish(4, "device/d2/x", 1, Some(&[]), b"no"))
        .await;
    client.expect(&packet(0x50, &[&[0, 1, 0x87]])).await;
    // that exchange is finished, so a message with its identifier is a new one
    client
        .send(&publish(4, "device/d1/x", 1, Some(&[]), b"other"))
        .await;
    client.expect(&ack(0x50, 1)).await;
    assert_eq!(
        within("a message", heard.recv()).await.unwrap().payload[..],
        *b"other"
    );
    client.send(&subscribe(2, Some(&[]), "device/+/x", 0)).await;
    client.expect(&[0x90, 4, 0, 2, 0, 0x87]).await;
    // MQTT 3.1.1 cannot refuse a message: it is acknowledged and dropped
    let mut older = Raw::connect(broker.address, &clean311("d3")).await;
    older.send(&publish(2, "device/d2/x", 1, None, b"no")).await;
    older.expect(&ack(0x40, 1)).await;
    drop(older);
    client
        .send(&publish(2, "device/d1/x", 3, Some(&[]), b"yes"))
        .await;
    client.expect(&ack(0x40, 3)).await;
    assert_eq!(
        within("a message", heard.recv()).await.unwrap().payload[..],
        *b"yes"
    );
    let will = connect311(6, 0, &[&text("d1"), &text("device/d2/x"), &text("gone")]);
    let mut other = Raw::open(broker.address).await;
    other.send(&will).await;
    other.expect(&[0x20, 2, 0, 5]).await;
    drop(client);
    broker.stop().await;
}

/// Issues a certificate for `name` with its key, signed by `issuer`.
fn issue(issuer: &CertifiedIssuer<'_, KeyPair>, name: &str) -> (rcgen::Certificate, KeyPair) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.signed_by(&key, issuer).unwrap(), key)
}

fn write(directory: &Path, name: &str, pem: &str) -> std::path::PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, pem).unwrap();
    path
}

async fn dial(
    address: SocketAddr,
    authority: &CertifiedIssuer<'_, KeyPair>,
    identity: Option<&(rcgen::Certificate, KeyPair)>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.as_ref().der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder
                .with_client_auth_cert(vec![certificate.der().clone()], key)
                .unwrap()
        }
    };
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, TcpStream::connect(address).await?)
        .await
}

#[tokio::test]
async fn a_client_certificate_is_the_user() {
    let directory = tempfile::tempdir().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let (server, device) = (issue(&authority, "broker"), issue(&authority, "d1"));
    let tls = Tls {
        certificates: write(directory.path(), "server.crt", &server.0.pem()),
        key: write(directory.path(), "server.key", &server.1.serialize_pem()),
        client_authorities: Some(write(directory.path(), "ca.crt", &authority.pem())),
    };
    let listeners = vec![Listener {
        address: "127.0.0.1:0".parse().unwrap(),
        tls: Some(tls),
    }];
    let access = Access::default()
        .with_anonymous(false)
        .with_rule(own_topics());
    let broker = Broker::start(Config {
        listeners,
        access,
        ..Config::default()
    })
    .await;
    let mut heard = broker.handle.subscribe("#", 8).await.unwrap();

    let mut client = dial(broker.address, &authority, Some(&device))
        .await
        .unwrap();
    let publishes = [
        publish(0, "device/d2/x", 0, None, b"no"),
        publish(0, "device/d1/x", 0, None, b"yes"),
    ]
    .concat();
    client
        .write_all(&[connect311(2, 0, &[&text("any")]), publishes].concat())
        .await
        .unwrap();
    assert_eq!(
        within("a message", heard.recv()).await.unwrap().payload[..],
        *b"yes"
    );
    drop(client);

    let mut stranger = match dial(broker.address, &authority, None).await {
        Ok(stranger) => stranger,
        Err(_) => return broker.stop().await,
    };
    // In TLS 1.3 the client learns of the refusal after its handshake.
    let refused = within("the refusal", stranger.read(&mut [0; 16])).await;
    assert!(refused.is_err() || refused.is_ok_and(|count| count == 0));
    broker.stop().await;
}

#[tokio::test]
async fn files_that_are_not_pem_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "empty.pem", "");
    let tls = Tls {
        certificates: path.clone(),
        key: path.clone(),
        client_authorities: None,
    };
    let listeners = vec![Listener {
        address: "127.0.0.1:0".parse().unwrap(),
        tls: Some(tls),
    }];
    let error = mqtt::bind(Config {
        listeners,
        ..Config::default()
    })
    .await
    .unwrap_err();
    assert!(error.to_string().contains("empty.pem"), "{error}");
}
