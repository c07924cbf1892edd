//! Many who connect and say nothing, or ask and do not read: whoever comes after them is served.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use kubeapi::{
    Api,
    serve::{ClientLimits, Server, ServerLimits},
};
use limits::ConnectionLimits;
use objectstore::MemoryStore;
use rustls_pki_types::ServerName;
use serde_json::json;
use testkit::{WAIT_TIMEOUT, closed, eventually, silent_tcp, within};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::pki::{Authority, Pair};

/// More than a server has connections in all.
const CROWD: usize = 2_100;

struct Served {
    authority: Authority,
    address: SocketAddr,
    api: Api,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

impl Served {
    /// With TLS, or without.
    async fn new(tls: bool, limits: ServerLimits) -> Self {
        let (authority, api) = (
            Authority::new(),
            apiserver::builder(MemoryStore::new()).build(),
        );
        let config = tls.then(|| authority.server_config());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(any, config, api.service())
            .await
            .unwrap()
            .limits(limits);
        let (address, shutdown) = (server.local_addr(), CancellationToken::new());
        let running = tokio::spawn(server.run(shutdown.clone()));
        Self {
            authority,
            address,
            api,
            shutdown,
            running,
        }
    }

    async fn connect(&self, pair: Option<&Pair>) -> impl AsyncRead + AsyncWrite + Unpin + use<> {
        let mut config = self.authority.client_config(pair);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        within("a handshake", connecting).await.unwrap()
    }

    async fn end(self) {
        self.shutdown.cancel();
        within("the end of the server", self.running).await.unwrap();
    }
}

/// Sends a request on a connection that stays open, and reads the head of the answer.
async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), path: &str) -> String {
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match within("the head of an answer", stream.read_u8()).await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn a_silent_crowd_keeps_nobody_out() {
    for tls in [false, true] {
        let served = Served::new(tls, ServerLimits::default()).await;
        let crowd = silent_tcp(served.address, CROWD).await;
        let answer = if tls {
            let master = served.authority.client("admin", "system:masters");
            ask(&mut served.connect(Some(&master)).await, "/readyz").await
        } else {
            ask(
                &mut TcpStream::connect(served.address).await.unwrap(),
                "/readyz",
            )
            .await
        };
        assert!(answer.starts_with("HTTP/1.1 200"), "tls {tls}: {answer}");
        drop(crowd);
        served.end().await;
    }
}

#[tokio::test]
async fn a_connection_on_which_nothing_is_said_is_closed() {
    let short = Duration::from_millis(50);
    let limits = ServerLimits {
        handshake: short,
        first_request: short,
        idle: short,
        ..ServerLimits::default()
    };
    for tls in [false, true] {
        let served = Served::new(tls, limits).await;
        // without a handshake, and half a head
        for said in [&b""[..], b"GET / HT"] {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(said).await.unwrap();
            closed(&mut stream).await;
        }
        if tls {
            // after the handshake
            let served = Served::new(
                tls,
                ServerLimits {
                    handshake: WAIT_TIMEOUT,
                    ..limits
                },
            )
            .await;
            closed(&mut served.connect(None).await).await;
            served.end().await;
        }
        served.end().await;
    }
    // and after a request; the first one has all the time that it wants
    let served = Served::new(
        false,
        ServerLimits {
            first_request: WAIT_TIMEOUT,
            ..limits
        },
    )
    .await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    assert!(
        ask(&mut stream, "/healthz")
            .await
            .starts_with("HTTP/1.1 200")
    );
    closed(&mut stream).await;
    served.end().await;
}

#[tokio::test]
async fn administrators_get_in_where_all_others_watch() {
    let connections = ConnectionLimits {
        established: 4,
        reserved: 1,
        pending: 4,
        per_address: 100,
    };
    let served = Served::new(
        true,
        ServerLimits {
            connections,
            ..ServerLimits::default()
        },
    )
    .await;
    let master = served.authority.client("admin", "system:masters");
    let mut watches = Vec::new();
    for _ in 0..3 {
        let mut stream = served.connect(Some(&master)).await;
        let head = ask(&mut stream, "/api/v1/namespaces?watch=1").await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        watches.push(stream);
    }
    let answer = ask(&mut served.connect(None).await, "/healthz").await;
    assert!(
        answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 1"),
        "{answer}"
    );
    let answer = ask(&mut served.connect(Some(&master)).await, "/api/v1/nodes").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(watches);
    served.end().await;
}

/// Writes `count` config maps that make a list of that many times 512 KiB.
async fn large_objects(api: &Api, count: usize) {
    use kube::api::PostParams;
    let client = api.client("default");
    let namespace = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
    kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::default_namespaced(client);
    for number in 0..count {
        let map = json!({"metadata": {"name": format!("m-{number}")}, "data": {"a": "x".repeat(512 * 1024)}});
        maps.create(
            &PostParams::default(),
            &serde_json::from_value(map).unwrap(),
        )
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn answers_that_are_not_read_are_bounded_and_end() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let client = ClientLimits {
        unread_bytes: 20 << 20,
        ..ServerLimits::default().client
    };
    let limits = ServerLimits {
        client,
        write: Duration::from_millis(500),
        ..ServerLimits::default()
    };
    let served = Served::new(true, limits).await;
    large_objects(&served.api, 16).await;
    let master = served.authority.client("admin", "system:masters");
    let mut unread = Vec::new();
    let mut codes = Vec::new();
    for _ in 0..20 {
        let mut stream = served.connect(Some(&master)).await;
        let head = ask(&mut stream, MAPS).await;
        codes.push(head.get(9..12).unwrap_or_default().to_owned());
        unread.push(stream);
    }
    let given = codes.iter().filter(|code| *code == "200").count();
    assert!(
        (2..20).contains(&given) && codes.iter().all(|code| code == "200" || code == "429"),
        "{codes:?}"
    );
    // another client has its own share
    let other = served.authority.client("other", "system:masters");
    assert!(
        ask(&mut served.connect(Some(&other)).await, MAPS)
            .await
            .starts_with("HTTP/1.1 200")
    );
    // what is not read is cut off, and does not come to its end
    let mut first = unread.remove(0);
    let mut rest = Vec::new();
    eventually("an answer once the others' are cut off", async || {
        let again = ask(&mut served.connect(Some(&master)).await, MAPS).await;
        if again.starts_with("HTTP/1.1 200") {
            Ok(())
        } else {
            Err(again)
        }
    })
    .await;
    let _ = within("the end of a connection", first.read_to_end(&mut rest)).await;
    assert!(rest.len() < 8 << 20, "{}", rest.len());
    served.end().await;
}
