//! Messages over a node's connection, for every transport.

use std::time::Duration;

use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use quinn::{Connection, ConnectionError, ReadError, RecvStream, SendStream, VarInt, WriteError};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{
    self, Utf8Bytes,
    protocol::{
        CloseFrame,
        frame::{
            Frame,
            coding::{CloseCode, Data, OpCode},
        },
    },
};
use wire::{
    Message,
    compression::{Compressor, Decompressor},
    frame::{self, Decoder},
};

use super::{end_reason::EndReason, upgrade::Socket};
use crate::faults::{corrupt, hostile::RawMessage};

/// Bytes read from QUIC at a time.
const READ_CHUNK: usize = 64 * 1024;
/// The number of fragments of an endless message, and the bytes of each; together beyond every limit.
const ENDLESS_FRAGMENTS: (usize, usize) = (40, 1024 * 1024);

/// The receiving half of a connection.
pub(super) enum Incoming {
    /// With the largest message in bytes, and a decompressor if the node compresses messages.
    WebSocket(SplitStream<Socket>, usize, Option<Decompressor>),
    Quic(RecvStream, Decoder),
}

/// The sending half of a connection.
pub(super) enum Outgoing {
    WebSocket(SplitSink<Socket, tungstenite::Message>, Option<Compressor>),
    Quic(SendStream, Connection),
}

/// A message encoded for its transport.
pub(super) enum Encoded {
    Text(Utf8Bytes),
    Frame(Vec<u8>),
}

impl Encoded {
    /// Returns the size in bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Frame(bytes) => bytes.len(),
        }
    }

    /// Returns the bytes with a flipped bit in the message.
    pub(super) fn into_corrupted(self, place: u64) -> Vec<u8> {
        match self {
            Self::Text(text) => {
                let mut bytes = text.as_bytes().to_vec();
                corrupt(&mut bytes, place);
                bytes
            }
            Self::Frame(mut bytes) => {
                let head = frame::HEAD.min(bytes.len());
                corrupt(&mut bytes[head..], place);
                bytes
            }
        }
    }
}

/// Splits a WebSocket connection. The node's messages have at most `limit` bytes; `compressed` if both ends have agreed on it.
pub(super) fn websocket(socket: Socket, limit: usize, compressed: bool) -> (Incoming, Outgoing) {
    let (writer, reader) = socket.split();
    let incoming = Incoming::WebSocket(reader, limit, compressed.then(Decompressor::default));
    (
        incoming,
        Outgoing::WebSocket(writer, compressed.then(Compressor::default)),
    )
}

impl Incoming {
    /// Returns the next message and its size; `None` for a keepalive. Cancel-safe: a partial message is kept.
    pub(super) async fn next(&mut self) -> Result<Option<(Message, usize)>, EndReason> {
        match self {
            Self::WebSocket(reader, limit, decompressor) => {
                let (bytes, is_binary) = match reader.next().await {
                    None | Some(Ok(tungstenite::Message::Close(_))) => {
                        return Err(EndReason::Closed);
                    }
                    Some(Err(error)) => return Err(EndReason::Socket(Box::new(error))),
                    Some(Ok(
                        frame @ (tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)),
                    )) => {
                        let is_binary = frame.is_binary();
                        (frame.into_data(), is_binary)
                    }
                    // the library answers pings
                    Some(Ok(_)) => return Ok(None),
                };
                if bytes.is_empty() {
                    return Ok(None);
                }
                let bytes = match decompressor {
                    Some(one) => one
                        .read(bytes, is_binary, *limit)
                        .map_err(EndReason::Compression)?,
                    None => bytes,
                };
                let message = wire::json::decode(&bytes, *limit).map_err(EndReason::Malformed)?;
                Ok(Some((message, bytes.len())))
            }
            Self::Quic(stream, decoder) => loop {
                if let Some(read) = decoder.take().map_err(EndReason::Frame)? {
                    return Ok(Some(read));
                }
                match stream.read_chunk(READ_CHUNK, true).await {
                    Ok(Some(chunk)) => decoder.push(&chunk.bytes),
                    Ok(None) => return Err(EndReason::Closed),
                    Err(ReadError::ConnectionLost(error)) => return Err(end_reason(error)),
                    Err(error) => return Err(EndReason::Stream(error.into())),
                }
            },
        }
    }
}

impl Outgoing {
    /// Encodes a message for this connection.
    pub(super) fn encode(&self, message: &Message) -> Encoded {
        match self {
            Self::WebSocket(..) => Encoded::Text(Utf8Bytes::from(wire::json::encode(message))),
            Self::Quic(..) => Encoded::Frame(frame::encode(message)),
        }
    }

