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
    frame::{self, Decoder, FrameError},
    instance::TAKEN_OVER,
};

use super::{
    dial::{
        quic::{CountedConnection, Stream},
        websocket::Socket,
    },
    frame_filter::{CutMessages, MessageLimits},
    metered::Meter,
    session_end::SessionEnd,
};

/// The bytes of one read from QUIC.
const READ_BUFFER_BYTES: usize = 64 * 1024;

/// The bytes of a message that is too large in which its header and route are looked for.
const HEAD_BYTES: usize = 4 * 1024;

/// A connection.
pub(super) struct Transport {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    /// The liveness of the stream; `None` if the transport itself notices that the other end is gone.
    pub(super) meter: Option<Meter>,
}

/// The reading half.
pub(super) enum Reader {
    WebSocket(WebSocketReader),
    Quic(RecvStream, Decoder),
}

/// The reading half of a WebSocket.
pub(super) struct WebSocketReader {
    frames: SplitStream<Socket>,
    /// Set if the cloud sends compressed messages.
    decompressor: Option<Decompressor>,
    cut: CutMessages,
    /// The data messages that were read.
    read: u64,
}

/// What was read from the connection.
pub(super) enum Received {
    /// A message, and its size in bytes.
    Message(Message, usize),
    /// A message that was too large and was skipped.
    TooLarge(TooLarge),
}

/// What became of a message that was to be sent, with its size in bytes.
pub(super) enum Sent {
    Written(usize),
    /// It was not sent, since the cloud would end the connection.
    TooLarge(usize),
}

/// A message that was too large.
pub(super) struct TooLarge {
    /// Its size, bytes.
    pub(super) size: u64,
    /// Its header and route, if they could be read.
    pub(super) head: Option<Message>,
}

/// The writing half.
pub(super) enum Writer {
    WebSocket(SplitSink<Socket, tungstenite::Message>, Option<Compressor>),
    Quic(SendStream, CountedConnection),
}

impl Transport {
    /// Wraps a WebSocket; `compressed` says that both ends have agreed on compression. `cut`: the messages that were too large.
    pub(super) fn websocket(
        socket: Socket,
        cut: CutMessages,
        meter: Meter,
        compressed: bool,
    ) -> Self {
        let (writer, frames) = socket.split();
        let decompressor = compressed.then(Decompressor::default);
        Self {
            reader: Reader::WebSocket(WebSocketReader {
                frames,
                decompressor,
                cut,
                read: 0,
            }),
            writer: Writer::WebSocket(writer, compressed.then(Compressor::default)),
            meter: Some(meter),
        }
    }

    /// Wraps a QUIC stream for messages of at most `limit` bytes.
    pub(super) fn quic(stream: Stream, limit: usize) -> Self {
        let Stream {
            send,
            receive,
            connection,
        } = stream;
        let reader = Reader::Quic(receive, Decoder::new(limit));
        Self {
            reader,
            writer: Writer::Quic(send, connection),
            meter: None,
        }
    }
}

impl Reader {
    /// Returns the next message of at most `limit` bytes. Cancel-safe: incomplete data stays.
    pub(super) async fn next(&mut self, limit: usize) -> Result<Received, SessionEnd> {
        match self {
            Self::WebSocket(reader) => reader.next(limit).await,
            Self::Quic(stream, decoder) => loop {
                if let Some((size, head)) = decoder.take_skipped() {
                    return Ok(Received::TooLarge(TooLarge {
                        size: size as u64,
                        head,
                    }));
                }
                if !decoder.is_skipping() {
                    match decoder.take() {
                        Ok(Some((message, size))) => return Ok(Received::Message(message, size)),
                        Ok(None) => {}
                        Err(FrameError::TooLarge { size, .. })
                            if size as u64 <= MessageLimits::of(limit).skipped =>
                        {
                            decoder.skip();
                            continue;
                        }
                        Err(error) => return Err(SessionEnd::Frame(error)),
                    }
                }
                match stream.read_chunk(READ_BUFFER_BYTES, true).await {
                    Ok(Some(chunk)) => decoder.push(&chunk.bytes),
                    Ok(None) => return Err(SessionEnd::Closed),
                    Err(ReadError::ConnectionLost(error)) => return Err(session_end(error)),
                    Err(error) => return Err(SessionEnd::Stream(error.into())),
                }
            },
        }
    }
}

