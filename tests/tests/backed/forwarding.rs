//! Requests for a node at the replica to which it is not connected: logs, commands, metrics and calls by rules.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use cloudsim::{
    Cloud, Options, PeerOptions,
    router::RouterOptions,
    streams::{ClientCa, KubeletOptions},
};
use futures::StreamExt;
use k8s_openapi::api::{
    authentication::v1::TokenRequest,
    core::v1::{Secret, ServiceAccount},
};
use kube::{Api, api::PostParams};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, PrivateSec1KeyDer, ServerName},
};
use serde_json::json;
use tests::{Setup, World, eventually, manifests::pod_that, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use wire::{Down, Downstream, bus::Payload, enroll::Ca};

use crate::raw::Caller;

/// Two replicas: the world's, to which nodes connect, and another one.
struct Replicas {
    world: World,
    other: Cloud,
}

pub(crate) fn peer() -> PeerOptions {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    PeerOptions { port: 0, address }
}

impl Replicas {
    async fn start(nodes: usize) -> Self {
        let mut world = World::with(Setup {
            nodes: 0,
            ..Setup::default()
        })
        .await;
        world.stop_cloud().await;
        if let Some(cluster) = &mut world.options_mut().cluster {
            cluster.peer = Some(peer());
        }
        world.start_cloud().await;
        let mut cluster = world.cluster().options("replica-2").await;
        cluster.peer = Some(peer());
        let options = Options {
            cluster: Some(cluster),
            kubelets: Some(KubeletOptions {
                port: 0,
                client_ca: ClientCa::Cluster,
                client_names: Vec::new(),
                service: None,
            }),
            router: Some(RouterOptions {
                port: 0,
                anonymous: false,
            }),
            ..Options::default().any_ports()
        };
        let other = Cloud::start(options).await.expect("another replica");
        for number in 1..=nodes {
            let mut node = world
                .prepare(&format!("edge-{number}"), &Setup::default())
                .await;
            node.start().await.expect("the agent starts");
            world.nodes.push(node);
        }
        Self { world, other }
    }

    fn kubelets(&self) -> SocketAddr {
        self.other.addresses().kubelets.unwrap()
    }

    /// Gets a path of the other replica's kubelets.
    async fn get(&self, caller: &Caller, path: &str, headers: &str) -> (u16, String) {
        let answer = caller.https(self.kubelets(), path, headers, b"").await;
        let (status, body) = answer.unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// Waits until the other replica answers with this status, and returns the body.
    async fn until(&self, caller: &Caller, (path, headers): (&str, &str), wanted: u16) -> String {
        eventually(path, async || match self.get(caller, path, headers).await {
            (status, body) if status == wanted => Ok(body),
            other => Err(other),
        })
        .await
    }

    /// Calls the other replica's router, which is open to this machine.
    async fn call(&self, path: &str, body: &str) -> (u16, String) {
        let address = self.other.addresses().router.unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        within("an answer", stream.read_to_end(&mut answer))
            .await
            .unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status, body.to_owned())
    }

    /// A token of a service account that may read the metrics of nodes, and one of an account that may not.
    async fn tokens(&self) -> [String; 2] {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "scraper"},
            "rules": [{"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}]});
        self.world.apply(&role).await;
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "scraper"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"},
            "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}]});
        self.world.apply(&binding).await;
        let accounts = Api::<ServiceAccount>::namespaced(self.world.client(), "default");
        let mut tokens = [String::new(), String::new()];
        for (name, token) in ["scraper", "nobody"].into_iter().zip(&mut tokens) {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}});
            self.world.apply(&account).await;
            let parameters = PostParams::default();
            let made: TokenRequest = accounts
                .create_subresource("token", name, &parameters, &TokenRequest::default())
                .await
                .unwrap();
            *token = made.status.unwrap().token;
        }
        tokens
    }
}

