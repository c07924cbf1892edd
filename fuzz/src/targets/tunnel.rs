//! The stream tunnel: its frames, the WebSocket below them, and SPDY within.

use bytes::{Bytes, BytesMut};
use serde_json::Value;
use spdy::{Connection, Event, Headers, Role};
use wire::{
    tunnel::{Connect, Frame, Kind},
    websocket::{self, Decoder},
};

use crate::corpus;

/// The largest message that is accepted here, in bytes.
const LIMIT: usize = 1 << 16;

pub(super) fn frame(bytes: &[u8]) {
    let Ok(frame) = Frame::decode(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    let again = Frame::decode(frame.encode().into());
    assert_eq!(
        again.as_ref(),
        Ok(&frame),
        "a frame is what it was encoded from"
    );
    if let Some(bytes) = frame.window_bytes() {
        assert_eq!(
            Frame::window(frame.id, bytes).window_bytes(),
            Some(bytes),
            "a number is what it was encoded from"
        );
    }
    if let Ok(connect) = Connect::decode(&frame.data) {
        let made = connect.frame(Kind::Exec).expect("what was read is written");
        assert_eq!(
            Connect::decode(&made.data).expect("what was written is read"),
            connect
        );
    }
}

pub(super) fn websocket(bytes: &[u8]) {
    for role in [websocket::Role::Client, websocket::Role::Server] {
        let (mut decoder, mut input) = (Decoder::new(role, LIMIT), BytesMut::from(bytes));
        while let Ok(Some(message)) = decoder.next(&mut input) {
            let mask = (role == websocket::Role::Server).then_some([1, 2, 3, 4]);
            let mut out = BytesMut::new();
            websocket::encode(&mut out, &message, mask);
            assert_eq!(
                Decoder::new(role, LIMIT).next(&mut out),
                Ok(Some(message)),
                "what was written is read"
            );
        }
    }
}

pub(super) fn spdy(bytes: &[u8]) {
    for role in [Role::Client, Role::Server] {
        let (mut connection, mut input) = (Connection::new(role), BytesMut::from(bytes));
        for kind in ["error", "stdout", "stderr"] {
            // Only a server may refuse, if its peer has opened too many streams.
            let _ = connection.open(&Headers::new().with("streamtype", kind), false);
        }
        while let Ok(Some(event)) = connection.receive(&mut input) {
            if let Event::Opened { id, .. } = event {
                connection.reply(id).expect("a stream that was just opened");
                connection.send(id, b"x", false).unwrap_or_default();
            }
            assert!(
                connection.streams() <= spdy::MAX_STREAMS + 3,
                "streams are bounded"
            );
        }
        let answers = connection.take_output().len();
        assert!(
            answers <= 1024 + bytes.len() * 8,
            "{answers} bytes of answers to {}",
            bytes.len()
        );
    }
}

/// Returns recorded frames of a tunnel.
pub(super) fn frames() -> Vec<Vec<u8>> {
    let captures = corpus::files("wire/tests/fixtures/tunnel", ".jsonl");
    let lines = captures
        .iter()
        .flat_map(|capture| capture.split(|byte| *byte == b'\n'));
    let lines = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    lines
        .filter_map(|line| Some(corpus::decode(line.get("frame")?.as_str()?)))
        .collect()
}

/// Returns them as WebSocket frames of both ends.
pub(super) fn sockets() -> Vec<Vec<u8>> {
    let message = |frame: Vec<u8>| websocket::Message::Text(frame.into());
    let masks = [None, Some([9, 8, 7, 6])];
    let written = masks.map(|mask| {
        let mut out = BytesMut::new();
        frames()
            .into_iter()
            .for_each(|frame| websocket::encode(&mut out, &message(frame), mask));
        out.to_vec()
    });
    written.into()
}

/// Returns a recorded exec, the bytes of each end.
pub(super) fn execs() -> Vec<Vec<u8>> {
    [
        corpus::files("spdy/tests/recorded", ".client"),
        corpus::files("spdy/tests/recorded", ".server"),
    ]
    .concat()
}