impl WebSocketReader {
    /// Returns the next message. Cancel-safe: an incomplete frame stays.
    async fn next(&mut self, limit: usize) -> Result<Received, SessionEnd> {
        let frame = self.data_frame().await?;
        let cut = self.cut.take(self.read);
        self.read += 1;
        let is_binary = frame.is_binary() && !cut.is_some_and(|cut| cut.is_text);
        let mut bytes = frame.into_data();
        if let Some(decompressor) = &mut self.decompressor {
            // a larger one has to be decompressed as well: later messages refer to it
            let most = usize::try_from(MessageLimits::of(limit).skipped).unwrap_or(usize::MAX);
            bytes = decompressor
                .read(bytes, is_binary, most)
                .map_err(SessionEnd::Compression)?;
        }
        let size = cut.map_or(bytes.len() as u64, |cut| cut.size);
        if cut.is_some() || bytes.len() > limit {
            let beginning = &bytes[..bytes.len().min(HEAD_BYTES)];
            return Ok(Received::TooLarge(TooLarge {
                size,
                head: wire::json::decode_head(beginning),
            }));
        }
        let message = wire::json::decode(&bytes, limit).map_err(SessionEnd::Malformed)?;
        Ok(Received::Message(message, bytes.len()))
    }

    /// Returns the next frame with data.
    async fn data_frame(&mut self) -> Result<tungstenite::Message, SessionEnd> {
        loop {
            match self.frames.next().await {
                Some(Ok(tungstenite::Message::Close(Some(frame))))
                    if u16::from(frame.code) == TAKEN_OVER =>
                {
                    return Err(SessionEnd::TakenOver(wire::text::printable(&frame.reason)));
                }
                None | Some(Ok(tungstenite::Message::Close(_))) => return Err(SessionEnd::Closed),
                Some(Err(error)) => return Err(SessionEnd::of_socket(error)),
                Some(Ok(
                    frame @ (tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)),
                )) => {
                    return Ok(frame);
                }
                // the library answers pings; pongs count as received data
                Some(Ok(_)) => {}
            }
        }
    }
}

impl Writer {
    /// Writes a message of at most `most` bytes within `limit`.
    pub(super) async fn send(
        &mut self,
        message: &Message,
        most: usize,
        limit: Duration,
    ) -> Result<Sent, SessionEnd> {
        match self {
            Self::WebSocket(writer, compressor) => {
                let text = wire::json::encode(message);
                let size = text.len();
                if size > most {
                    return Ok(Sent::TooLarge(size));
                }
                let packed = compressor
                    .as_mut()
                    .and_then(|one| one.compress(text.as_bytes()));
                let plain = || tungstenite::Message::Text(Utf8Bytes::from(text));
                write(
                    writer,
                    packed.map_or_else(plain, tungstenite::Message::binary),
                    limit,
                )
                .await?;
                Ok(Sent::Written(size))
            }
            Self::Quic(stream, _) => {
                let frame = frame::encode(message);
                if frame.len() > most {
                    return Ok(Sent::TooLarge(frame.len()));
                }
                match timeout(limit, stream.write_all(&frame)).await {
                    Err(_) => Err(SessionEnd::Stalled),
                    Ok(Err(WriteError::ConnectionLost(error))) => Err(session_end(error)),
                    Ok(Err(error)) => Err(SessionEnd::Stream(error.into())),
                    Ok(Ok(())) => Ok(Sent::Written(frame.len())),
                }
            }
        }
    }

    /// Sends a ping, unless the transport does so by itself.
    pub(super) async fn ping(&mut self, limit: Duration) -> Result<(), SessionEnd> {
        match self {
            Self::WebSocket(writer, _) => {
                write(
                    writer,
                    tungstenite::Message::Ping(Default::default()),
                    limit,
                )
                .await
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

fn session_end(error: ConnectionError) -> SessionEnd {
    match error {
        ConnectionError::TimedOut => SessionEnd::Silent,
        ConnectionError::ApplicationClosed(_) | ConnectionError::ConnectionClosed(_) => {
            SessionEnd::Closed
        }
        error => SessionEnd::Stream(error.into()),
    }
}
