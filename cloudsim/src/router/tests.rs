//! The listener as clients see it.

use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use objectstore::MemoryStore;
use serde_json::Value;
use testkit::{WAIT_TIMEOUT, until, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::{controllers::rules::Via, kinds};

#[test]
fn a_request_names_node_namespace_and_path() {
    let place = |path| {
        RequestPath::parse(path)
            .ok()
            .map(|place| (place.node, place.namespace, place.path))
    };
    assert_eq!(
        place("/edge-1/default/hello/a"),
        Some(("edge-1", "default", "hello/a"))
    );
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
    listener_with(BodyMemory::new(Limits::default())).await
}

/// No rules, and what ends their task.
async fn rules() -> (Rules, CancellationToken) {
    let client = apiserver::builder(MemoryStore::new())
        .registry(kinds::registry())
        .build()
        .client("default");
    let (rules, stop) = (
        Rules::new(
            client,
            Via::of_authority(b"an authority"),
            |_| false,
            WAIT_TIMEOUT,
        ),
        CancellationToken::new(),
    );
    tokio::spawn(rules.clone().run(stop.clone()));
    rules.complete().await;
    (rules, stop)
}

async fn listener_with(memory: BodyMemory) -> (SocketAddr, DropGuard) {
    let (rules, stop) = rules().await;
    let router = Router {
        memory,
        ..Router::unchecked(rules)
    };
    let server = Server::bind(([127, 0, 0, 1], 0).into(), None, HandlerService(router))
        .await
        .unwrap();
    let address = server.local_addr();
    tokio::spawn(server.run(stop.clone()));
    (address, stop.drop_guard())
}

/// Returns the head of the answer, and its body as JSON.
async fn ask(address: SocketAddr, head: &str, body: &[u8]) -> (String, Value) {
    exchange(address, &format!("{head}\r\nHost: a"), body).await
}

/// The same, of a request whose head names the host.
async fn exchange(address: SocketAddr, head: &str, body: &[u8]) -> (String, Value) {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        // a refused body is not read to its end
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    };
    let answer = within("an answer", asking).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), serde_json::from_str(body).unwrap())
}

/// A page of another site can have a browser send a plain GET, which has no `Origin`, and rules act on it.
#[tokio::test]
async fn router_on_loopback_rejects_reads_that_web_pages_have_browsers_send() {
    let (rules, stop) = rules().await;
    let hosts = Some(Hosts::new(Vec::new(), Scheme::Http));
    let router = Router {
        hosts,
        ..Router::unchecked(rules)
    };
    let server = Server::bind(([127, 0, 0, 1], 0).into(), None, HandlerService(router))
        .await
        .unwrap();
    let address = server.local_addr();
    tokio::spawn(server.run(stop.clone()));
    let _stop = stop.drop_guard();
    for (site, reason) in [
        ("cross-site", "NotOurs"),
        ("same-site", "NotOurs"),
        ("same-origin", "RuleNotFound"),
        ("none", "RuleNotFound"),
    ] {
        let head =
            format!("GET /edge-1/default/a HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Site: {site}");
        let (_, body) = exchange(address, &head, b"").await;
        assert_eq!(body["reason"], reason, "{site}: {body}");
    }
}