/// Runs a command over a WebSocket; what it writes to its standard output.
async fn output(caller: &Caller, address: SocketAddr, path: &str) -> String {
    let stream = caller.tls(address).await.unwrap();
    let mut request = format!("wss://{address}{path}")
        .into_client_request()
        .unwrap();
    let protocol = "v4.channel.k8s.io".parse().unwrap();
    request
        .headers_mut()
        .insert("sec-websocket-protocol", protocol);
    let upgraded = within(
        "an upgrade",
        tokio_tungstenite::client_async(request, stream),
    )
    .await;
    let (mut socket, _) = upgraded.unwrap();
    let mut written = Vec::new();
    let reading = async {
        while let Some(Ok(message)) = socket.next().await {
            // the first byte is the number of the stream
            if let [1, bytes @ ..] = &*message.into_data() {
                written.extend_from_slice(bytes);
            }
        }
    };
    within("the end of the command", reading).await;
    String::from_utf8(written).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_commands_and_metrics_come_from_the_replica_that_has_the_tunnel() {
    let mut replicas = Replicas::start(1).await;
    let web = pod_that("web", "edge-1", &[("log-lines", "first\nsecond")]);
    replicas.world.run(&web).await;
    let server = Caller::admin(&replicas.world).await;
    let logs = ("/containerLogs/default/web/main", "");
    let log = replicas.until(&server, logs, 200).await;
    assert!(log.contains("first") && log.contains("second"), "{log}");
    let command = "/exec/default/web/main?command=echo&command=some&command=bytes&output=1";
    let said = output(&server, replicas.kubelets(), command).await;
    assert_eq!(said, "some bytes\n");
    let proxied = "X-Forwarded-Uri: /api/v1/nodes/edge-1/proxy/stats/summary\r\n";
    let (status, page) = replicas.get(&server, "/stats/summary", proxied).await;
    assert!(
        status == 200 && page.contains("\"nodeName\":\"edge-1\""),
        "{page}"
    );

    // with a token, as metrics-server and Prometheus: metrics alone
    let anonymous = Caller::anonymous(&replicas.world).await;
    let [scraper, nobody] = replicas
        .tokens()
        .await
        .map(|token| format!("Authorization: Bearer {token}\r\n"));
    let page = "/nodes/edge-1/metrics/resource";
    // roles are read by the cluster a little later
    let metrics = replicas.until(&anonymous, (page, &scraper), 200).await;
    assert!(
        metrics.contains("node_cpu_usage_seconds_total"),
        "{metrics}"
    );
    for (path, headers, expected) in [
        (page, &*scraper, 200),
        (page, &nobody, 403),
        (page, "Authorization: Bearer none\r\n", 401),
        (page, "", 401),
        ("/nodes/edge-1/stats/summary", &scraper, 403),
        (
            "/nodes/edge-1/containerLogs/default/web/main",
            &scraper,
            403,
        ),
        ("/containerLogs/default/web/main", &scraper, 403),
        ("/nodes/edge-9/metrics", "", 401),
    ] {
        let (status, said) = replicas.get(&anonymous, path, headers).await;
        assert_eq!(status, expected, "{path} {said}");
    }

    // no replica has a node that is gone, and none is waited for that is gone
    replicas.world.stop_cloud().await;
    replicas.until(&server, logs, 503).await;
    replicas.other.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_by_rules_reach_a_node_of_another_replica_once() {
    let replicas = Replicas::start(0).await;
    let world = &replicas.world;
    for (name, kind) in [("rest", "rest"), ("mqtt", "eventbus")] {
        let endpoint = json!({"apiVersion": "rules.kubeedge.io/v1", "kind": "RuleEndpoint",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"ruleEndpointType": kind}});
        world.apply(&endpoint).await;
    }
    let rule = json!({"apiVersion": "rules.kubeedge.io/v1", "kind": "Rule", "metadata": {"name": "lamp", "namespace": "default"},
        "spec": {"source": "rest", "sourceResource": {"path": "/lamp"}, "target": "mqtt", "targetResource": {"topic": "lamp"}}});
    world.apply(&rule).await;
    let node = Caller::node(world, "edge-1").await;
    let mut session = node.session(world, "edge-1").await;
    let answer = eventually("the call reaches the node", async || {
        match replicas.call("/edge-1/default/lamp", "on ☀").await {
            (200, answer) => Ok(answer),
            other => Err(other),
        }
    })
    .await;
    assert_eq!(answer, "message delivered");
    let body = loop {
        let message = Down::from(session.next().await);
        if let Downstream::Publish { topic, payload } = message.body {
            assert_eq!(topic, "lamp");
            break payload;
        }
    };
    assert_eq!(body, Payload::from("on ☀".as_bytes().to_vec()).content());
    // the other replica's refusals arrive, too
    let (status, said) = replicas.call("/edge-1/default/none", "x").await;
    assert!(status == 404 && said.contains("RuleNotFound"), "{said}");
    let (status, said) = replicas.call("/edge-2/default/lamp", "x").await;
    assert!(status == 502 && said.contains("NodeNotConnected"), "{said}");
    replicas.other.stop().await.unwrap();
}

/// Connects to a replica's server for other replicas with this certificate.
async fn ask_as(ca: &Ca, identity: (Vec<u8>, Vec<u8>), at: SocketAddr) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from(ca.cert_der().to_vec()))
        .unwrap();
    let (certificate, key) = identity;
    let tls = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![CertificateDer::from(certificate)],
            PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(key)),
        )
        .unwrap();
    let name = ServerName::try_from("replica.cloudsim").unwrap();
    let stream = TcpStream::connect(at).await?;
    let mut stream = TlsConnector::from(Arc::new(tls))
        .connect(name, stream)
        .await?;
    let request = "GET /streams/edge-1/metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    within("an answer", stream.read_to_end(&mut answer)).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_request_is_not_forwarded_again_and_only_replicas_forward() {
    let replicas = Replicas::start(1).await;
    replicas.world.until_ready().await;
    let server = Caller::admin(&replicas.world).await;
    let page = ("/nodes/edge-1/metrics", "");
    replicas.until(&server, page, 200).await;
    let secrets = Api::<Secret>::namespaced(replicas.world.client(), "kubeedge");
    let data = secrets
        .get("cloudsimreplicasecret")
        .await
        .unwrap()
        .data
        .unwrap();
    let ca = Ca::from_der(&data["cadata"].0, &data["cakeydata"].0).unwrap();
    let now = std::time::SystemTime::now();
    let at = |cloud: &Cloud| cloud.addresses().replicas.unwrap();
    let asked = ask_as(&ca, ca.sign_admin(now).unwrap(), at(replicas.world.cloud())).await;
    assert!(asked.unwrap().starts_with("HTTP/1.1 200 "));
    let asked = ask_as(&ca, ca.sign_admin(now).unwrap(), at(&replicas.other)).await;
    let asked = asked.unwrap();
    assert!(asked.starts_with("HTTP/1.1 421 "), "{asked}");
    // the CA of nodes is another one, whatever it has signed
    let nodes = crate::raw::authority(&replicas.world).await;
    let asked = ask_as(&ca, nodes.sign_admin(now).unwrap(), at(&replicas.other)).await;
    assert!(!asked.is_ok_and(|answer| answer.starts_with("HTTP")));
    replicas.other.stop().await.unwrap();
}
