//! A tunnel to a simulated cloud: by the reference, and hostile.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use edged::{AddressSource, KubeletRequest, KubeletResponse};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use parking_lot::Mutex;
use testkit::{WAIT_TIMEOUT, until, within, within_timeout};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use wire::{
    tunnel::{Connect, Frame, Kind, MAX_DATA, MAX_FRAME},
    websocket::{Decoder, Message, Role, encode},
};

use super::{
    Config, RequestHandler,
    dial::{self, DialError},
    streams::MAX_STREAMS,
    tunnel::{self, TunnelEnd},
};
use crate::{
    config::{HostPort, TlsFiles},
    edgehub::Proxy,
};

mod windows;

fn config() -> Config {
    let tls = TlsFiles {
        ca: "ca".into(),
        cert: "cert".into(),
        key: "key".into(),
    };
    Config {
        node_name: "edge-1".into(),
        address: AddressSource::Fixed([192, 0, 2, 1].into()),
        node: None,
        server: HostPort {
            host: "cloud".into(),
            port: 10004,
        },
        proxy: Proxy::default(),
        in_process: None,
        tls,
        handshake_timeout: WAIT_TIMEOUT,
        read_deadline: WAIT_TIMEOUT,
        write_deadline: WAIT_TIMEOUT,
        recorder: Default::default(),
    }
}

/// A fake kubelet API.
#[derive(Clone)]
struct Fake {
    /// The requests so far.
    asked: Arc<Mutex<Vec<String>>>,
    /// The server of upgraded requests.
    runtime: Option<Arc<TcpListener>>,
    /// Permits that are returned with each request.
    under_way: Arc<Semaphore>,
}

impl RequestHandler for Fake {
    async fn answer(&self, request: KubeletRequest) -> KubeletResponse {
        self.asked.lock().push(format!(
            "{} {}?{}",
            request.method, request.path, request.query
        ));
        match request.path.as_str() {
            "/upgraded" => {
                let listener = self.runtime.clone().unwrap();
                KubeletResponse::Upgraded(
                    TcpStream::connect(listener.local_addr().unwrap())
                        .await
                        .unwrap(),
                )
            }
            "/endless" => {
                let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
                let endless =
                    futures::stream::repeat_with(move || Ok(http_body::Frame::data(chunk.clone())));
                Response::new(StreamBody::new(endless).boxed_unsync()).into()
            }
            "/waits" => {
                let place = self.under_way.clone().acquire_owned().await.unwrap();
                let _place = place;
                std::future::pending().await
            }
            text => {
                let body = Full::new(Bytes::from(text.to_owned())).map_err(|never| match never {});
                let mut response = Response::new(body.boxed_unsync());
                *response.status_mut() = StatusCode::NOT_FOUND;
                response.into()
            }
        }
    }
}

/// The cloud's end of a tunnel.
struct Cloud {
    io: DuplexStream,
    decoder: Decoder,
    input: BytesMut,
    api: Fake,
    shutdown: CancellationToken,
    run: JoinHandle<TunnelEnd>,
}

impl Cloud {
    fn new() -> Self {
        Self::with(config(), None)
    }

    fn with(config: Config, runtime: Option<Arc<TcpListener>>) -> Self {
        Self::of(config, runtime, None)
    }

    /// Starts with a cloud that has this window.
    fn of(config: Config, runtime: Option<Arc<TcpListener>>, window: Option<usize>) -> Self {
        let (node, io) = duplex(64 * 1024);
        let api = Fake {
            asked: Arc::default(),
            runtime,
            under_way: Arc::new(Semaphore::new(1000)),
        };
        let shutdown = CancellationToken::new();
        let (answers, stop) = (api.clone(), shutdown.clone());
        let run =
            tokio::spawn(async move { tunnel::run(node, window, &config, &answers, &stop).await });
        Self {
            io,
            decoder: Decoder::new(Role::Server, MAX_FRAME),
            input: BytesMut::new(),
            api,
            shutdown,
            run,
        }
    }

