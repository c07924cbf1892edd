//! Clients other than `kubectl`, message by message.

use std::sync::Arc;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use rustls_pki_types::ServerName;
use testkit::within;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest, protocol::frame::coding::CloseCode},
};

use super::{super::world::World, pod, world};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn connect(world: &World) -> TlsStream<TcpStream> {
    let pair = world.authority.client("admin", "system:masters");
    let config = world.authority.client_config(Some(&pair));
    let stream = TcpStream::connect(world.address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

type Socket = WebSocketStream<TlsStream<TcpStream>>;

/// Opens a WebSocket; the subprotocol that was chosen.
async fn open(world: &World, path: &str, protocols: &str) -> Result<(Socket, String), Error> {
    let mut request = format!("wss://127.0.0.1{path}")
        .into_client_request()
        .unwrap();
    if !protocols.is_empty() {
        request
            .headers_mut()
            .insert("sec-websocket-protocol", protocols.parse().unwrap());
    }
    let (socket, answer) = client_async(request, connect(world).await).await?;
    let chosen = answer
        .headers()
        .get("sec-websocket-protocol")
        .map(|value| value.to_str().unwrap().to_owned());
    Ok((socket, chosen.unwrap_or_default()))
}

/// The messages until the end, and the code of that.
async fn rest(socket: &mut Socket) -> (Vec<Message>, Option<CloseCode>) {
    let mut messages = Vec::new();
    let all = async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(message)) => messages.push(message),
                Some(Err(_)) | None => return None,
            }
        }
    };
    let code = within("the end of the messages", all).await;
    (messages, code)
}

fn binary(bytes: &'static [u8]) -> Message {
    Message::Binary(Bytes::from_static(bytes))
}

