//! Stream tunnels of real agents, and of callers who may have none.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use cloudsim::streams::{ClientCa, KubeletOptions};
use http::{HeaderMap, Method, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kubeapi::{NodeAnswer, NodeError, NodeRequest, NodeStreams};
use serde_json::Value;
use tests::{Setup, World, eventually, manifests::pod, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::enroll::{Ca, Csr, Usage, pem_certificate};

use crate::raw::Caller;

async fn get(world: &World, node: &str, path: &str) -> Result<(StatusCode, String), NodeError> {
    let request = NodeRequest {
        method: Method::GET,
        path_and_query: path.to_owned(),
        headers: HeaderMap::new(),
    };
    match within("an answer", world.cloud().tunnels().ask(node, request)).await? {
        NodeAnswer::Response(response) => {
            let (head, body) = response.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Ok((head.status, String::from_utf8_lossy(&body).into_owned()))
        }
        NodeAnswer::Upgraded(head, _) => panic!("{head:?}"),
    }
}

async fn until_tunnel(world: &World, node: &str, there: bool) {
    eventually("a tunnel, or none", async || {
        let found = world.cloud().tunnels().has(node);
        if found == there { Ok(()) } else { Err(found) }
    })
    .await;
}

/// Answers the head of what the stream server says to this request for a tunnel.
async fn dial(world: &World, caller: &Caller, headers: &str) -> String {
    let address = world.cloud().addresses().tunnel.unwrap();
    let Ok(mut stream) = caller.tls(address).await else {
        return "no TLS".into();
    };
    let request = format!(
        "GET /v1/kubeedge/connect HTTP/1.1\r\nHost: cloud\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    );
    // TLS 1.3 tells a client of its refusal after the handshake
    if stream.write_all(request.as_bytes()).await.is_err() {
        return "no TLS".into();
    }
    let mut said = Vec::new();
    let reading = async {
        let mut part = [0; 1024];
        while !String::from_utf8_lossy(&said).contains("\r\n\r\n") {
            match stream.read(&mut part).await {
                Ok(1..) if said.len() > 64 * 1024 => break,
                Ok(0) | Err(_) => break,
                Ok(read) => said.extend_from_slice(&part[..read]),
            }
        }
    };
    within("an answer", reading).await;
    if said.is_empty() {
        "no TLS".into()
    } else {
        String::from_utf8_lossy(&said).into_owned()
    }
}

#[tokio::test]
async fn a_hollow_nodes_kubelet_is_asked_through_its_tunnel() {
    let mut world = World::new(2).await;
    world.until_ready().await;
    for node in ["edge-1", "edge-2"] {
        until_tunnel(&world, node, true).await;
        let (status, summary) = get(&world, node, "/stats/summary").await.unwrap();
        assert_eq!(status, StatusCode::OK);
        assert!(
            summary.contains(&format!("\"nodeName\":\"{node}\"")),
            "{summary}"
        );
    }
    let (status, said) = get(&world, "edge-1", "/containerLogs/default/none/main")
        .await
        .unwrap();
    assert_eq!(
        (status, said.as_str()),
        (StatusCode::NOT_FOUND, "pod \"none\" does not exist\n")
    );
    let (status, _) = get(&world, "edge-1", "/run/default/none/main")
        .await
        .unwrap();
    assert_eq!(status, StatusCode::NOT_FOUND);
    let error = get(&world, "edge-3", "/pods").await.unwrap_err();
    assert!(matches!(error, NodeError::NotConnected(_)), "{error}");

    // a link that is cut has no tunnel; one that was mended has one again
    world.cloud().faults().cut_link("edge-1");
    until_tunnel(&world, "edge-1", false).await;
    assert!(world.cloud().tunnels().has("edge-2"));
    world.cloud().faults().restore("edge-1");
    until_tunnel(&world, "edge-1", true).await;
    get(&world, "edge-1", "/healthz").await.unwrap();

    // what may have no session may have no tunnel
    world.cloud().reset_node("edge-2").await.unwrap();
    until_tunnel(&world, "edge-2", false).await;
    world.nodes[0].stop().await;
    until_tunnel(&world, "edge-1", false).await;
}

#[tokio::test]
async fn a_tunnel_is_for_the_node_that_the_certificate_names_and_for_nobody_else() {
    let world = World::new(0).await;
    let name =
        |node: &str| format!("SessionHostNameOverride: {node}\r\nSessionInternalIP: 192.0.2.1\r\n");
    let node = Caller::node(&world, "edge-1").await;
    let said = dial(&world, &node, &name("edge-1")).await;
    assert!(
        said.starts_with("HTTP/1.1 101 ") && said.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "{said}"
    );
    // a head without end is not gathered
    let large = format!("{}X-Large: {}\r\n", name("edge-1"), "x".repeat(64 * 1024));
    let said = dial(&world, &node, &large).await;
    assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
    for (header, words) in [
        (name("edge-2"), "SessionHostNameOverride says"),
        (String::new(), "SessionHostNameOverride says"),
        (name("../edge-1"), "SessionHostNameOverride says"),
    ] {
        let said = dial(&world, &node, &header).await;
        assert!(
            said.starts_with("HTTP/1.1 403 ") && said.contains(words),
            "{said}"
        );
    }
    // whatever the headers say
    let anonymous = Caller::anonymous(&world).await;
    assert_eq!(dial(&world, &anonymous, &name("edge-1")).await, "no TLS");
    let person = Caller::admin(&world).await;
    let said = dial(&world, &person, &name("edge-1")).await;
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
    // a certificate that was taken back, though it is of the authority and good for a year
    let newer = Caller::node(&world, "edge-1").await;
    let said = dial(&world, &node, &name("edge-1")).await;
    assert!(
        said.starts_with("HTTP/1.1 403 ") && said.contains("revoked"),
        "{said}"
    );
    let said = dial(&world, &newer, &name("edge-1")).await;
    assert!(said.starts_with("HTTP/1.1 101 "), "{said}");
}

#[tokio::test]
async fn an_api_server_elsewhere_finds_the_kubelets_of_all_nodes_in_one_place() {
    let (directory, now) = (tempfile::tempdir().unwrap(), SystemTime::now());
    let ca = Ca::generate(now).unwrap();
    let client_ca = directory.path().join("ca.crt");
    fs::write(&client_ca, pem_certificate(ca.cert_der())).unwrap();
    let client_names = vec!["kube-apiserver-kubelet-client".to_owned()];
    let kubelets = KubeletOptions {
        port: 0,
        client_ca: ClientCa::File(client_ca),
        client_names,
        service: None,
    };
    let world = World::with(Setup {
        kubelets: Some(kubelets),
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    until_tunnel(&world, "edge-1", true).await;
    let address = world.cloud().addresses().kubelets.unwrap();
    let get = async |caller: &Caller, path: &str, headers: &str| {
        let (status, body) = caller.https(address, path, headers, b"").await.unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    let server = Caller::with(&world, ca.sign_admin(now).unwrap()).await;
    let forwarded = "X-Forwarded-Uri: /api/v1/nodes/edge-1/proxy/stats/summary\r\n";
    let (status, said) = get(&server, "/stats/summary", forwarded).await;
    assert!(
        status == 200 && said.contains("\"nodeName\":\"edge-1\""),
        "{status} {said}"
    );
    let (status, said) = get(&server, "/stats/summary", "").await;
    assert!(
        status == 404 && said.contains("\"localhost\""),
        "{status} {said}"
    );
    let (status, said) = get(&server, "/containerLogs/default/none/main", "").await;
    assert!(
        status == 404 && said.contains("default/none does not exist"),
        "{status} {said}"
    );
    // the real server connects to the port that the Node has
    eventually("the Node's port", async || {
        let node = Api::<Node>::all(world.client())
            .get("edge-1")
            .await
            .unwrap();
        let endpoints = node.status.and_then(|status| status.daemon_endpoints);
        let port = endpoints
            .and_then(|endpoints| endpoints.kubelet_endpoint)
            .map(|endpoint| endpoint.port);
        if port == Some(i32::from(address.port())) {
            Ok(())
        } else {
            Err(port)
        }
    })
    .await;

    // a node of that CA is no API server
    let (csr, usages) = (
        Csr::for_node("edge-1").unwrap(),
        Usage::parse_header(None).unwrap(),
    );
    let node = ca
        .sign_edge(csr.der(), &usages, Duration::from_secs(3600), now)
        .unwrap();
    let node = Caller::with(&world, (node, csr.key_sec1_der())).await;
    let (status, said) = get(&node, "/stats/summary", forwarded).await;
    assert!(
        status == 403 && said.contains("--stream-client-name"),
        "{status} {said}"
    );
    // and a certificate of this cloud's own CA is none at all here
    let own = Caller::admin(&world).await;
    own.https(address, "/stats/summary", forwarded, b"")
        .await
        .unwrap_err();
    // without a certificate, clients need a token
    let (status, _) = get(
        &Caller::anonymous(&world).await,
        "/stats/summary",
        forwarded,
    )
    .await;
    assert_eq!(status, 401);
}

#[tokio::test]
async fn what_nodes_and_pods_use_is_read_through_their_tunnels() {
    let mut world = World::new(2).await;
    world.until_ready().await;
    for node in ["edge-1", "edge-2"] {
        until_tunnel(&world, node, true).await;
    }
    world.run(&pod("web", Some("edge-1"))).await;
    let client = world.client();
    let items = async |plural: &str| -> Vec<Value> {
        let request =
            http::Request::get(format!("/apis/metrics.k8s.io/v1beta1/{plural}")).body(Vec::new());
        let mut list: Value = client.request(request.unwrap()).await.unwrap();
        serde_json::from_value(list["items"].take()).unwrap()
    };
    eventually("both nodes and the pod are measured", async || {
        let (nodes, pods) = (items("nodes").await, items("pods").await);
        let names: Vec<_> = nodes.iter().map(|node| &node["metadata"]["name"]).collect();
        let used = |object: &Value, what: &str| {
            object["usage"][what]
                .as_str()
                .is_some_and(|quantity| quantity != "0" && !quantity.is_empty())
        };
        let main = pods.first().map(|pod| &pod["containers"][0]);
        // a hundredth of a core, and 4 MiB
        let is_measured = main.is_some_and(|main| {
            let cpu = main["usage"]["cpu"].as_str().unwrap_or_default();
            main["name"] == "main"
                && main["usage"]["memory"] == "4Mi"
                && (cpu == "10m" || cpu.len() >= 7)
        });
        let are_measured = nodes
            .iter()
            .all(|node| used(node, "cpu") && used(node, "memory"));
        if names == ["edge-1", "edge-2"] && are_measured && is_measured {
            Ok(())
        } else {
            Err((nodes, pods))
        }
    })
    .await;
    world.nodes[1].stop().await;
    until_tunnel(&world, "edge-2", false).await;
    eventually("a node that is gone is measured no more", async || {
        let nodes = items("nodes").await;
        if nodes.len() == 1 && nodes[0]["metadata"]["name"] == "edge-1" {
            Ok(())
        } else {
            Err(nodes)
        }
    })
    .await;
}
