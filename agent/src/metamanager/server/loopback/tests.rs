//! Other users of this machine, and web pages in a browser on it, against a MetaServer that does not check accounts.

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path};

use http::Request;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use objectstore::MemoryStore;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        super::{desired::Desired, response::error_response},
        Authentication, MetaServerConfig, MetaServerError, access, new,
        route::{Route, route},
        tests::loopback,
    },
    *,
};

/// Objects that a node can list without the cloud.
const PODS: &str = "/api/v1/namespaces/ns/pods";

/// Returns the code with which a request with these headers is refused; 200 if it may go on.
fn code(clients: &LocalClients, uri: &str, headers: &[(&str, &str)]) -> u16 {
    let request = headers
        .iter()
        .fold(Request::get(uri), |request, (name, value)| {
            request.header(*name, *value)
        });
    let (parts, ()) = request.body(()).unwrap().into_parts();
    clients.authenticate(&parts).map_or_else(
        |refused| error_response(&refused).status().as_u16(),
        |()| 200,
    )
}

#[test]
fn names_and_origins_of_other_sites_are_refused() {
    let config = Loopback {
        hosts: vec!["node.example".into()],
        anonymous: true,
        ..loopback(Path::new("/"))
    };
    let clients = LocalClients::new(&config, None);
    for (host, expected) in [
        ("127.0.0.1:10550", 200),
        ("127.0.0.9", 200),
        ("[::1]:10550", 200),
        ("LocalHost:10550", 200),
        ("node.example:10550", 200),
        // a name of an attacker that resolves to 127.0.0.1
        ("attacker.example:10550", 421),
        ("127.0.0.1.attacker.example", 421),
        ("localhost.attacker.example", 421),
        ("127.0.0.1@attacker.example", 421),
        ("0.0.0.0:10550", 421),
        ("192.0.2.1:10550", 421),
        ("", 421),
        ("a b", 421),
    ] {
        assert_eq!(
            code(&clients, PODS, &[("host", host)]),
            expected,
            "{host:?}"
        );
    }
    for (origin, expected) in [
        ("http://127.0.0.1:10550", 200),
        // pages of another server of this machine, or of an unknown one
        ("http://127.0.0.1:8080", 403),
        ("http://127.0.0.1", 403),
        ("http://127.0.0.1:0", 403),
        ("http://127.0.0.1:99999", 403),
        ("https://127.0.0.1:10550", 403),
        ("http://localhost:10550", 403),
        ("http://[::1]:10550", 403),
        ("http://127.0.0.1:10550@127.0.0.1:10550", 403),
        ("127.0.0.1:10550", 403),
        ("https://node.example", 403),
        ("https://attacker.example", 403),
        ("http://attacker.example:10550", 403),
        ("null", 403),
        ("", 403),
    ] {
        let headers = [("host", "127.0.0.1:10550"), ("origin", origin)];
        assert_eq!(code(&clients, PODS, &headers), expected, "{origin:?}");
    }
    let named = |host, origin| code(&clients, PODS, &[("host", host), ("origin", origin)]);
    assert_eq!(
        named("Node.Example", "http://node.example"),
        200,
        "the default port"
    );
    assert_eq!(named("node.example:80", "http://node.example"), 200);
    assert_eq!(named("[::1]:10550", "http://[::1]:10550"), 200);
    let over_tls = LocalClients::new(
        &Loopback {
            anonymous: false,
            ..config.clone()
        },
        None,
    );
    let headers = |origin| [("host", "127.0.0.1:10550"), ("origin", origin)];
    assert_eq!(
        code(&over_tls, PODS, &headers("https://127.0.0.1:10550")),
        200
    );
    assert_eq!(
        code(&over_tls, PODS, &headers("http://127.0.0.1:10550")),
        403
    );
    assert_eq!(code(&clients, PODS, &[]), 421, "no host");
    assert_eq!(
        code(
            &clients,
            "http://attacker.example/api",
            &[("host", "localhost")]
        ),
        421,
        "two names"
    );
    assert_eq!(
        code(&clients, "https://localhost/api", &[]),
        200,
        "HTTP/2 names it there"
    );
    assert_eq!(
        code(
            &clients,
            PODS,
            &[("host", "localhost"), ("host", "attacker.example")]
        ),
        421
    );
}

#[test]
fn logs_and_sessions_need_a_token() {
    let may = |clients: &LocalClients| {
        ["log", "portforward", "exec", "attach"].map(|part| {
            let uri = format!("/api/v1/namespaces/ns/pods/p/{part}")
                .parse()
                .unwrap();
            let Route::Objects(ask) = route(&http::Method::GET, &uri) else {
                panic!("no route: {part}")
            };
            clients.authorize(&ask).is_ok()
        })
    };
    let alone = loopback(Path::new("/"));
    let shared = Loopback {
        group: Some("edge".into()),
        ..alone.clone()
    };
    assert_eq!(may(&LocalClients::new(&alone, Some("token"))), [true; 4]);
    assert_eq!(
        may(&LocalClients::new(&shared, Some("token"))),
        [true, true, false, false]
    );
    assert_eq!(
        may(&LocalClients::new(
            &Loopback {
                anonymous: true,
                ..alone
            },
            None
        )),
        [false; 4]
    );
}

/// A MetaServer of a node that has a pod and its objects.
struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    running: JoinHandle<Result<(), MetaServerError>>,
}

