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

use super::{ended::Ended, upgrade::Socket};
use crate::faults::hostile::Raw;

/// Bytes read from QUIC at one time.
const PORTION: usize = 64 * 1024;
/// Parts, and bytes of each, of a message that goes on beyond every limit.
const ENDLESS: (usize, usize) = (40, 1024 * 1024);

/// The end from which the node's messages come.
pub(super) enum Incoming {
    /// With the limit of a message, bytes, and what understands compressed ones, where the node sends them.
    WebSocket(SplitStream<Socket>, usize, Option<Decompressor>),
    Quic(RecvStream, Decoder),
}

/// The end into which the cloud's messages go.
pub(super) enum Outgoing {
    WebSocket(SplitSink<Socket, tungstenite::Message>, Option<Compressor>),
    Quic(SendStream, Connection),
}

/// A message as its transport carries it.
pub(super) enum Encoded {
    Text(Utf8Bytes),
    Frame(Vec<u8>),
}

impl Encoded {
    /// Its bytes.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Frame(bytes) => bytes.len(),
        }
    }
}

/// A connection; messages of the node have at most `limit` bytes. `compressed`: both ends have agreed on that.
pub(super) fn websocket(socket: Socket, limit: usize, compressed: bool) -> (Incoming, Outgoing) {
    let (writer, reader) = socket.split();
    let incoming = Incoming::WebSocket(reader, limit, compressed.then(Decompressor::default));
    (incoming, Outgoing::WebSocket(writer, compressed.then(Compressor::default)))
}

impl Incoming {
    /// The next message and its size; `None` for a sign of life that says nothing. Cancel-safe: what is not whole stays.
    pub(super) async fn next(&mut self) -> Result<Option<(Message, usize)>, Ended> {
        match self {
            Self::WebSocket(reader, limit, decompressor) => {
                let (bytes, is_binary) = match reader.next().await {
                    None | Some(Ok(tungstenite::Message::Close(_))) => return Err(Ended::Closed),
                    Some(Err(error)) => return Err(Ended::Socket(Box::new(error))),
                    Some(Ok(frame @ (tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)))) => {
                        let is_binary = frame.is_binary();
                        (frame.into_data(), is_binary)
                    }
                    // pings are answered by the library
                    Some(Ok(_)) => return Ok(None),
                };
                if bytes.is_empty() {
                    return Ok(None);
                }
                let bytes = match decompressor {
                    Some(one) => one.read(bytes, is_binary, *limit).map_err(Ended::Compression)?,
                    None => bytes,
                };
                let message = wire::json::decode(&bytes, *limit).map_err(Ended::Malformed)?;
                Ok(Some((message, bytes.len())))
            }
            Self::Quic(stream, decoder) => loop {
                if let Some(read) = decoder.take().map_err(Ended::Frame)? {
                    return Ok(Some(read));
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

impl Outgoing {
    /// A message as it goes over this connection.
    pub(super) fn encode(&self, message: &Message) -> Encoded {
        match self {
            Self::WebSocket(..) => Encoded::Text(Utf8Bytes::from(wire::json::encode(message))),
            Self::Quic(..) => Encoded::Frame(frame::encode(message)),
        }
    }

    /// Writes a message within `limit`.
    pub(super) async fn send(&mut self, message: Encoded, limit: Duration) -> Result<(), Ended> {
        match (self, message) {
            (Self::WebSocket(writer, compressor), Encoded::Text(text)) => {
                let packed = compressor.as_mut().and_then(|one| one.compress(text.as_bytes()));
                let plain = || tungstenite::Message::Text(text);
                write(writer, packed.map_or_else(plain, tungstenite::Message::binary), limit).await
            }
            (Self::WebSocket(writer, _), Encoded::Frame(bytes)) => {
                write(writer, tungstenite::Message::Binary(bytes.into()), limit).await
            }
            (Self::Quic(stream, _), Encoded::Frame(bytes)) => stream_out(stream, &bytes, limit).await,
            (Self::Quic(stream, _), Encoded::Text(text)) => stream_out(stream, text.as_bytes(), limit).await,
        }
    }

    /// Writes what no cloud should write.
    pub(super) async fn send_raw(&mut self, raw: Raw, limit: Duration) -> Result<(), Ended> {
        match raw {
            Raw::Message(message) => self.send(self.encode(&message), limit).await,
            Raw::Text(text) => match self {
                Self::WebSocket(..) => self.send(Encoded::Text(text.into()), limit).await,
                // in a frame that is one, around what is no message
                Self::Quic(..) => {
                    let bytes = [&frame_head(text.len())[..], text.as_bytes()].concat();
                    self.send(Encoded::Frame(bytes), limit).await
                }
            },
            Raw::Bytes(bytes) => match self {
                Self::WebSocket(writer, _) => {
                    let frame = Frame::message(bytes, OpCode::Data(Data::Text), true);
                    write(writer, tungstenite::Message::Frame(frame), limit).await
                }
                Self::Quic(..) => self.send(Encoded::Frame(bytes), limit).await,
            },
            Raw::Fragments(count, size) => self.send_fragments((count, size), limit).await,
            Raw::Announced => match self {
                // the library writes no such header; the nearest is a message that goes on and on
                Self::WebSocket(..) => self.send_fragments(ENDLESS, limit).await,
                Self::Quic(..) => self.send(Encoded::Frame(frame_head(usize::MAX).to_vec()), limit).await,
            },
        }
    }

    async fn send_fragments(&mut self, (count, size): (usize, usize), limit: Duration) -> Result<(), Ended> {
        for number in 0..count {
            let bytes = vec![b'x'; size];
            match self {
                Self::WebSocket(writer, _) => {
                    let code = if number == 0 { Data::Text } else { Data::Continue };
                    let frame = Frame::message(bytes, OpCode::Data(code), false);
                    write(writer, tungstenite::Message::Frame(frame), limit).await?;
                }
                Self::Quic(..) => {
                    let head = if number == 0 { frame_head(count * size).to_vec() } else { Vec::new() };
                    self.send(Encoded::Frame([head, bytes].concat()), limit).await?;
                }
            }
        }
        Ok(())
    }

    /// Says why the connection ends, where the node still listens.
    pub(super) async fn send_close(&mut self, code: CloseCode, reason: &str, limit: Duration) {
        // a control frame holds 125 bytes, two of them the code
        let reason: String = reason.chars().filter(char::is_ascii).take(120).collect();
        match self {
            Self::WebSocket(writer, _) => {
                let close = CloseFrame { code, reason: reason.into() };
                let _ = write(writer, tungstenite::Message::Close(Some(close)), limit).await;
            }
            Self::Quic(_, connection) => {
                connection.close(VarInt::from_u32(u16::from(code).into()), reason.as_bytes());
            }
        }
    }
}

/// The head of a frame that says so many bytes follow.
fn frame_head(size: usize) -> [u8; frame::HEAD] {
    let [a, b, c, d] = u32::try_from(size).unwrap_or(u32::MAX).to_be_bytes();
    [1, 1, 1, 0, 1, 0, a, b, c, d]
}

async fn stream_out(stream: &mut SendStream, bytes: &[u8], limit: Duration) -> Result<(), Ended> {
    match timeout(limit, stream.write_all(bytes)).await {
        Err(_) => Err(Ended::Stalled(limit)),
        Ok(Err(WriteError::ConnectionLost(error))) => Err(lost(error)),
        Ok(Err(error)) => Err(Ended::Stream(error.into())),
        Ok(Ok(())) => Ok(()),
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
