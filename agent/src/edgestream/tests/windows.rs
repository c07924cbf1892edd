//! A cloud with windows: streams that are not read, beside others.

use wire::tunnel::window::WINDOW;

use super::*;

impl Cloud {
    fn with_windows(runtime: Option<Arc<TcpListener>>) -> Self {
        Self::of(config(), runtime, Some(WINDOW))
    }

    async fn take(&mut self, id: u64, bytes: usize) {
        self.send(&Message::Text(Frame::window(id, bytes).encode().into()))
            .await;
    }

    /// Reads this many bytes of a stream, which are all that come.
    async fn bytes(&mut self, id: u64, count: usize) {
        let mut received = 0;
        while received < count {
            let frame = self.next().await;
            assert_eq!((frame.id, frame.kind), (id, Kind::Data));
            received += frame.data.len();
        }
        assert_eq!(received, count);
    }
}

#[tokio::test]
async fn a_log_of_which_nothing_is_taken_stops_at_the_window_and_commands_beside_it_do_not() {
    let mut cloud = Cloud::with_windows(None);
    cloud.connect(1, Kind::Exec, "/endless").await;
    cloud.bytes(1, WINDOW).await;
    for id in 2..50 {
        cloud.connect(id, Kind::Exec, "/what").await;
        assert!(
            cloud.whole(id).await.starts_with(b"HTTP/1.1 404 "),
            "and nothing of the log"
        );
    }
    for more in [1, 1000, WINDOW] {
        cloud.take(1, more).await;
        cloud.bytes(1, more).await;
        cloud.connect(99, Kind::Logs, "/between").await;
        assert_eq!(cloud.whole(99).await, b"/between");
    }
    cloud.frame(1, Kind::RemoveConnect, "").await;
    assert_eq!(
        cloud.next().await,
        Frame::new(1, Kind::RemoveConnect, ""),
        "one that waits can be ended"
    );
}

#[tokio::test]
async fn a_command_that_reads_nothing_takes_no_more_than_a_window_and_all_of_it_later() {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
    let mut cloud = Cloud::with_windows(Some(listener.clone()));
    cloud.connect(1, Kind::Exec, "/upgraded").await;
    let (mut runtime, _) = listener.accept().await.unwrap();
    // more than the socket buffers hold
    let bytes: Vec<u8> = (0..=250).cycle().take(32 * 1024 * 1024).collect();
    let (mut credit, mut sent, mut others) = (WINDOW, 0, 100);
    loop {
        while credit > 0 {
            let part = credit.min(16 * 1024);
            cloud
                .frame(
                    1,
                    Kind::Data,
                    Bytes::copy_from_slice(&bytes[sent..sent + part]),
                )
                .await;
            (sent, credit) = (sent + part, credit - part);
        }
        // beside it, before anything of it is read
        others += 1;
        cloud.connect(others, Kind::Logs, "/what").await;
        loop {
            let frame = cloud.next().await;
            match frame.window_bytes() {
                Some(taken) => credit += taken,
                None if frame.kind == Kind::RemoveConnect => break,
                None => assert_eq!(frame, Frame::new(others, Kind::Data, "/what")),
            }
        }
        if credit == 0 {
            break;
        }
    }
    assert!(sent < bytes.len(), "the command has taken everything");
    let count = bytes.len();
    let reading = tokio::spawn(async move {
        let mut received = vec![0; count];
        runtime.read_exact(&mut received).await.unwrap();
        received
    });
    while sent < bytes.len() {
        if credit == 0 {
            credit += cloud.next().await.window_bytes().unwrap();
        }
        let part = credit.min(16 * 1024).min(bytes.len() - sent);
        cloud
            .frame(
                1,
                Kind::Data,
                Bytes::copy_from_slice(&bytes[sent..sent + part]),
            )
            .await;
        (sent, credit) = (sent + part, credit - part);
    }
    assert!(
        within("all bytes", reading).await.unwrap() == bytes,
        "all bytes in their order"
    );
}

#[tokio::test]
async fn the_node_offers_a_window_and_learns_the_clouds() {
    for (said, window) in [
        ("outrigger-stream-window: 4096\r\n", Some(4096)),
        ("", None),
    ] {
        let (node, mut cloud) = duplex(64 * 1024);
        let upgrading = tokio::spawn(dial::upgrade(node, "cloud:10004", "edge-1", "192.0.2.1"));
        let mut asked = BytesMut::new();
        while !asked.ends_with(b"\r\n\r\n") {
            cloud.read_buf(&mut asked).await.unwrap();
        }
        let asked = String::from_utf8(asked.to_vec()).unwrap();
        assert!(
            asked.contains("outrigger-stream-window: 262144\r\n"),
            "{asked}"
        );
        let key = asked
            .split("sec-websocket-key: ")
            .nth(1)
            .unwrap()
            .split("\r\n")
            .next()
            .unwrap();
        let accept = wire::websocket::accept_key(key);
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n{said}\r\n"
        );
        cloud.write_all(answer.as_bytes()).await.unwrap();
        let (_, learned) = within("the end of the upgrade", upgrading)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(learned, window);
    }
}
