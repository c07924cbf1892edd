//! The listener as programs see it.

use kubeapi::store::MemoryStore;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::kinds;

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_request_names_node_namespace_and_path() {
    let place = |path| Place::parse(path).ok().map(|place| (place.node, place.namespace, place.path));
    assert_eq!(place("/edge-1/default/hello/a"), Some(("edge-1", "default", "hello/a")));
    for path in [
        "/",
        "/edge-1",
        "/edge-1/default",
        "/edge-1/default/",
        "//default/a",
        "/EDGE/default/a",
        "/a\u{e9}/b/c",
    ] {
        assert_eq!(place(path), None, "{path}");
    }
}

/// A router on the loopback interface without rules.
async fn listener() -> (SocketAddr, DropGuard) {
    let client =
        kubeapi::Api::builder(MemoryStore::new()).registry(kinds::registry()).build().client("default");
    let (rules, stop) = (Rules::new(client, |_| false, LONG), CancellationToken::new());
    tokio::spawn(rules.clone().run(stop.clone()));
    rules.complete().await;
    let router = Router { rules, auth: None, bodies: Arc::new(Semaphore::new(BODIES)), hosts: None };
    let server = Server::bind(([127, 0, 0, 1], 0).into(), None, router).await.unwrap();
    let address = server.local_addr();
    tokio::spawn(server.run(stop.clone()));
    (address, stop.drop_guard())
}

/// The head of the answer, and its body as JSON.
async fn ask(address: SocketAddr, head: &str, body: &[u8]) -> (String, Value) {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{head}\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).await.unwrap();
        // a body that is refused is not read to its end
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    let answer = timeout(LONG, asking).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), serde_json::from_str(body).unwrap())
}

/// The shapes of CVE-2022-31073 and CVE-2022-31078: a body without an end.
#[tokio::test]
async fn a_refusal_names_its_cause() {
    let (address, _stop) = listener().await;
    let (head, told) = ask(address, "POST /edge-1/default/a HTTP/1.1\r\nContent-Length: 2", b"{}").await;
    assert!(head.starts_with("HTTP/1.1 404") && head.contains("content-type: application/json"), "{head}");
    assert_eq!((&told["code"], &told["reason"]), (&404.into(), &"RuleNotFound".into()));
    assert!(told["message"].as_str().unwrap().contains("/default/a"));
    let (head, told) =
        ask(address, "POST /edge-1/default/a HTTP/1.1\r\nContent-Length: 99999999", b"x").await;
    assert!(head.starts_with("HTTP/1.1 413"), "{head}");
    assert_eq!(told["reason"], "BodyTooLarge");
    // a byte too many, and no end: nothing is left unread when the answer comes
    let mut endless = format!("{:x}\r\n", usize::MAX >> 8).into_bytes();
    endless.resize(endless.len() + MAX_BODY + 1, b'x');
    let (head, _) =
        ask(address, "POST /edge-1/default/a HTTP/1.1\r\nTransfer-Encoding: chunked", &endless).await;
    assert!(head.starts_with("HTTP/1.1 413"), "{head}");
}
