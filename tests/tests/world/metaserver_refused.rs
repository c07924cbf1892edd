//! MetaServer and clients that ask for what they should not.

use serde_json::{Value, json};
use tests::{
    World,
    manifests::{pod, secret},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::metaserver::{client, world};

/// The status code of the answer to these bytes.
async fn answer(world: &World, request: &[u8]) -> String {
    let address = world.nodes[0].meta_server().await.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    // a server that has refused the rest does not read it
    let _ = stream.write_all(request).await;
    let mut head = [0; 12];
    match stream.read_exact(&mut head).await {
        Ok(_) => String::from_utf8_lossy(&head[9..]).into_owned(),
        Err(_) => "closed".to_owned(),
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

/// What is asked for, how, and the status that answers it.
#[expect(clippy::too_many_lines, reason = "one table or one story")]
fn rows() -> Vec<(&'static str, String, &'static str)> {
    let post = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let default = "/api/v1/namespaces/default";
    let deep = "[".repeat(100_000);
    let huge = format!("{{\"metadata\":{{\"name\":\"{}\"}}}}", "x".repeat(4 << 20));
    vec![
        (
            "another node's secret",
            get(&format!("{default}/secrets/theirs")),
            "403",
        ),
        ("all secrets", get("/api/v1/secrets"), "403"),
        (
            "a watch of all secrets",
            get("/api/v1/secrets?watch=1"),
            "403",
        ),
        (
            "another node's pod",
            get(&format!("{default}/pods/theirs")),
            "403",
        ),
        ("another node", get("/api/v1/nodes/edge-2"), "403"),
        (
            "another node's deletion",
            "DELETE /api/v1/nodes/edge-2 HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
            "403",
        ),
        (
            "a binding for itself",
            post(
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                "{\"metadata\":{\"name\":\"x\"}}",
            ),
            "403",
        ),
        (
            "a token of an account that is not used here",
            post(&format!("{default}/serviceaccounts/default/token"), "{}"),
            "403",
        ),
        (
            "a page of another site",
            format!(
                "GET {default}/pods HTTP/1.1\r\nhost: localhost\r\norigin: https://attacker.example\r\n\r\n"
            ),
            "403",
        ),
        (
            "another site's name",
            format!("GET {default}/pods HTTP/1.1\r\nhost: attacker.example\r\n\r\n"),
            "421",
        ),
        ("no path", get("/"), "404"),
        ("no such group", get("/apis/no.such.group/v1"), "404"),
        (
            "a hidden border",
            get(&format!("{default}/pods/..%2f..%2fsecrets")),
            "404",
        ),
        ("a step up", get("/api/v1/namespaces/../secrets/x"), "404"),
        (
            "a collection's end",
            format!("DELETE {default}/pods HTTP/1.1\r\nhost: localhost\r\n\r\n"),
            "405",
        ),
        // nobody has said who they are
        (
            "a container's logs",
            get(&format!("{default}/pods/web/log")),
            "403",
        ),
        (
            "a command in a container",
            post(&format!("{default}/pods/web/exec?command=id&stdout=1"), ""),
            "403",
        ),
        (
            "a container's streams",
            get(&format!("{default}/pods/web/attach?stdout=1")),
            "403",
        ),
        (
            "a pod's ports",
            get(&format!("{default}/pods/web/portforward")),
            "403",
        ),
        ("a proxy", get(&format!("{default}/pods/web/proxy")), "405"),
        (
            "no JSON",
            post(&format!("{default}/configmaps"), "{"),
            "400",
        ),
        (
            "a list",
            post(&format!("{default}/configmaps"), "[]"),
            "400",
        ),
        (
            "deep JSON",
            post(&format!("{default}/configmaps"), &deep),
            "400",
        ),
        (
            "a huge body",
            post(&format!("{default}/configmaps"), &huge),
            "413",
        ),
        (
            "a bad selector",
            get("/api/v1/pods?labelSelector=%3D%3D"),
            "400",
        ),
        ("no HTTP", "\x16\x03\x01 hello\r\n\r\n".to_owned(), "400"),
        (
            "a huge head",
            format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(1 << 20)),
            "431",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused_and_the_next_one_is_answered() {
    let world = world().await;
    world
        .apply(&secret("theirs", json!({"password": "x"})))
        .await;
    let mut theirs = pod("theirs", Some("edge-2"));
    theirs["spec"]["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "theirs"}}]);
    world.apply(&theirs).await;
    for (what, request, expected) in rows() {
        let code = answer(&world, request.as_bytes()).await;
        assert_eq!(code, expected, "{what}");
        assert_eq!(
            answer(&world, get("/api/v1/nodes/edge-1").as_bytes()).await,
            "200",
            "after {what}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_what_to_do() {
    let world = world().await;
    let refused: Result<Value, _> = client(&world)
        .await
        .request(http_get("/api/v1/namespaces/default/configmaps"))
        .await;
    let kube::Error::Api(status) = refused.unwrap_err() else {
        panic!()
    };
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert!(
        status.message.contains("system:node:edge-1") && status.message.contains("bind a role"),
        "{status:?}"
    );
}

fn http_get(path: &str) -> http::Request<Vec<u8>> {
    http::Request::get(path).body(Vec::new()).unwrap()
}