    async fn send(&mut self, message: &Message) {
        let mut out = BytesMut::new();
        encode(&mut out, message, None);
        within("room for a message", self.io.write_all(&out))
            .await
            .unwrap();
    }

    async fn frame(&mut self, id: u64, kind: Kind, data: impl Into<Bytes>) {
        self.send(&Message::Text(Frame::new(id, kind, data).encode().into()))
            .await;
    }

    async fn connect(&mut self, id: u64, kind: Kind, path: &str) {
        let frame = Connect::new(id, path, "a=b")
            .method("POST")
            .frame(kind)
            .unwrap();
        self.send(&Message::Text(frame.encode().into())).await;
    }

    /// Returns the next message that is no ping.
    async fn message(&mut self) -> Option<Message> {
        loop {
            while let Some(message) = self.decoder.next(&mut self.input).unwrap() {
                if !matches!(message, Message::Ping(_)) {
                    return Some(message);
                }
            }
            let read = within("a message", self.io.read_buf(&mut self.input)).await;
            if read.unwrap() == 0 {
                return None;
            }
        }
    }

    async fn next(&mut self) -> Frame {
        match self.message().await {
            Some(Message::Text(payload)) => Frame::decode(payload).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns all bytes of a stream until its end; there is no other stream.
    async fn whole(&mut self, id: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let frame = self.next().await;
            assert_eq!(frame.id, id);
            match frame.kind {
                Kind::Data => bytes.extend_from_slice(&frame.data),
                Kind::RemoveConnect => return bytes,
                other => panic!("{other:?}"),
            }
        }
    }

    async fn wait_ended(mut self) -> TunnelEnd {
        // messages that are still on their way are ignored
        while self.message().await.is_some() {}
        within("the end of the tunnel", self.run).await.unwrap()
    }
}

#[tokio::test]
async fn a_log_is_its_body_and_an_exec_an_http_answer() {
    let mut cloud = Cloud::new();
    cloud.connect(1, Kind::Logs, "/what").await;
    assert_eq!(cloud.whole(1).await, b"/what");
    cloud.connect(2, Kind::Exec, "/what").await;
    let text = String::from_utf8(cloud.whole(2).await).unwrap();
    assert_eq!(
        text,
        "HTTP/1.1 404 Not Found\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n/what\r\n0\r\n\r\n"
    );
    assert_eq!(*cloud.api.asked.lock(), ["GET /what?a=b", "POST /what?a=b"]);
}

#[tokio::test]
async fn bytes_of_an_upgraded_connection_go_both_ways_unchanged() {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let mut cloud = Cloud::with(config(), Some(listener.clone()));
    cloud.connect(1, Kind::Exec, "/upgraded").await;
    let (mut runtime, _) = listener.accept().await.unwrap();
    // no UTF-8 in either direction
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let sent = bytes.clone();
    let echo = tokio::spawn(async move {
        let mut received = vec![0; 100_000];
        runtime.read_exact(&mut received).await.unwrap();
        runtime.write_all(&received).await.unwrap();
    });
    for chunk in sent.chunks(7000) {
        cloud
            .frame(1, Kind::Data, Bytes::copy_from_slice(chunk))
            .await;
    }
    assert!(cloud.whole(1).await == bytes);
    echo.await.unwrap();
}

#[tokio::test]
async fn when_the_cloud_ends_a_stream_the_connection_is_closed_and_one_end_is_sent() {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let mut cloud = Cloud::with(config(), Some(listener.clone()));
    cloud.connect(1, Kind::Attach, "/upgraded").await;
    let (mut runtime, _) = listener.accept().await.unwrap();
    // CloudCore repeats it until the node sends its own
    for _ in 0..100 {
        cloud.frame(1, Kind::RemoveConnect, "").await;
    }
    assert_eq!(
        within("the end of the connection", runtime.read(&mut [0; 1]))
            .await
            .unwrap(),
        0,
        "closed"
    );
    assert_eq!(cloud.next().await, Frame::new(1, Kind::RemoveConnect, ""));
    cloud.connect(2, Kind::Logs, "/after").await;
    assert_eq!(cloud.whole(2).await, b"/after", "nothing more of the first");
}

#[tokio::test]
async fn a_long_log_does_not_delay_a_command_beside_it() {
    let mut cloud = Cloud::new();
    for id in 1..=20 {
        cloud.connect(id, Kind::Logs, "/endless").await;
    }
    cloud.connect(100, Kind::Exec, "/what").await;
    let mut between = 0;
    loop {
        let frame = cloud.next().await;
        if frame.id == 100 {
            break;
        }
        between += 1;
        assert!(between < 200, "the command waits for logs");
    }
}

#[tokio::test]
async fn close_connect_ends_the_tunnel_with_its_reason() {
    let mut cloud = Cloud::new();
    cloud.connect(1, Kind::Logs, "/endless").await;
    cloud.frame(0, Kind::CloseConnect, "no such node").await;
    assert!(matches!(cloud.wait_ended().await, TunnelEnd::Closed(why) if why == "no such node"));
}

#[tokio::test]
async fn at_shutdown_the_tunnel_is_closed_properly() {
    let mut cloud = Cloud::new();
    cloud.connect(1, Kind::Exec, "/waits").await;
    until("a request", || !cloud.api.asked.lock().is_empty()).await;
    cloud.shutdown.cancel();
    let mut last = None;
    while let Some(message) = cloud.message().await {
        last = Some(message);
    }
    assert_eq!(last, Some(Message::Close(Bytes::from_static(&[3, 0xe8]))));
    assert!(matches!(
        within("the end of the tunnel", cloud.run).await.unwrap(),
        TunnelEnd::Shutdown
    ));
}

#[tokio::test]
async fn whatever_a_hostile_cloud_sends_is_ignored_or_refused() {
    let mut cloud = Cloud::new();
    for bytes in [
        &[][..],
        &[1],
        &[1, 7],
        &[1, 99, 0xff],
        &[0xff; 30],
        b"\xff\xfe no frame",
    ] {
        cloud
            .send(&Message::Text(Bytes::copy_from_slice(bytes)))
            .await;
    }
    // unknown ids, and data after the end
    cloud.frame(77, Kind::Data, "x").await;
    cloud.frame(77, Kind::RemoveConnect, "").await;
    cloud
        .frame(5, Kind::Metrics, &b"\xff\x00 no JSON"[..])
        .await;
    assert_eq!(cloud.whole(5).await, b"malformed request");
    cloud.frame(5, Kind::Data, "late").await;
    cloud
        .send(&Message::Ping(Bytes::from_static(b"are you there")))
        .await;
    assert_eq!(
        cloud.message().await,
        Some(Message::Pong(Bytes::from_static(b"are you there")))
    );
}

/// CVE-2022-31079: a message of the tunnel was read completely, however large it was.
#[tokio::test]
async fn a_message_that_is_too_large_ends_the_tunnel_before_it_is_read() {
    let mut cloud = Cloud::new();
    // a head that announces a terabyte
    cloud
        .io
        .write_all(&[0x81, 127, 0, 0, 1, 0, 0, 0, 0, 0])
        .await
        .unwrap();
    assert!(
        matches!(cloud.wait_ended().await, TunnelEnd::Lost(error) if error.kind() == io::ErrorKind::InvalidData)
    );
    // and fragments without an end
    let mut cloud = Cloud::new();
    let mut part = vec![0x01, 127];
    part.extend((256 * 1024_u64).to_be_bytes());
    part.resize(part.len() + 256 * 1024, 7);
    let mut written = 0;
    while written < 16 * MAX_DATA && cloud.io.write_all(&part).await.is_ok() {
        written += part.len();
        part[0] = 0;
    }
    assert!(written < 3 * MAX_DATA, "{written} bytes were taken");
    assert!(matches!(
        within("the end of the tunnel", cloud.run).await.unwrap(),
        TunnelEnd::Lost(_)
    ));
}

/// CVE-2022-31080: the client read the body of a server's refusal completely.
#[tokio::test]
async fn of_a_refusal_without_end_little_is_read() {
    let (node, mut cloud) = duplex(64 * 1024);
    let upgrading = tokio::spawn(dial::upgrade(node, "cloud:10004", "edge-1", "192.0.2.1"));
    let mut asked = BytesMut::new();
    while !asked.ends_with(b"\r\n\r\n") {
        cloud.read_buf(&mut asked).await.unwrap();
    }
    let asked = String::from_utf8(asked.to_vec()).unwrap().to_lowercase();
    assert!(
        asked.starts_with("get /v1/kubeedge/connect http/1.1\r\n"),
        "{asked}"
    );
    assert!(
        asked.contains("sessionhostnameoverride: edge-1\r\nsessioninternalip: 192.0.2.1\r\n"),
        "{asked}"
    );
    cloud
        .write_all(b"HTTP/1.1 403 Forbidden\r\n\r\nno such node\n")
        .await
        .unwrap();
    let endless = vec![b'x'; 64 * 1024];
    let mut written = 0;
    while written < 64 * 1024 * 1024 && cloud.write_all(&endless).await.is_ok() {
        written += endless.len();
    }
    assert!(written < 1024 * 1024, "{written} bytes were taken");
    let error = within("the end of the upgrade", upgrading)
        .await
        .unwrap()
        .err();
    assert!(
        matches!(error, Some(DialError::Refused(_, StatusCode::FORBIDDEN, _))),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_hundred_thousand_requests_are_bounded() {
    let mut cloud = Cloud::new();
    for id in 1..=MAX_STREAMS as u64 {
        cloud.connect(id, Kind::Exec, "/waits").await;
    }
    let mut requests = BytesMut::new();
    for id in 1000..101_000_u64 {
        let frame = Connect::new(id, "/waits", "").frame(Kind::Logs).unwrap();
        encode(&mut requests, &Message::Text(frame.encode().into()), None);
    }
    let Cloud {
        io,
        mut decoder,
        api,
        run,
        ..
    } = cloud;
    let (mut reader, mut writer) = tokio::io::split(io);
    let writing = tokio::spawn(async move {
        writer.write_all(&requests).await.unwrap();
        writer
    });
    let (mut input, mut refused) = (BytesMut::new(), 0);
    while refused < 100_000 {
        while let Some(message) = decoder.next(&mut input).unwrap() {
            let Message::Text(payload) = message else {
                continue;
            };
            let frame = Frame::decode(payload).unwrap();
            assert!(frame.id >= 1000, "{frame:?}");
            refused += u32::from(frame.kind == Kind::RemoveConnect);
        }
        assert_ne!(
            within("a frame", reader.read_buf(&mut input))
                .await
                .unwrap(),
            0
        );
    }
    writing.await.unwrap();
    assert_eq!(api.asked.lock().len(), MAX_STREAMS);
    assert!(!run.is_finished());
    run.abort();
}

#[tokio::test(start_paused = true)]
async fn a_silent_cloud_is_given_up_and_one_that_answers_pings_is_not() {
    let quiet = Cloud::new();
    assert!(
        matches!(within_timeout(WAIT_TIMEOUT * 2, "the end of the tunnel", quiet.run).await.unwrap(), TunnelEnd::Lost(error) if error.kind() == io::ErrorKind::TimedOut)
    );
    let mut cloud = Cloud::new();
    for _ in 0..100 {
        let ping = loop {
            match cloud.decoder.next(&mut cloud.input).unwrap() {
                Some(Message::Ping(payload)) => break payload,
                Some(other) => panic!("{other:?}"),
                None => assert_ne!(cloud.io.read_buf(&mut cloud.input).await.unwrap(), 0),
            }
        };
        assert_eq!(ping, "ping you");
        cloud.send(&Message::Pong(ping)).await;
    }
    assert!(!cloud.run.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_takes_nothing_is_given_up() {
    let mut cloud = Cloud::new();
    cloud.connect(1, Kind::Logs, "/endless").await;
    let ended = within_timeout(WAIT_TIMEOUT * 3, "the end of the tunnel", &mut cloud.run)
        .await
        .unwrap();
    assert!(matches!(ended, TunnelEnd::Lost(error) if error.kind() == io::ErrorKind::TimedOut));
}
