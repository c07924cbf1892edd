//! ServiceBus between a fake cloud and badly behaved local servers.

mod answers;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use objectstore::{MemoryStore, Store};
use serde_json::{Value, json};
use testkit::{WAIT_TIMEOUT, eventually, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use wire::{Down, Downstream, Header, Source};

use super::*;
use crate::edgehub::fake_cloud::{FakeCloud, fake_cloud};

/// How long a local server may take here.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

struct Rig {
    line: FakeCloud,
    cloud: mpsc::Sender<Box<Down>>,
    store: Arc<dyn Store>,
    address: SocketAddr,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl Rig {
    async fn new() -> Self {
        Self::on(MemoryStore::new(), Ports::default()).await
    }

    async fn on(store: Arc<dyn Store>, ports: Ports) -> Self {
        Self::with(store, ports, CALL_TIMEOUT).await
    }

    async fn with(store: Arc<dyn Store>, ports: Ports, call_timeout: Duration) -> Self {
        let (hub, _inbound, mut line) = fake_cloud();
        line.up();
        let (cloud, messages) = RouterMessages::of_test();
        let (bus, task) = super::new(Config {
            address: ([127, 0, 0, 1], 0).into(),
            tls: None,
            timeout: Duration::from_secs(5),
            call_timeout,
            ports,
            store: store.clone(),
            hub,
            messages,
        });
        let stop = CancellationToken::new();
        let running = tokio::spawn(task.run(stop.clone()));
        let mut listening = bus.listening();
        let address = listening.wait_for(Option::is_some).await.unwrap().unwrap();
        Self {
            line,
            cloud,
            store,
            address,
            stop,
            running,
        }
    }

    async fn say(&self, id: &str, body: Downstream) {
        let header = Header {
            msg_id: id.to_owned(),
            ..Header::default()
        };
        self.cloud
            .send(Box::new(Down { header, body }))
            .await
            .unwrap();
    }

    async fn ask(&self, id: &str, target: String, request: Value) {
        let method = request["method"].as_str().unwrap_or("GET").to_owned();
        self.say(
            id,
            Downstream::ServiceCall {
                method,
                target,
                request,
            },
        )
        .await;
    }

    /// Returns the next answer: the id of its call, its status, body and headers.
    async fn answer(&self) -> (String, u64, Vec<u8>, Value) {
        let message = within("a message to the cloud", self.line.next()).await;
        let body = STANDARD
            .decode(message.content["body"].as_str().unwrap())
            .unwrap();
        let status = message.content["status_code"].as_u64().unwrap();
        assert_eq!(message.route.operation.as_str(), "upload");
        (
            message.header.parent_msg_id,
            status,
            body,
            message.content["header"].clone(),
        )
    }

    async fn call(&self, target: String, request: Value) -> (u64, String) {
        self.ask("one", target, request).await;
        let (id, status, body, _) = self.answer().await;
        assert_eq!(id, "one");
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    async fn register(&self, url: &str, on: bool) {
        self.say(
            "",
            Downstream::ServiceTarget {
                on,
                url: url.to_owned(),
                content: Value::Null,
            },
        )
        .await;
    }

    async fn again(self) -> Self {
        self.stop.cancel();
        self.running.await.unwrap();
        Self::on(self.store, Ports::default()).await
    }
}

/// Starts a local server that reads each request's head and body and passes the connection to `serve`; returns its port.
async fn local<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream, String) -> F + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let serve = serve.clone();
            tokio::spawn(async move {
                let request = read(&mut stream).await;
                serve(stream, request).await;
            });
        }
    });
    port
}

