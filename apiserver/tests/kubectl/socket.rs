//! The socket: who gets in, and how a server ends.

use std::{net::SocketAddr, sync::Arc};

use kubeapi::serve::Server;
use objectstore::MemoryStore;
use rustls_pki_types::ServerName;
use testkit::within;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::CancellationToken;

use super::{
    pki::{Authority, Pair},
    world::World,
};

async fn connect(world: &World, pair: Option<&Pair>, protocols: &[&str]) -> TlsStream<TcpStream> {
    let mut config = world.authority.client_config(pair);
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let stream = TcpStream::connect(world.address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

/// The answer to a GET, all of it; an error where the connection is closed without one.
async fn get(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    within("an answer", stream.read_to_string(&mut answer)).await?;
    Ok(answer)
}

#[tokio::test]
async fn certificates_say_who_calls() {
    let world = World::new().await;
    let master = world.authority.client("admin", "system:masters");
    let node = world.authority.client("system:node:edge-1", "system:nodes");
    let rows = [
        (None, "/healthz", "200 OK", "ok"),
        (
            None,
            "/api",
            "401 Unauthorized",
            "\"reason\":\"Unauthorized\"",
        ),
        (
            Some(&node),
            "/api/v1/nodes",
            "403 Forbidden",
            "User \\\"system:node:edge-1\\\" cannot list resource",
        ),
        (Some(&node), "/version", "200 OK", "gitVersion"),
        (Some(&master), "/api/v1/nodes", "200 OK", "NodeList"),
    ];
    for (pair, path, code, text) in rows {
        let answer = get(connect(&world, pair, &["http/1.1"]).await, path)
            .await
            .unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {code}")) && answer.contains(text),
            "{path}: {answer}"
        );
    }
    // TLS 1.3 tells the client only when it reads
    let stranger = Authority::new().client("admin", "system:masters");
    assert!(
        get(connect(&world, Some(&stranger), &[]).await, "/api")
            .await
            .is_err()
    );
}

#[tokio::test]
async fn http_2_is_preferred() {
    let world = World::new().await;
    for (offered, chosen) in [(&["http/1.1", "h2"][..], "h2"), (&["http/1.1"], "http/1.1")] {
        let stream = connect(&world, None, offered).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(chosen.as_bytes()));
    }
}

#[tokio::test]
async fn without_tls_nobody_is_anybody() {
    let api = apiserver::builder(MemoryStore::new()).build();
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None, api.service())
        .await
        .unwrap();
    let (address, shutdown) = (server.local_addr(), CancellationToken::new());
    let running = tokio::spawn(server.run(shutdown.clone()));
    for (path, code) in [("/livez", "200"), ("/api/v1/pods", "401")] {
        let answer = get(TcpStream::connect(address).await.unwrap(), path)
            .await
            .unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{answer}");
    }
    shutdown.cancel();
    within("the end of the server", running).await.unwrap();
}

#[tokio::test]
async fn a_busy_port_is_named() {
    let api = apiserver::builder(MemoryStore::new()).build();
    let first = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), None, api.service())
        .await
        .unwrap();
    let address = first.local_addr();
    let error = Server::bind(address, None, api.service())
        .await
        .unwrap_err();
    let expected = format!(
        "{address} is in use by another program; stop that program, or choose another port (0 picks a free one)"
    );
    assert_eq!(error.to_string(), expected);
    // an address that is no machine's, for documentation only
    let foreign = SocketAddr::from(([192, 0, 2, 1], 0));
    let error = Server::bind(foreign, None, api.service())
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot listen on 192.0.2.1:0; check that"),
        "{error}"
    );
}

#[tokio::test]
async fn watches_are_cut_when_the_server_ends() {
    let world = World::new().await;
    let master = world.authority.client("admin", "system:masters");
    let mut stream = connect(&world, Some(&master), &["http/1.1"]).await;
    stream
        .write_all(b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut begun = String::new();
    while !begun.contains("ADDED") {
        let mut buffer = [0; 1024];
        let length = within("an answer", stream.read(&mut buffer)).await.unwrap();
        assert_ne!(length, 0, "the watch ended: {begun}");
        begun.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    let before = std::time::Instant::now();
    world.shutdown.cancel();
    within("the end of the server", world.server).await.unwrap();
    // cut off or ended, but not left open
    let mut rest = Vec::new();
    let _ = within("the end of the connection", stream.read_to_end(&mut rest)).await;
    assert!(before.elapsed().as_secs() < 30, "{:?}", before.elapsed());
    assert!(TcpStream::connect(world.address).await.is_err());
}
