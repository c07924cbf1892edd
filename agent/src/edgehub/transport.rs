//! Messages over a connection, independent of the transport: what the session reads and writes.

use std::time::Duration;

use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use quinn::{ConnectionError, ReadError, RecvStream, SendStream, WriteError};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};
use wire::{
    Message,
    compression::{Compressor, Decompressor},
    frame::{self, Decoder},
    instance::TAKEN_OVER,
};

use super::{
    dial::{
        quic::{CountedConnection, Stream},
        websocket::Socket,
    },
    metered::Meter,
    session_end::SessionEnd,
};

/// The bytes of one read from QUIC.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// A connection.
pub(super) struct Transport {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    /// The liveness of the stream; `None` if the transport itself notices that the other end is gone.
    pub(super) meter: Option<Meter>,
}

/// The reading half.
pub(super) enum Reader {
    /// With a decompressor if the cloud sends compressed messages.
    WebSocket(SplitStream<Socket>, Option<Decompressor>),
    Quic(RecvStream, Decoder),
}

/// The writing half.
pub(super) enum Writer {
    WebSocket(SplitSink<Socket, tungstenite::Message>, Option<Compressor>),
    Quic(SendStream, CountedConnection),
}

impl Transport {
    /// Wraps a WebSocket; `compressed` says that both ends have agreed on compression.
    pub(super) fn websocket(socket: Socket, meter: Meter, compressed: bool) -> Self {
        let (writer, reader) = socket.split();
        Self {
            reader: Reader::WebSocket(reader, compressed.then(Decompressor::default)),
            writer: Writer::WebSocket(writer, compressed.then(Compressor::default)),
            meter: Some(meter),
        }
    }

    /// Wraps a QUIC stream for messages of at most `limit` bytes.
    pub(super) fn quic(stream: Stream, limit: usize) -> Self {
        let Stream { send, receive, connection } = stream;
        let reader = Reader::Quic(receive, Decoder::new(limit));
        Self { reader, writer: Writer::Quic(send, connection), meter: None }
    }
}

impl Reader {
    /// Returns the next message of at most `limit` bytes, and its size. Cancel-safe: incomplete data stays.
    pub(super) async fn next(&mut self, limit: usize) -> Result<(Message, usize), SessionEnd> {
        match self {
            Self::WebSocket(reader, decompressor) => {
                let bytes = text(reader, decompressor.as_mut(), limit).await?;
                let message = wire::json::decode(&bytes, limit).map_err(SessionEnd::Malformed)?;
                Ok((message, bytes.len()))
            }
            Self::Quic(stream, decoder) => loop {
                if let Some(read) = decoder.take().map_err(SessionEnd::Frame)? {
                    return Ok(read);
                }
                match stream.read_chunk(READ_BUFFER_BYTES, true).await {
                    Ok(Some(chunk)) => decoder.push(&chunk.bytes),
                    Ok(None) => return Err(SessionEnd::Closed),
                    Err(ReadError::ConnectionLost(error)) => return Err(lost(error)),
                    Err(error) => return Err(SessionEnd::Stream(error.into())),
                }
            },
        }
    }
}

/// Returns the next text frame.
async fn text(
    reader: &mut SplitStream<Socket>,
    decompressor: Option<&mut Decompressor>,
    limit: usize,
) -> Result<bytes::Bytes, SessionEnd> {
    loop {
        match reader.next().await {
            Some(Ok(tungstenite::Message::Close(Some(frame)))) if u16::from(frame.code) == TAKEN_OVER => {
                return Err(SessionEnd::TakenOver(wire::text::printable(&frame.reason)));
            }
            None | Some(Ok(tungstenite::Message::Close(_))) => return Err(SessionEnd::Closed),
            Some(Err(error)) => return Err(SessionEnd::of_socket(error)),
            Some(Ok(frame @ (tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)))) => {
                let is_binary = frame.is_binary();
                let bytes = frame.into_data();
                let Some(decompressor) = decompressor else { return Ok(bytes) };
                return decompressor.read(bytes, is_binary, limit).map_err(SessionEnd::Compression);
            }
            // the library answers pings; pongs count as received data
            Some(Ok(_)) => {}
        }
    }
}

impl Writer {
    /// Writes a message within `limit`; returns its size.
    pub(super) async fn send(&mut self, message: &Message, limit: Duration) -> Result<usize, SessionEnd> {
        match self {
            Self::WebSocket(writer, compressor) => {
                let text = wire::json::encode(message);
                let size = text.len();
                let packed = compressor.as_mut().and_then(|one| one.compress(text.as_bytes()));
                let plain = || tungstenite::Message::Text(Utf8Bytes::from(text));
                write(writer, packed.map_or_else(plain, tungstenite::Message::binary), limit).await?;
                Ok(size)
            }
            Self::Quic(stream, _) => {
                let frame = frame::encode(message);
                match timeout(limit, stream.write_all(&frame)).await {
                    Err(_) => Err(SessionEnd::Stalled),
                    Ok(Err(WriteError::ConnectionLost(error))) => Err(lost(error)),
                    Ok(Err(error)) => Err(SessionEnd::Stream(error.into())),
                    Ok(Ok(())) => Ok(frame.len()),
                }
            }
        }
    }

    /// Sends a ping, unless the transport does so by itself.
    pub(super) async fn ping(&mut self, limit: Duration) -> Result<(), SessionEnd> {
        match self {
            Self::WebSocket(writer, _) => {
                write(writer, tungstenite::Message::Ping(Default::default()), limit).await
            }
            Self::Quic(..) => Ok(()),
        }
    }

    /// Closes the connection, if the other end still reads.
    pub(super) async fn close(&mut self, limit: Duration) {
        match self {
            Self::WebSocket(writer, _) => {
                let _ = write(writer, tungstenite::Message::Close(None), limit).await;
            }
            Self::Quic(_, connection) => connection.close(),
        }
    }
}

async fn write(
    writer: &mut SplitSink<Socket, tungstenite::Message>,
    frame: tungstenite::Message,
    limit: Duration,
) -> Result<(), SessionEnd> {
    match timeout(limit, writer.send(frame)).await {
        Err(_) => Err(SessionEnd::Stalled),
        Ok(Err(error)) => Err(SessionEnd::of_socket(error)),
        Ok(Ok(())) => Ok(()),
    }
}

fn lost(error: ConnectionError) -> SessionEnd {
    match error {
        ConnectionError::TimedOut => SessionEnd::Silent,
        ConnectionError::ApplicationClosed(_) | ConnectionError::ConnectionClosed(_) => SessionEnd::Closed,
        error => SessionEnd::Stream(error.into()),
    }
}