/// The requests of CVE-2022-31073 and CVE-2022-31078: endless bodies.
#[tokio::test]
async fn a_refusal_names_its_cause() {
    let (address, _stop) = listener().await;
    let (head, told) = ask(
        address,
        "POST /edge-1/default/a HTTP/1.1\r\nContent-Length: 2",
        b"{}",
    )
    .await;
    assert!(
        head.starts_with("HTTP/1.1 404") && head.contains("content-type: application/json"),
        "{head}"
    );
    assert_eq!(
        (&told["code"], &told["reason"]),
        (&404.into(), &"RuleNotFound".into())
    );
    assert!(told["message"].as_str().unwrap().contains("/default/a"));
    let (head, told) = ask(
        address,
        "POST /edge-1/default/a HTTP/1.1\r\nContent-Length: 99999999",
        b"x",
    )
    .await;
    assert!(head.starts_with("HTTP/1.1 413"), "{head}");
    assert_eq!(told["reason"], "BodyTooLarge");
    // one byte too many, and no end: nothing is left unread when the answer comes
    let mut endless = format!("{:x}\r\n", usize::MAX >> 8).into_bytes();
    endless.resize(endless.len() + MAX_BODY + 1, b'x');
    let (head, _) = ask(
        address,
        "POST /edge-1/default/a HTTP/1.1\r\nTransfer-Encoding: chunked",
        &endless,
    )
    .await;
    assert!(head.starts_with("HTTP/1.1 413"), "{head}");
}

/// HTTP/2 clients go on sending while they are refused: they get the answer, and are not reset.
#[tokio::test]
async fn a_body_that_is_too_large_is_answered_on_http2() {
    let (address, _stop) = listener().await;
    for size in [MAX_BODY + 1, 3 * MAX_BODY, 8 * MAX_BODY] {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let shake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (mut sender, connection) = shake.await.unwrap();
        tokio::spawn(connection);
        let body = Full::new(Bytes::from(vec![b'x'; size]));
        let request = Request::post(format!("http://{address}/edge-1/default/a"))
            .body(body)
            .unwrap();
        let answer = within("the head of an answer", sender.send_request(request))
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE, "{size}");
        let told = within("the body of an answer", answer.into_body().collect())
            .await
            .unwrap()
            .to_bytes();
        let told: Value = serde_json::from_slice(&told).unwrap();
        assert_eq!(told["reason"], "BodyTooLarge", "{size}");
    }
}

/// Begins a request without a length from this loopback address, sends this much of its body, and no more.
async fn stalls(from: [u8; 4], to: SocketAddr, bytes: usize) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    let head = "POST /edge-1/default/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    // a refused client's body may not be read to its end
    let _ = stream
        .write_all(format!("{head}{bytes:x}\r\n{}\r\n", "x".repeat(bytes)).as_bytes())
        .await;
    stream
}

async fn status_of(mut stream: TcpStream) -> String {
    let mut answer = [0; 12];
    within("an answer", stream.read_exact(&mut answer))
        .await
        .unwrap();
    String::from_utf8_lossy(&answer[9..]).into_owned()
}

/// Sends a whole request from this address; returns its status.
async fn whole(from: [u8; 4], to: SocketAddr, bytes: usize) -> String {
    let mut stream = stalls(from, to, bytes).await;
    let _ = stream.write_all(b"0\r\n\r\n").await;
    status_of(stream).await
}

#[tokio::test]
async fn bodies_that_do_not_come_hold_no_room_of_others() {
    const KIB: usize = 1024;
    let step = Duration::from_secs(4);
    let limits = Limits {
        all: 1024 * KIB,
        of_client: 700 * KIB,
        room: Duration::from_millis(200),
        step,
        ..Limits::default()
    };
    let memory = BodyMemory::new(limits);
    let (address, _stop) = listener_with(memory.clone()).await;
    let (one, other) = ([127, 0, 0, 1], [127, 0, 0, 2]);
    let mut slow = Vec::new();
    for _ in 0..3 {
        slow.push(stalls(one, address, 150 * KIB).await);
    }
    // three steps of 64 KiB each
    until("three steps of each", || {
        memory.reserved_size() >= 3 * 3 * 64
    })
    .await;
    // the share of this client is used up, and another one has its own
    assert_eq!(whole(one, address, 150 * KIB).await, "429");
    assert_eq!(whole(other, address, 150 * KIB).await, "404");
    for stream in slow {
        assert_eq!(status_of(stream).await, "408");
    }
    assert_eq!(
        whole(one, address, 150 * KIB).await,
        "404",
        "the room is there again"
    );
}
