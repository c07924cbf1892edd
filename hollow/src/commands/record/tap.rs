//! Decodes the bytes of one direction of a connection for the recording. The relay passes the bytes on whatever they are.

use bytes::{Bytes, BytesMut};
use peer::{MAX_MESSAGE, Service};
use record::{CLOSE, ConnectionRecorder, MALFORMED, PING, PONG, Side};
use wire::{
    compression::Decompressor,
    frame,
    tunnel::{self, MAX_FRAME},
    websocket::{Decoder, Message, Role},
};

/// One direction of a connection.
pub(super) trait Tap {
    /// Records what is complete.
    fn take(&mut self, bytes: &[u8]);
}

/// The stream of messages of a session over QUIC.
pub(super) struct QuicTap {
    connection: ConnectionRecorder,
    from: Side,
    /// `None` after bytes that are no frames: nothing after them can be found.
    decoder: Option<frame::Decoder>,
}

impl QuicTap {
    pub(super) fn new(from: Side, connection: ConnectionRecorder) -> Self {
        Self {
            connection,
            from,
            decoder: Some(frame::Decoder::new(MAX_MESSAGE)),
        }
    }
}

impl Tap for QuicTap {
    fn take(&mut self, bytes: &[u8]) {
        if let Some(decoder) = &mut self.decoder {
            decoder.push(bytes);
            loop {
                match decoder.take() {
                    Ok(Some((message, size))) => {
                        self.connection.message(self.from, &message, size);
                    }
                    Ok(None) => return,
                    Err(_) => break,
                }
            }
            self.decoder = None;
        }
        self.connection.raw(self.from, MALFORMED, bytes);
    }
}

/// Frames of WebSocket.
pub(super) struct WebSocketTap {
    connection: ConnectionRecorder,
    from: Side,
    service: Service,
    decoder: Decoder,
    /// `None` if the connection is not compressed.
    decompressor: Option<Decompressor>,
    input: BytesMut,
    /// False after bytes that are no frames: nothing after them can be found.
    is_readable: bool,
}

impl Tap for WebSocketTap {
    fn take(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        while self.is_readable {
            match self.decoder.next(&mut self.input) {
                Ok(Some(message)) => self.message(&message),
                Ok(None) => return,
                Err(_) => self.is_readable = false,
            }
        }
        self.finish();
    }
}

impl WebSocketTap {
    pub(super) fn new(
        service: Service,
        from: Side,
        is_compressed: bool,
        connection: ConnectionRecorder,
    ) -> Self {
        let role = match from {
            Side::Edge => Role::Server,
            Side::Cloud => Role::Client,
        };
        let limit = match service {
            Service::Tunnel => MAX_FRAME,
            Service::Https | Service::Hub => MAX_MESSAGE,
        };
        Self {
            connection,
            from,
            service,
            decoder: Decoder::new(role, limit),
            decompressor: is_compressed.then(Decompressor::default),
            input: BytesMut::new(),
            is_readable: true,
        }
    }

    /// Records the rest, which is no whole frame.
    pub(super) fn finish(&mut self) {
        let rest = self.input.split();
        if !rest.is_empty() {
            self.connection.raw(self.from, MALFORMED, &rest);
        }
    }

    fn message(&mut self, message: &Message) {
        let (bytes, is_binary) = match message {
            Message::Text(bytes) => (bytes, false),
            Message::Binary(bytes) => (bytes, true),
            Message::Ping(bytes) => return self.connection.raw(self.from, PING, bytes),
            Message::Pong(bytes) => return self.connection.raw(self.from, PONG, bytes),
            Message::Close(bytes) => return self.connection.raw(self.from, CLOSE, bytes),
        };
        let plain = match &mut self.decompressor {
            Some(past) => past.read(bytes.clone(), is_binary, MAX_MESSAGE).ok(),
            None => Some(bytes.clone()),
        };
        if plain.is_none_or(|plain| !self.payload(plain)) {
            self.connection.raw(self.from, MALFORMED, bytes);
        }
    }

    /// Records a message of a session or a frame of a tunnel. Returns false if the bytes are none.
    fn payload(&self, bytes: Bytes) -> bool {
        match self.service {
            Service::Tunnel => tunnel::Frame::decode(bytes)
                .map(|frame| self.connection.tunnel(self.from, &frame))
                .is_ok(),
            Service::Https | Service::Hub => wire::json::decode(&bytes, MAX_MESSAGE)
                .map(|message| self.connection.message(self.from, &message, bytes.len()))
                .is_ok(),
        }
    }
}