/// Reads a request's head and body.
async fn read(stream: &mut TcpStream) -> String {
    let (mut bytes, mut end) = (Vec::new(), None);
    loop {
        if end.is_none()
            && let Some((head, _)) = String::from_utf8_lossy(&bytes).split_once("\r\n\r\n")
        {
            let text = head.to_ascii_lowercase();
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .unwrap_or("0");
            end = Some(head.len() + 4 + length.parse::<usize>().unwrap());
        }
        let is_whole = end.is_some_and(|end| bytes.len() >= end);
        if is_whole || stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}

/// Never answers, and keeps the connection.
async fn hangs(stream: TcpStream, _request: String) {
    let _stream = stream;
    pending::<()>().await;
}

/// Starts a server that sends this text to every request, and closes.
async fn says(text: &'static str) -> u16 {
    local(move |mut stream, _| async move {
        let _ = stream.write_all(text.as_bytes()).await;
    })
    .await
}

#[tokio::test]
async fn a_local_server_gets_the_whole_request_and_its_response_is_returned() {
    let rig = Rig::new().await;
    let port = local(|mut stream, request| async move {
        let head =
            "HTTP/1.1 201 Created\r\nX-A: 1\r\nX-A: 2\r\nConnection: close\r\nContent-Type: text/plain\r\n";
        let answer = format!("{head}Content-Length: {}\r\n\r\n{request}", request.len());
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    let request = json!({
        "header": {"X-B": ["b"], "Connection": ["x-hop"], "X-Hop": ["1"], "Host": ["evil.example"]},
        "body": STANDARD.encode("hello"), "method": "PUT", "url": "",
    });
    rig.ask("id", format!("{port}:/a:b/c?d=e"), request).await;
    let (id, status, body, header) = rig.answer().await;
    assert_eq!((id.as_str(), status), ("id", 201));
    assert_eq!(
        header,
        json!({"Content-Type": ["text/plain"], "X-A": ["1", "2"]})
    );
    let seen = String::from_utf8(body).unwrap().to_ascii_lowercase();
    assert!(
        seen.starts_with("put /a:b/c?d=e http/1.1\r\n") && seen.ends_with("\r\n\r\nhello"),
        "{seen}"
    );
    assert!(
        seen.contains("x-b: b\r\n") && seen.contains(&format!("host: 127.0.0.1:{port}\r\n")),
        "{seen}"
    );
    assert!(!seen.contains("hop") && !seen.contains("evil"), "{seen}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let rig = Rig::new().await;
    let asked = Arc::<AtomicUsize>::default();
    let counted = asked.clone();
    let other = local(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {}
    })
    .await;
    let port = local(move |mut stream, _| async move {
        let answer = format!(
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other}/x\r\nContent-Length: 0\r\n\r\n"
        );
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    rig.ask("id", format!("{port}:/"), Value::Null).await;
    let (_, status, _, header) = rig.answer().await;
    assert_eq!(
        (status, &header["Location"]),
        (302, &json!([format!("http://127.0.0.1:{other}/x")]))
    );
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_bad_server_gives_an_answer_that_names_the_cause() {
    let rig = Rig::new().await;
    let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let absent = closed.local_addr().unwrap().port();
    drop(closed);
    let slow = local(hangs).await;
    let endless = local(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(&[b'x'; 65536]).await.is_ok() {}
    })
    .await;
    let trickling = local(|mut stream, _| async move {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nx")
            .await;
        pending::<()>().await;
    })
    .await;
    let long_head = local(|mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream
            .write_all(b"X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n")
            .await
            .is_ok()
        {}
    })
    .await;
    let garbage = says("\u{1}\u{2}garbage\r\n\r\n").await;
    let early = says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx").await;
    let upgrade =
        says("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n").await;
    let large = says("HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n").await;
    for (port, status, cause) in [
        (absent, 502, "nothing answers"),
        (slow, 504, "did not answer within 2s"),
        (endless, 502, "more than 5000000 bytes"),
        (trickling, 504, "did not answer within 2s"),
        (long_head, 502, "does not answer in HTTP"),
        (garbage, 502, "does not answer in HTTP"),
        (early, 502, "ended early"),
        (upgrade, 502, ""),
        (large, 502, "more than 5000000 bytes"),
    ] {
        let (given, why) = rig.call(format!("{port}:/"), Value::Null).await;
        assert_eq!(given, status, "{cause}: {why}");
        assert!(why.contains(cause), "{cause}: {why}");
    }
}

#[tokio::test]
async fn the_agents_own_ports_and_invalid_calls_are_refused_before_dialling() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let own = listener.local_addr().unwrap().port();
    let ports = Ports::new(BTreeSet::new(), BTreeSet::from([own]));
    let rig = Rig::on(MemoryStore::new(), ports).await;
    for port in [10350, 10550, 10250, own, rig.address.port()] {
        let (status, why) = rig.call(format!("{port}:/pods"), Value::Null).await;
        assert_eq!(status, 403, "{why}");
        assert!(why.contains(&port.to_string()), "{why}");
    }
    for (target, request, status) in [
        ("evil.example:80/x", Value::Null, 400),
        ("80@evil.example:/x", Value::Null, 400),
        ("80:/x\r\nX: y", Value::Null, 400),
        ("80:/x", json!({"header": {"A": ["b\r\nC: d"]}}), 400),
        ("80:/x", json!({"header": 7}), 400),
        (
            "80:/x",
            json!({"body": STANDARD.encode(vec![0; 5_000_001])}),
            413,
        ),
    ] {
        assert_eq!(
            rig.call(target.to_owned(), request).await.0,
            status,
            "{target}"
        );
    }
    let nobody = timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(nobody.is_err(), "the agent's own port was dialled");
}

/// Calls wait for their own server, and for no other.
#[tokio::test]
async fn a_slow_server_does_not_stop_the_calls_of_others() {
    let rig = Rig::new().await;
    let slow = local(hangs).await;
    let quick = says("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    for number in 0..200 {
        rig.ask(&format!("slow {number}"), format!("{slow}:/"), Value::Null)
            .await;
    }
    for number in 0..20 {
        rig.ask(
            &format!("quick {number}"),
            format!("{quick}:/"),
            Value::Null,
        )
        .await;
    }
    let mut statuses = BTreeMap::<(bool, u64), usize>::new();
    let mut is_slow_over = false;
    for _ in 0..220 {
        let (id, status, ..) = rig.answer().await;
        let is_quick = id.starts_with("quick");
        assert!(
            !(is_quick && is_slow_over),
            "{id} has waited for the slow one"
        );
        is_slow_over |= status == 504;
        *statuses.entry((is_quick, status)).or_default() += 1;
    }
    // a quarter of all running calls
    assert_eq!(
        statuses,
        BTreeMap::from([((true, 200), 20), ((false, 504), 128), ((false, 503), 72)])
    );
}

#[tokio::test]
async fn an_answer_that_the_cloud_cannot_get_any_more_is_dropped() {
    let mut rig = Rig::new().await;
    let (arrived, mut arrives) = mpsc::channel(1);
    let (go, goes) = tokio::sync::watch::channel(false);
    let port = local(move |mut stream, _| {
        let (arrived, mut goes) = (arrived.clone(), goes.clone());
        async move {
            let _ = arrived.send(()).await;
            let _ = goes.wait_for(|go| *go).await;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .await;
        }
    })
    .await;
    rig.ask("lost", format!("{port}:/"), Value::Null).await;
    arrives.recv().await.unwrap();
    rig.line.down();
    go.send_replace(true);
    // the next one on the same server comes after it
    loop {
        rig.ask("next", format!("{port}:/"), Value::Null).await;
        rig.line.up();
        let (id, status, ..) = rig.answer().await;
        assert_eq!(status, 200);
        if id == "next" {
            return;
        }
    }
}

/// Sends a program's request to the local server; returns the status and JSON of the response.
async fn post(address: SocketAddr, head: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!("{head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within("an answer", stream.read_to_string(&mut answer))
        .await
        .unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        serde_json::from_str(body).unwrap_or_default(),
    )
}

const POST: &str = "POST / HTTP/1.1\r\nHost: 127.0.0.1:9060";
const URL: &str = "http://target.example/a";

fn request(url: &str) -> String {
    json!({"method": "POST", "targetURL": url, "payload": {"a": "b"}}).to_string()
}

/// Waits until the server knows the URL, or no longer does.
async fn until_known(rig: &Rig, url: &str, is_known: bool) {
    let targets = targets::Targets::new(rig.store.clone());
    eventually(&format!("{url} is known: {is_known}"), async || {
        targets.load().await.unwrap();
        if targets.has(url) == is_known {
            Ok(())
        } else {
            Err(!is_known)
        }
    })
    .await;
}

#[tokio::test]
async fn programs_can_call_registered_urls_only() {
    let rig = Rig::new().await;
    let (status, told) = post(rig.address, POST, &request(URL)).await;
    assert_eq!((status, &told["code"]), (403, &json!(403)), "{told}");
    rig.register(URL, true).await;
    until_known(&rig, URL, true).await;
    // it is kept over a restart
    let rig = rig.again().await;
    let asked = tokio::spawn(post(
        rig.address,
        POST,
        &*Box::leak(request(URL).into_boxed_str()),
    ));
    let message = within("a message to the cloud", rig.line.next()).await;
    assert_eq!(
        (
            message.route.resource.as_str(),
            message.route.operation.as_str()
        ),
        (URL, "upload")
    );
    let sent = STANDARD.decode(message.content.as_str().unwrap()).unwrap();
    assert_eq!(String::from_utf8(sent).unwrap(), request(URL));
    // the rule is deleted during the call: it is answered all the same
    rig.register(URL, false).await;
    until_known(&rig, URL, false).await;
    let content = json!({"header": null, "status_code": 200, "body": STANDARD.encode("hello")});
    let answer = Downstream::UploadAnswer {
        origin: Source::ServiceBus,
        failed: false,
        path: URL.into(),
        content,
    };
    rig.line
        .say(answer.into_message(1).answering(&message.header.msg_id))
        .await;
    let (status, told) = asked.await.unwrap();
    assert_eq!(
        (status, &told["code"], &told["body"]),
        (200, &json!(200), &json!("hello"))
    );
    let (status, _) = post(rig.address, POST, &request(URL)).await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn refusals_and_timeouts_of_the_cloud_are_returned_to_the_program() {
    let rig = Rig::new().await;
    rig.register(URL, true).await;
    until_known(&rig, URL, true).await;
    let text = request(URL);
    let (asked, ()) = tokio::join!(post(rig.address, POST, &text), async {
        let message = rig.line.next().await;
        let answer = Downstream::UploadAnswer {
            origin: Source::ServiceBus,
            failed: true,
            path: URL.into(),
            content: "no rule has this target".into(),
        };
        rig.line
            .say(answer.into_message(1).answering(&message.header.msg_id))
            .await;
    });
    assert_eq!(
        (asked.0, &asked.1["msg"]),
        (502, &json!("no rule has this target"))
    );
    let (status, told) = post(rig.address, POST, &text).await;
    assert_eq!(
        (status, &told["code"]),
        (504, &json!(504)),
        "nobody answers: {told}"
    );
    rig.line.down();
    let (status, told) = post(rig.address, POST, &text).await;
    assert_eq!((status, &told["code"]), (503, &json!(503)), "{told}");
}

#[tokio::test]
async fn bad_requests_of_programs_and_pages_are_refused() {
    let rig = Rig::new().await;
    rig.register(URL, true).await;
    until_known(&rig, URL, true).await;
    let body = request(URL);
    for (head, body, status) in [
        (POST, "", 400),
        (POST, "{", 400),
        (POST, "{\"targetURL\":\"\"}", 400),
        ("GET / HTTP/1.1\r\nHost: localhost", &*body, 405),
        ("POST / HTTP/1.1\r\nHost: evil.example", &body, 421),
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example",
            &body,
            403,
        ),
    ] {
        assert_eq!(
            post(rig.address, head, body).await.0,
            status,
            "{head} {body}"
        );
    }
    // a body that is announced as too large is refused before any of it is read
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    stream
        .write_all(format!("{POST}\r\nContent-Length: 6000000\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = vec![0; 12];
    within("an answer", stream.read_exact(&mut answer))
        .await
        .unwrap();
    assert_eq!(String::from_utf8(answer).unwrap(), "HTTP/1.1 413");
}

#[tokio::test]
async fn a_thousand_rules_are_registered_and_forgotten() {
    let rig = Rig::new().await;
    let url = |number: usize| format!("http://target.example/{number}");
    for number in 0..1000 {
        rig.register(&url(number), true).await;
    }
    until_known(&rig, &url(999), true).await;
    for number in 0..999 {
        rig.register(&url(number), false).await;
    }
    until_known(&rig, &url(998), false).await;
    let targets = targets::Targets::new(rig.store.clone());
    assert_eq!(targets.load().await.unwrap(), 1);
    assert!(targets.has(&url(999)));
}

#[tokio::test]
async fn bodies_of_five_megabytes_go_both_ways() {
    let rig = Rig::with(MemoryStore::new(), Ports::default(), WAIT_TIMEOUT).await;
    let port = local(|mut stream, request| async move {
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body.as_bytes()).await;
    })
    .await;
    let body = "x".repeat(wire::bus::MAX_BODY);
    let request = json!({"body": STANDARD.encode(&body), "method": "POST"});
    let (status, answered) = rig.call(format!("{port}:/"), request).await;
    assert_eq!((status, answered.len()), (200, body.len()));
}
