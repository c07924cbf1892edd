//! Messages over a connection, whatever carries them: what the session reads and writes.

use std::time::Duration;

use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::{self, Utf8Bytes};
use wire::Message;

use super::{dial::websocket::Socket, metered::Meter, session::Ended};

/// A connection with its meter.
pub(super) struct Transport {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
    pub(super) meter: Meter,
}

/// The end from which the cloud's messages come.
pub(super) enum Reader {
    WebSocket(SplitStream<Socket>),
}

/// The end into which this node's messages go.
pub(super) enum Writer {
    WebSocket(SplitSink<Socket, tungstenite::Message>),
}

impl Transport {
    pub(super) fn websocket(socket: Socket, meter: Meter) -> Self {
        let (writer, reader) = socket.split();
        Self { reader: Reader::WebSocket(reader), writer: Writer::WebSocket(writer), meter }
    }
}

impl Reader {
    /// The next message of at most `limit` bytes, and its size. Cancel-safe: what is not whole stays.
    pub(super) async fn next(&mut self, limit: usize) -> Result<(Message, usize), Ended> {
        let Self::WebSocket(reader) = self;
        let bytes = loop {
            match reader.next().await {
                None | Some(Ok(tungstenite::Message::Close(_))) => return Err(Ended::Closed),
                Some(Err(error)) => return Err(Ended::Socket(Box::new(error))),
                Some(Ok(frame @ (tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)))) => {
                    break frame.into_data();
                }
                // pings are answered by the library; pongs have done their work by arriving
                Some(Ok(_)) => {}
            }
        };
        let message = wire::json::decode(&bytes, limit).map_err(Ended::Malformed)?;
        Ok((message, bytes.len()))
    }
}

impl Writer {
    /// Writes a message within `limit`; its size.
    pub(super) async fn send(&mut self, message: &Message, limit: Duration) -> Result<usize, Ended> {
        let text = Utf8Bytes::from(wire::json::encode(message));
        let size = text.len();
        self.write(tungstenite::Message::Text(text), limit).await?;
        Ok(size)
    }

    /// Asks the other end for a sign of life.
    pub(super) async fn ping(&mut self, limit: Duration) -> Result<(), Ended> {
        self.write(tungstenite::Message::Ping(Default::default()), limit).await
    }

    /// Says goodbye, where the other end still listens.
    pub(super) async fn close(&mut self, limit: Duration) {
        let _ = self.write(tungstenite::Message::Close(None), limit).await;
    }

    async fn write(&mut self, frame: tungstenite::Message, limit: Duration) -> Result<(), Ended> {
        let Self::WebSocket(writer) = self;
        match timeout(limit, writer.send(frame)).await {
            Err(_) => Err(Ended::Stalled),
            Ok(Err(error)) => Err(Ended::Socket(Box::new(error))),
            Ok(Ok(())) => Ok(()),
        }
    }
}
