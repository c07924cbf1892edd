//! WebSockets whose messages carry a byte stream; the bounds of messages have no meaning.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, split},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{copy::LastActivity, upgrade::ClientIo};
use crate::{Body, NodeIo};

/// The largest message of a client in bytes: Python's client sends its whole input as one message.
const MAX_MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that are read or written at a time.
const BUFFER_BYTES: usize = 32 * 1024;
/// Bytes of a message that carries a part of a body, as in the API server.
const CHUNK_BYTES: usize = 2 * 1024;
/// How long a client may take to answer a close frame.
pub(super) const CLOSE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// Makes the server side of a WebSocket.
pub(super) async fn accept(io: ClientIo) -> WebSocketStream<ClientIo> {
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await
}

/// Returns the close frame of a normal closure.
pub(super) fn normal_end() -> Message {
    Message::Close(Some(CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    }))
}

/// Copies the payload of messages between a client and a node.
pub(super) async fn tunnel(io: ClientIo, node: Box<dyn NodeIo>) {
    let idle = LastActivity::new();
    let (mut sink, mut source) = accept(io).await.split();
    let (mut node_reads, mut node_writes) = split(node);
    let to_node = async {
        while let Some(Ok(message)) = source.next().await {
            idle.touch();
            let bytes = match message {
                Message::Binary(bytes) => bytes,
                // a text is no bytes
                Message::Text(_) | Message::Close(_) => return,
                // pings are answered by the library
                _ => continue,
            };
            if node_writes.write_all(&bytes).await.is_err() || node_writes.flush().await.is_err() {
                return;
            }
        }
    };
    let to_client = async {
        let mut chunk = vec![0; BUFFER_BYTES];
        while let Ok(length) = node_reads.read(&mut chunk).await
            && length > 0
        {
            idle.touch();
            if sink
                .send(Message::binary(chunk[..length].to_vec()))
                .await
                .is_err()
            {
                return;
            }
        }
    };
    clock::select! {
        () = to_node => {}
        () = to_client => {}
        () = idle.wait_idle() => {}
    }
    // whoever has gone needs none
    let _ = timeout(CLOSE_TIMEOUT, sink.send(normal_end())).await;
}

/// Sends a body as messages, behind an empty one: as bytes, or as base64 in texts.
pub(super) async fn page(io: ClientIo, mut body: Body, base64: bool) {
    let (mut sink, mut source) = accept(io).await.split();
    let message = |bytes: Bytes| match base64 {
        true => Message::text(STANDARD.encode(bytes)),
        false => Message::Binary(bytes),
    };
    let told = async {
        let mut next = Some(Bytes::new());
        while let Some(mut bytes) = next {
            loop {
                let piece = bytes.split_to(bytes.len().min(CHUNK_BYTES));
                if sink.send(message(piece)).await.is_err() {
                    return;
                }
                if bytes.is_empty() {
                    break;
                }
            }
            next = match body.frame().await {
                Some(Ok(frame)) => Some(frame.into_data().unwrap_or_default()),
                Some(Err(_)) | None => None,
            };
        }
    };
    // a client that leaves ends it; what else it says is nobody's
    let left = async { while let Some(Ok(_)) = source.next().await {} };
    clock::select! {
        () = told => {}
        () = left => {}
    }
    // whoever has gone needs none
    let _ = timeout(CLOSE_TIMEOUT, sink.send(normal_end())).await;
}