    /// Writes a message within `limit`.
    pub(super) async fn send(
        &mut self,
        message: Encoded,
        limit: Duration,
    ) -> Result<(), EndReason> {
        match (self, message) {
            (Self::WebSocket(writer, compressor), Encoded::Text(text)) => {
                let packed = compressor
                    .as_mut()
                    .and_then(|one| one.compress(text.as_bytes()));
                let plain = || tungstenite::Message::Text(text);
                write(
                    writer,
                    packed.map_or_else(plain, tungstenite::Message::binary),
                    limit,
                )
                .await
            }
            (Self::WebSocket(writer, _), Encoded::Frame(bytes)) => {
                write(writer, tungstenite::Message::Binary(bytes.into()), limit).await
            }
            (Self::Quic(stream, _), Encoded::Frame(bytes)) => {
                stream_out(stream, &bytes, limit).await
            }
            (Self::Quic(stream, _), Encoded::Text(text)) => {
                stream_out(stream, text.as_bytes(), limit).await
            }
        }
    }

    /// Writes what no cloud should write.
    pub(super) async fn send_raw(
        &mut self,
        raw: RawMessage,
        limit: Duration,
    ) -> Result<(), EndReason> {
        match raw {
            RawMessage::Message(message) => self.send(self.encode(&message), limit).await,
            RawMessage::Text(text) => match self {
                Self::WebSocket(..) => self.send(Encoded::Text(text.into()), limit).await,
                // in a valid frame around an invalid message
                Self::Quic(..) => {
                    let bytes = [&frame_head(text.len())[..], text.as_bytes()].concat();
                    self.send(Encoded::Frame(bytes), limit).await
                }
            },
            RawMessage::Bytes(bytes) => match self {
                Self::WebSocket(writer, _) => {
                    let frame = Frame::message(bytes, OpCode::Data(Data::Text), true);
                    write(writer, tungstenite::Message::Frame(frame), limit).await
                }
                Self::Quic(..) => self.send(Encoded::Frame(bytes), limit).await,
            },
            RawMessage::Fragments(count, size) => self.send_fragments((count, size), limit).await,
            RawMessage::Announced => match self {
                // the library cannot write such a header; the nearest is a message that never ends
                Self::WebSocket(..) => self.send_fragments(ENDLESS_FRAGMENTS, limit).await,
                Self::Quic(..) => {
                    self.send(Encoded::Frame(frame_head(usize::MAX).to_vec()), limit)
                        .await
                }
            },
        }
    }

    async fn send_fragments(
        &mut self,
        (count, size): (usize, usize),
        limit: Duration,
    ) -> Result<(), EndReason> {
        for number in 0..count {
            let bytes = vec![b'x'; size];
            match self {
                Self::WebSocket(writer, _) => {
                    let code = if number == 0 {
                        Data::Text
                    } else {
                        Data::Continue
                    };
                    let frame = Frame::message(bytes, OpCode::Data(code), false);
                    write(writer, tungstenite::Message::Frame(frame), limit).await?;
                }
                Self::Quic(..) => {
                    let head = if number == 0 {
                        frame_head(count * size).to_vec()
                    } else {
                        Vec::new()
                    };
                    self.send(Encoded::Frame([head, bytes].concat()), limit)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Sends the reason for which the connection ends, if the node still reads.
    pub(super) async fn send_close(&mut self, code: CloseCode, reason: &str, limit: Duration) {
        // a control frame holds 125 bytes, two of them for the code
        let reason: String = reason.chars().filter(char::is_ascii).take(120).collect();
        match self {
            Self::WebSocket(writer, _) => {
                let close = CloseFrame {
                    code,
                    reason: reason.into(),
                };
                let _ = write(writer, tungstenite::Message::Close(Some(close)), limit).await;
            }
            Self::Quic(_, connection) => {
                connection.close(VarInt::from_u32(u16::from(code).into()), reason.as_bytes());
            }
        }
    }
}

/// Returns the head of a frame of this size.
fn frame_head(size: usize) -> [u8; frame::HEAD] {
    let [a, b, c, d] = u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes();
    [1, 1, 1, 0, 1, 0, a, b, c, d]
}

async fn stream_out(
    stream: &mut SendStream,
    bytes: &[u8],
    limit: Duration,
) -> Result<(), EndReason> {
    match timeout(limit, stream.write_all(bytes)).await {
        Err(_) => Err(EndReason::Stalled(limit)),
        Ok(Err(WriteError::ConnectionLost(error))) => Err(end_reason(error)),
        Ok(Err(error)) => Err(EndReason::Stream(error.into())),
        Ok(Ok(())) => Ok(()),
    }
}

async fn write(
    writer: &mut SplitSink<Socket, tungstenite::Message>,
    frame: tungstenite::Message,
    limit: Duration,
) -> Result<(), EndReason> {
    match timeout(limit, writer.send(frame)).await {
        Err(_) => Err(EndReason::Stalled(limit)),
        Ok(Err(error)) => Err(EndReason::Socket(Box::new(error))),
        Ok(Ok(())) => Ok(()),
    }
}

fn end_reason(error: ConnectionError) -> EndReason {
    match error {
        ConnectionError::ApplicationClosed(_) | ConnectionError::ConnectionClosed(_) => {
            EndReason::Closed
        }
        error => EndReason::Stream(error.into()),
    }
}
