//! What a session sends and reads, for every transport, and WebSocket as one.

use std::future::Future;

use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self,
        protocol::frame::{
            Frame,
            coding::{Data, OpCode},
        },
    },
};
use wire::Message;

use crate::MAX_MESSAGE;

/// How messages are carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// JSON in text frames.
    #[default]
    WebSocket,
    /// Frames of protobuf, see [`wire::frame`].
    Quic,
}

impl Transport {
    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::Quic => "quic",
        }
    }
}

/// What can be sent in a session.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// A message.
    Message(Box<Message>),
    /// A message in a binary frame of WebSocket. QUIC has no other frames.
    Binary(Box<Message>),
    /// A message in two parts: two frames of WebSocket, or two writes to the stream of QUIC.
    Parts(Box<Message>),
    /// Any text where a message is expected.
    Text(String),
    /// The end of the session.
    Close,
}

impl From<Message> for Outgoing {
    fn from(message: Message) -> Self {
        Self::Message(Box::new(message))
    }
}

/// A connection that carries messages. Errors are reasons for the end of the session.
pub trait Socket: Send + 'static {
    /// Sends a message, or something else in its place.
    fn send(&mut self, outgoing: Outgoing) -> impl Future<Output = Result<(), String>> + Send;

    /// Returns the next message. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Result<Message, String>> + Send;
}

impl<S> Socket for WebSocketStream<S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    async fn send(&mut self, outgoing: Outgoing) -> Result<(), String> {
        let frames = match outgoing {
            Outgoing::Message(message) => vec![tungstenite::Message::text(json(&message))],
            Outgoing::Text(text) => vec![tungstenite::Message::text(text)],
            Outgoing::Binary(message) => {
                vec![tungstenite::Message::binary(json(&message).into_bytes())]
            }
            Outgoing::Parts(message) => {
                let text = json(&message).into_bytes();
                let (first, second) = text.split_at(text.len() / 2);
                let frame = |bytes: &[u8], data, is_last| {
                    let frame = Frame::message(bytes.to_vec(), OpCode::Data(data), is_last);
                    tungstenite::Message::Frame(frame)
                };
                vec![
                    frame(first, Data::Text, false),
                    frame(second, Data::Continue, true),
                ]
            }
            Outgoing::Close => vec![tungstenite::Message::Close(None)],
        };
        for frame in frames {
            let sent = SinkExt::send(self, frame).await;
            sent.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Message, String> {
        loop {
            let bytes = match StreamExt::next(self).await {
                None => return Err("the connection was closed".to_owned()),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(tungstenite::Message::Close(frame))) => {
                    return Err(frame.map_or_else(
                        || "the peer closed it".to_owned(),
                        |frame| format!("the peer closed it: {}", frame.reason),
                    ));
                }
                Some(Ok(
                    frame @ (tungstenite::Message::Text(_) | tungstenite::Message::Binary(_)),
                )) => frame.into_data(),
                // the library answers pings
                Some(Ok(_)) => continue,
            };
            return wire::json::decode(&bytes, MAX_MESSAGE).map_err(|error| error.to_string());
        }
    }
}

fn json(message: &Message) -> String {
    wire::json::encode(message)
}