/// What came over a channel.
fn of_channel(messages: &[Message], channel: u8) -> Vec<u8> {
    let all = messages.iter().filter_map(|message| match message {
        Message::Binary(bytes) => bytes.split_first().filter(|(first, _)| **first == channel),
        _ => panic!("{message:?} is not binary"),
    });
    all.flat_map(|(_, data)| data.to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn input_is_ended_by_a_message_and_the_end_is_told_last() {
    let (world, _node) = world().await;
    let path = format!("{PODS}/p/exec?command=cat&stdin=True&stdout=True&stderr=True");
    let (mut socket, chosen) = open(&world, &path, "v5.channel.k8s.io, v4.channel.k8s.io")
        .await
        .unwrap();
    assert_eq!(chosen, "v5.channel.k8s.io");
    assert_eq!(socket.next().await.unwrap().unwrap(), binary(b"\x01"));
    // a text is bytes too, as Python's client sends it; a channel that nobody has is passed over
    for message in [
        binary(b"\x00ab"),
        Message::text("\u{0}cd"),
        binary(b"\x07x"),
        binary(b"\xff\x00"),
    ] {
        socket.send(message).await.unwrap();
    }
    let (messages, code) = rest(&mut socket).await;
    assert_eq!(of_channel(&messages, 1), b"abcd");
    assert_eq!(
        of_channel(&messages, 3),
        br#"{"metadata":{},"status":"Success"}"#
    );
    assert_eq!(messages.last().unwrap().clone().into_data()[0], 3);
    assert_eq!(code, Some(CloseCode::Normal));
}

#[tokio::test(flavor = "multi_thread")]
async fn older_subprotocols_are_translated_too() {
    let (world, _node) = world().await;
    let exit = format!("{PODS}/p/exec?command=exit&command=7&stdout=1");
    let (mut socket, chosen) = open(&world, &exit, "v4.channel.k8s.io").await.unwrap();
    let (messages, code) = rest(&mut socket).await;
    let status: serde_json::Value = serde_json::from_slice(&of_channel(&messages, 3)).unwrap();
    assert_eq!(
        (chosen.as_str(), code),
        ("v4.channel.k8s.io", Some(CloseCode::Normal))
    );
    assert_eq!(
        status["details"]["causes"][0],
        serde_json::json!({"reason": "ExitCode", "message": "7"})
    );
    let say = format!("{PODS}/p/exec?command=say&command=hi&stdout=1");
    let (mut socket, chosen) = open(&world, &say, "base64.channel.k8s.io").await.unwrap();
    let (messages, _) = rest(&mut socket).await;
    assert_eq!(chosen, "base64.channel.k8s.io");
    assert_eq!(messages, [Message::text("1"), Message::text("1aGk=")]);
    // none: the first version, where the end of what succeeded is all that is told
    let (mut socket, _) = open(&world, &say, "").await.unwrap();
    let (messages, code) = rest(&mut socket).await;
    assert_eq!(
        (messages, code),
        (
            vec![binary(b"\x01"), binary(b"\x01hi")],
            Some(CloseCode::Normal)
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_has_a_size() {
    let (world, _node) = world().await;
    let path = format!("{PODS}/p/exec?command=size&stdout=1&stderr=1&tty=1");
    let (mut socket, _) = open(&world, &path, "v5.channel.k8s.io").await.unwrap();
    socket
        .send(binary(b"\x04{\"Width\":80,\"Height\":24}\n"))
        .await
        .unwrap();
    let (messages, _) = rest(&mut socket).await;
    assert_eq!(of_channel(&messages, 1), b"{\"Width\":80,\"Height\":24}\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_output_comes_whole_in_messages_of_their_own() {
    let (world, _node) = world().await;
    let path = format!("{PODS}/p/exec?command=cat&stdin=1&stdout=1");
    let (socket, _) = open(&world, &path, "v5.channel.k8s.io").await.unwrap();
    let (mut sink, mut source) = socket.split();
    let sending = tokio::spawn(async move {
        let mut message = vec![7; 1024 * 1024];
        message[0] = 0;
        for _ in 0..3 {
            sink.send(Message::binary(message.clone())).await.unwrap();
        }
        sink.send(binary(b"\xff\x00")).await.unwrap();
        sink
    });
    let mut length = 0;
    let all = async {
        while let Some(Ok(Message::Binary(bytes))) = source.next().await {
            if bytes[0] == 1 {
                assert!(bytes[1..].iter().all(|byte| *byte == 7) && bytes.len() <= 32 * 1024 + 1);
                length += bytes.len() - 1;
            }
        }
    };
    within("the end of the output", all).await;
    assert_eq!(length, 3 * (1024 * 1024 - 1));
    drop(sending.await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_stream_is_refused_before_it_begins() {
    let (world, node) = world().await;
    pod(&world, "away", "edge-2", &["c"]).await;
    let refused = async |path: &str, protocols: &str| match open(&world, path, protocols).await {
        Err(Error::Http(answer)) => answer.status().as_u16(),
        other => panic!("{:?}", other.map(|(_, chosen)| chosen)),
    };
    let exec = format!("{PODS}/p/exec?command=say&stdout=1");
    assert_eq!(refused(&exec, "x.channel.k8s.io").await, 403);
    assert_eq!(
        refused(&format!("{PODS}/p/exec?command=say"), "v5.channel.k8s.io").await,
        400
    );
    assert_eq!(
        refused(&format!("{PODS}/p/exec?stdout=1"), "v5.channel.k8s.io").await,
        400
    );
    assert_eq!(
        refused(
            &format!("{PODS}/none/exec?command=say&stdout=1"),
            "v5.channel.k8s.io"
        )
        .await,
        404
    );
    assert_eq!(
        refused(
            &format!("{PODS}/away/exec?command=say&stdout=1"),
            "v5.channel.k8s.io"
        )
        .await,
        503
    );
    assert_eq!(refused(&format!("{PODS}/p/portforward"), "x").await, 403);
    assert_eq!(
        refused(&format!("{PODS}/p/portforward"), "v4.channel.k8s.io").await,
        400
    );
    assert_eq!(
        node.requests(),
        ["edge-2 POST /exec/default/away/c?command=say&output=1"]
    );
    let mut plain = connect(&world).await;
    let request = format!(
        "POST {exec} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    plain.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = within("an answer", plain.read_to_string(&mut answer)).await;
    assert!(
        answer.starts_with("HTTP/1.1 400") && answer.contains("Upgrade request required"),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_comes_as_messages_too() {
    let (world, node) = world().await;
    let log = format!("{PODS}/p/log");
    let (mut socket, _) = open(&world, &log, "").await.unwrap();
    let (messages, code) = rest(&mut socket).await;
    assert_eq!(
        (messages, code),
        (
            vec![binary(b""), binary(b"line 1\nline 2\n")],
            Some(CloseCode::Normal)
        )
    );
    let (mut socket, chosen) = open(&world, &log, "base64.binary.k8s.io").await.unwrap();
    let (messages, _) = rest(&mut socket).await;
    assert_eq!(chosen, "base64.binary.k8s.io");
    assert_eq!(
        messages,
        [Message::text(""), Message::text("bGluZSAxCmxpbmUgMgo=")]
    );
    let (mut socket, _) = open(&world, &format!("{log}?follow=true"), "binary.k8s.io")
        .await
        .unwrap();
    for expected in [&b""[..], b"line 1\n"] {
        assert_eq!(
            within("a message", socket.next()).await.unwrap().unwrap(),
            binary(expected)
        );
    }
    drop(socket);
    within("what is left of the node", node.wait_dropped()).await;
}
