//! Tests the streaming server over WebSockets.

use std::{collections::BTreeMap, io::Write as _};

use bytes::{Bytes, BytesMut};
use testkit::within;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use wire::websocket::{self, Decoder, Message};

use super::{upgrade, world};

/// A client over WebSocket.
struct Socket {
    stream: TcpStream,
    decoder: Decoder,
    input: BytesMut,
}

impl Socket {
    async fn open(url: &str, offered: &str, chosen: &str) -> Self {
        let headers = [
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Protocol", offered),
        ];
        let (head, stream) = upgrade(url, "GET", &headers).await;
        let head = head.to_ascii_lowercase();
        assert!(
            head.contains(&format!("sec-websocket-protocol: {chosen}\r\n")),
            "{head}"
        );
        assert!(head.contains("s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
        Self {
            stream,
            decoder: Decoder::new(websocket::Role::Client, 1 << 20),
            input: BytesMut::new(),
        }
    }

    async fn send(&mut self, bytes: &[u8]) {
        let mut out = BytesMut::new();
        websocket::encode(
            &mut out,
            &Message::Binary(Bytes::copy_from_slice(bytes)),
            Some([1, 2, 3, 4]),
        );
        self.stream.write_all(&out).await.unwrap();
    }

    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.decoder.next(&mut self.input).unwrap() {
                return Some(message);
            }
            if within("a message", self.stream.read_buf(&mut self.input))
                .await
                .unwrap()
                == 0
            {
                return None;
            }
        }
    }

    /// Returns what comes on each channel until the normal end.
    async fn finish(&mut self) -> BTreeMap<u8, Vec<u8>> {
        let mut channels = BTreeMap::<u8, Vec<u8>>::new();
        loop {
            match self.next().await {
                Some(Message::Binary(payload)) => {
                    channels
                        .entry(payload[0])
                        .or_default()
                        .extend_from_slice(&payload[1..]);
                }
                Some(Message::Close(code)) => {
                    assert_eq!(code.as_ref(), 1000_u16.to_be_bytes());
                    return channels;
                }
                other => panic!("{other:?} is no end"),
            }
        }
    }
}

#[tokio::test]
async fn websockets_carry_commands_with_and_without_an_end_of_input() {
    let mut world = world(&[], |_| {}).await;
    let url = world.exec_url("cat", true, false).await;
    let mut socket = Socket::open(
        &url,
        "v5.channel.k8s.io, v4.channel.k8s.io",
        "v5.channel.k8s.io",
    )
    .await;
    assert_eq!(
        socket.next().await,
        Some(Message::Binary(Bytes::from_static(&[1])))
    );
    socket.send(b"\x00hello").await;
    socket.send(&[255, 0]).await;
    let channels = socket.finish().await;
    assert_eq!(channels[&1], b"hello");
    assert_eq!(channels[&3], br#"{"metadata":{},"status":"Success"}"#);

    let url = world
        .exec_url("sh -c 'echo a; echo b >&2; exit 4'", false, false)
        .await;
    let channels = Socket::open(&url, "v4.channel.k8s.io", "v4.channel.k8s.io")
        .await
        .finish()
        .await;
    assert_eq!(
        (channels[&1].as_slice(), channels[&2].as_slice()),
        (&b"a\n"[..], &b"b\n"[..])
    );
    let status: serde_json::Value = serde_json::from_slice(&channels[&3]).unwrap();
    assert_eq!(status["details"]["causes"][0]["message"], "4");
}

#[tokio::test]
async fn websockets_carry_ports() {
    let mut world = world(&[("web.ports", "8080")], |_| {}).await;
    let url = world.ports_url(vec![8080, 81]).await;
    let mut socket = Socket::open(&url, "v4.channel.k8s.io", "v4.channel.k8s.io").await;
    let mut request = vec![0];
    write!(
        request,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    socket.send(&request).await;
    let channels = socket.finish().await;
    assert!(
        channels[&0].starts_with(b"\x90\x1fHTTP/1.1 200 OK\r\n"),
        "{channels:?}"
    );
    assert_eq!(channels[&1], [0x90, 0x1f]);
    assert_eq!(channels[&2], [81, 0]);
    assert!(
        String::from_utf8_lossy(&channels[&3]).ends_with("connection refused "),
        "{channels:?}"
    );
}
