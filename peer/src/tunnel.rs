//! The stream tunnel of either end. Its frames are arbitrary bytes in text messages, which libraries refuse, so the messages are read with
//! [`wire::websocket`].

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, timeout_at},
};
use wire::{
    tunnel::{Frame, MAX_FRAME},
    websocket::{self, Decoder, Message, Role},
};

use crate::{Failure, Stream, fail};

/// An open tunnel.
pub struct Tunnel {
    stream: Stream,
    role: Role,
    decoder: Decoder,
    input: BytesMut,
}

impl Tunnel {
    /// Wraps an upgraded connection; `role` is that of this end.
    pub fn new(stream: Stream, role: Role) -> Self {
        Self {
            stream,
            role,
            decoder: Decoder::new(role, MAX_FRAME),
            input: BytesMut::new(),
        }
    }

    /// Sends a frame of the tunnel.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&mut self, frame: &Frame) -> Result<(), Failure> {
        self.write(Message::Text(Bytes::from(frame.encode()))).await
    }

    /// Sends any WebSocket message.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn write(&mut self, message: Message) -> Result<(), Failure> {
        let mask = match self.role {
            Role::Client => Some(uuid_bytes()),
            Role::Server => None,
        };
        let mut out = BytesMut::new();
        websocket::encode(&mut out, &message, mask);
        self.stream.write_all(&out).await?;
        Ok(self.stream.flush().await?)
    }

    /// Waits for a WebSocket message that `wanted` accepts. Pings are answered, other messages are dropped.
    ///
    /// # Errors
    /// None arrives in time, or the connection ends.
    pub async fn expect<T>(
        &mut self,
        what: &str,
        within: Duration,
        wanted: impl Fn(&Message) -> Option<T>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + within;
        loop {
            while let Some(message) = self.decoder.next(&mut self.input)? {
                if let Some(found) = wanted(&message) {
                    return Ok(found);
                }
                match message {
                    Message::Ping(payload) => self.write(Message::Pong(payload)).await?,
                    Message::Close(_) => fail!("the tunnel was closed before {what}"),
                    _ => {}
                }
            }
            match timeout_at(deadline, self.stream.read_buf(&mut self.input)).await {
                Err(_) => fail!("timed out after {within:?} waiting for {what}"),
                Ok(Ok(0)) => fail!("the tunnel ended before {what}"),
                Ok(read) => drop(read?),
            }
        }
    }

    /// Answers pings until the tunnel ends, and drops all other messages. Cancel-safe between messages.
    pub async fn answer_pings(&mut self) -> Failure {
        let forever = Duration::from_secs(u32::MAX.into());
        match self.expect("a message", forever, |_| None::<()>).await {
            Ok(()) => Failure::Failed("the tunnel ended".to_owned()),
            Err(failure) => failure,
        }
    }

    /// Waits for a frame of the tunnel that `wanted` accepts.
    ///
    /// # Errors
    /// None arrives in time, or the connection ends.
    pub async fn expect_frame(
        &mut self,
        what: &str,
        within: Duration,
        wanted: impl Fn(&Frame) -> bool,
    ) -> Result<Frame, Failure> {
        self.expect(what, within, |message| match message {
            Message::Text(bytes) | Message::Binary(bytes) => Frame::decode(bytes.clone())
                .ok()
                .filter(|frame| wanted(frame)),
            _ => None,
        })
        .await
    }
}

fn uuid_bytes() -> [u8; 4] {
    let random = clock::uuid();
    let [first, second, third, fourth, ..] = *random.as_bytes();
    [first, second, third, fourth]
}