impl Running {
    async fn start(loopback: Loopback) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let own = Desired::new(MemoryStore::new(), "edge-1".into());
        access::tests::fill(&own).await;
        let config = MetaServerConfig {
            address: ([127, 0, 0, 1], 0).into(),
            copies: MemoryStore::new(),
            authentication: Authentication::Loopback(loopback),
        };
        let (server, _) = new(config, "edge-1", own, access::tests::hub());
        let (mut listening, shutdown) = (server.listening(), CancellationToken::new());
        let running = tokio::spawn(server.run(shutdown.clone()));
        let address = listening.wait_for(Option::is_some).await.unwrap().unwrap();
        Self {
            address,
            shutdown,
            running,
        }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.running.await.unwrap().unwrap();
    }

    /// Returns the first line of the answer to a plain request; empty if there is none.
    async fn plain(&self, path: &str, headers: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    }
}

/// Returns a client of the kubeconfig, with another token if one is given.
async fn client(directory: &Path, token: Option<&str>) -> Client {
    let kubeconfig = Kubeconfig::read_from(directory.join(KUBECONFIG)).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.default_retry = false;
    if let Some(token) = token {
        config.auth_info.token = Some(token.to_owned().into()).filter(|_| !token.is_empty());
    }
    Client::try_from(config).unwrap()
}

async fn answer(client: &Client, request: Request<Vec<u8>>) -> u16 {
    client
        .send(request.map(kube::client::Body::from))
        .await
        .unwrap()
        .status()
        .as_u16()
}

async fn read(client: &Client, path: &str) -> u16 {
    answer(client, Request::get(path).body(Vec::new()).unwrap()).await
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread")]
async fn only_readers_of_the_kubeconfig_are_authenticated() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::start(loopback(directory.path())).await;
    for file in [KUBECONFIG, "metaserver-loopback.key"] {
        assert_eq!(mode(&directory.path().join(file)), 0o600, "{file}");
    }
    let root = client(directory.path(), None).await;
    assert_eq!(read(&root, PODS).await, 200);
    assert_eq!(read(&root, "/apis").await, 200);
    for path in [
        "/api/v1/secrets",
        "/api/v1/namespaces/ns/secrets",
        "/api/v1/namespaces/ns/secrets/s?watch=1",
    ] {
        assert_eq!(
            read(&root, path).await,
            403,
            "{path}: only with requireAuthorization"
        );
    }
    let token = "/api/v1/namespaces/ns/serviceaccounts/default/token";
    assert_eq!(
        answer(&root, Request::post(token).body(b"{}".to_vec()).unwrap()).await,
        403
    );

    for token in ["", "0000", &"0".repeat(64)] {
        let other = client(directory.path(), Some(token)).await;
        for path in [
            PODS,
            "/api/v1/secrets",
            "/apis",
            "/openapi/v3",
            "/api/v1/nodes/edge-1",
        ] {
            assert_eq!(
                read(&other, path).await,
                401,
                "{path} with the token {token:?}"
            );
        }
        let delete = Request::delete("/api/v1/namespaces/ns/pods/web")
            .body(Vec::new())
            .unwrap();
        assert_eq!(answer(&other, delete).await, 401);
        assert_eq!(
            read(&other, "/healthz").await,
            200,
            "as Kubernetes lets everybody"
        );
    }
    assert!(
        !server.plain(PODS, "host: localhost").await.contains("200"),
        "nothing is served in plain"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_credentials_stay_over_restarts_unless_others_could_read_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(KUBECONFIG);
    let config = || loopback(directory.path());
    Running::start(config()).await.stop().await;
    let before = client(directory.path(), None).await;
    let server = Running::start(Loopback {
        hosts: vec!["node.example".into()],
        ..config()
    })
    .await;
    let kept = token(&path);
    server.stop().await;
    let server = Running::start(config()).await;
    assert_eq!(token(&path), kept);
    drop(before);

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    server.stop().await;
    let server = Running::start(config()).await;
    assert_ne!(token(&path), kept, "it was open to all");
    assert_eq!(mode(&path), 0o600);
    let stolen = client(directory.path(), Some(&kept)).await;
    assert_eq!(read(&stolen, PODS).await, 401);
    server.stop().await;

    let group = nix::unistd::Gid::effective().to_string();
    let server = Running::start(Loopback {
        group: Some(group.clone()),
        ..config()
    })
    .await;
    assert_eq!(mode(&path), 0o640);
    let kept = token(&path);
    server.stop().await;
    let server = Running::start(Loopback {
        group: Some(group),
        ..config()
    })
    .await;
    assert_eq!(token(&path), kept);
    assert_eq!(read(&client(directory.path(), None).await, PODS).await, 200);
    server.stop().await;

    let unknown = Loopback {
        group: Some("no such group".into()),
        ..config()
    };
    let refused = Credentials::load(&unknown, [127, 0, 0, 1].into())
        .map(drop)
        .unwrap_err();
    assert!(refused.to_string().contains("clientGroup"), "{refused}");
}

fn token(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.rsplit("token: ").next().unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn edgecores_open_door_is_still_none_for_web_pages() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::start(Loopback {
        anonymous: true,
        ..loopback(directory.path())
    })
    .await;
    assert!(
        server
            .plain(PODS, "host: 127.0.0.1:10550")
            .await
            .contains("200")
    );
    let secrets = server
        .plain("/api/v1/namespaces/ns/secrets", "host: localhost")
        .await;
    assert!(
        secrets.contains("503"),
        "let in, and not known without the cloud: {secrets}"
    );
    assert!(
        server
            .plain(PODS, "host: attacker.example:10550")
            .await
            .contains("421")
    );
    assert!(
        server
            .plain(PODS, "host: localhost\r\norigin: https://attacker.example")
            .await
            .contains("403")
    );
    assert!(
        server
            .plain("/apis//v1/secrets", "host: localhost")
            .await
            .contains("404")
    );
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        0,
        "there is nothing to know"
    );
    server.stop().await;
}
