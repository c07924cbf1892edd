//! Messages over a node's connection, whatever carries them: what a session reads and writes.

use std::time::Duration;

use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{
    self, Utf8Bytes,
    protocol::{CloseFrame, frame::coding::CloseCode},
};
use wire::{
    Message,
    frame::{self, Decoder},
};

use super::{session::Ended, upgrade::Socket};

/// Bytes read from QUIC at one time.
const PORTION: usize = 64 * 1024;

/// The end from which the node's messages come.
pub(super) enum Reader {
    /// With the limit of a message, bytes.
    WebSocket(SplitStream<Socket>, usize),
    Quic(RecvStream, Decoder),
}

/// The end into which the cloud's messages go.
pub(super) enum Writer {
    WebSocket(SplitSink<Socket, tungstenite::Message>),
    Quic(SendStream, Connection),
}

/// A connection; messages of the node have at most `limit` bytes.
pub(super) fn websocket(socket: Socket, limit: usize) -> (Reader, Writer) {
    let (writer, reader) = socket.split();
    (Reader::WebSocket(reader, limit), Writer::WebSocket(writer))
}

impl Reader {
    /// The next message; `None` for a sign of life that says nothing. Cancel-safe: what is not whole stays.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, Ended> {
        match self {
            Self::WebSocket(reader, limit) => {
                let bytes = match reader.next().await {
                    None | Some(Ok(tungstenite::Message::Close(_))) => return Err(Ended::Closed),
                    Some(Err(error)) => return Err(Ended::Socket(Box::new(error))),
                    Some(Ok(frame @ (tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)))) => {
                        frame.into_data()
                    }
                    // pings are answered by the library
                    Some(Ok(_)) => return Ok(None),
                };
                if bytes.is_empty() {
                    return Ok(None);
                }
                wire::json::decode(&bytes, *limit).map(Some).map_err(Ended::Malformed)
            }
            Self::Quic(stream, decoder) => loop {
                if let Some((message, _)) = decoder.take().map_err(Ended::Frame)? {
                    return Ok(Some(message));
                }
                match stream.read_chunk(PORTION, true).await {
                    Ok(Some(chunk)) => decoder.push(&chunk.bytes),
                    Ok(None) => return Err(Ended::Closed),
                    Err(ReadError::ConnectionLost(error)) => return Err(lost(error)),
                    Err(error) => return Err(Ended::Stream(error.into())),
                }
            },
        }
    }
}

impl Writer {
    /// Writes a message within `limit`.
    pub(super) async fn send(&mut self, message: &Message, limit: Duration) -> Result<(), Ended> {
        match self {
            Self::WebSocket(writer) => {
                let text = Utf8Bytes::from(wire::json::encode(message));
                write(writer, tungstenite::Message::Text(text), limit).await
            }
            Self::Quic(stream, _) => match timeout(limit, stream.write_all(&frame::encode(message))).await {
                Err(_) => Err(Ended::Stalled(limit)),
                Ok(Err(WriteError::ConnectionLost(error))) => Err(lost(error)),
                Ok(Err(error)) => Err(Ended::Stream(error.into())),
                Ok(Ok(())) => Ok(()),
            },
        }
    }

    /// Says why the connection ends, where the node still listens.
    pub(super) async fn farewell(&mut self, code: CloseCode, reason: &str, limit: Duration) {
        // a control frame holds 125 bytes, two of them the code
        let reason: String = reason.chars().filter(char::is_ascii).take(120).collect();
        match self {
            Self::WebSocket(writer) => {
                let close = CloseFrame { code, reason: reason.into() };
                let _ = write(writer, tungstenite::Message::Close(Some(close)), limit).await;
            }
            Self::Quic(_, connection) => {
                connection.close(VarInt::from_u32(u16::from(code).into()), reason.as_bytes());
            }
        }
    }
}

async fn write(
    writer: &mut SplitSink<Socket, tungstenite::Message>,
    frame: tungstenite::Message,
    limit: Duration,
) -> Result<(), Ended> {
    match timeout(limit, writer.send(frame)).await {
        Err(_) => Err(Ended::Stalled(limit)),
        Ok(Err(error)) => Err(Ended::Socket(Box::new(error))),
        Ok(Ok(())) => Ok(()),
    }
}

fn lost(error: ConnectionError) -> Ended {
    match error {
        ConnectionError::ApplicationClosed(_) | ConnectionError::ConnectionClosed(_) => Ended::Closed,
        error => Ended::Stream(error.into()),
    }
}
