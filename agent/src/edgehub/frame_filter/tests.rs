//! Streams of frames in portions of every size: what passes, what is cut, and what ends the connection.

use proptest::prelude::*;

use super::*;

const LIMITS: MessageLimits = MessageLimits {
    accepted: 20_000,
    skipped: 80_000,
};

/// A frame as a server writes it.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..126 => frame.push(u8::try_from(length).unwrap()),
        length @ 126..65_536 => {
            frame.push(126);
            frame.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            frame.push(127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

/// What passes of a stream that comes in portions, and which messages were cut.
fn filter(stream: &[u8], portion: usize) -> (Vec<u8>, Vec<CutMessage>) {
    let cut = CutMessages::default();
    let (mut filter, mut out) = (FrameFilter::new(LIMITS, cut.clone()), Vec::new());
    stream
        .chunks(portion)
        .for_each(|bytes| filter.pass(bytes, &mut out));
    let cut = cut.0.lock().iter().copied().collect();
    (out, cut)
}

fn text(length: usize) -> Vec<u8> {
    (0..length)
        .map(|place| b'a' + u8::try_from(place % 26).unwrap())
        .collect()
}

/// What is left of a message that was cut.
fn remainder(text: &[u8]) -> Vec<u8> {
    let rest = &text[PREFIX_BYTES..];
    let suffix = &rest[rest.len().saturating_sub(SUFFIX_BYTES)..];
    frame(0x82, &[&text[..PREFIX_BYTES], suffix].concat())
}

#[test]
fn only_message_that_is_too_large_is_cut() {
    /// What it is, the frames, those that are let through, and the messages that are cut.
    type Row = (&'static str, Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<CutMessage>);
    let (small, large, huge) = (text(20_000), text(70_000), text(80_001));
    let cut = |number, size, is_text| CutMessage {
        size,
        is_text,
        number,
    };
    let ping = frame(0x89, b"p");
    let rows: Vec<Row> = vec![
        (
            "accepted",
            vec![frame(0x81, &small), frame(0x82, b"")],
            vec![frame(0x81, &small), frame(0x82, b"")],
            vec![],
        ),
        (
            "too large, between others",
            vec![
                frame(0x81, b"a"),
                frame(0x81, &large),
                ping.clone(),
                frame(0x81, b"b"),
            ],
            vec![
                frame(0x81, b"a"),
                remainder(&large),
                ping.clone(),
                frame(0x81, b"b"),
            ],
            vec![cut(1, 70_000, true)],
        ),
        (
            "too large to be skipped",
            vec![frame(0x82, &huge)],
            vec![frame(0x82, &huge)],
            vec![],
        ),
        (
            "in parts that are too large together",
            vec![
                frame(0x01, &small),
                ping.clone(),
                frame(0x00, b"b"),
                frame(0x00, b"c"),
                frame(0x80, b"d"),
                frame(0x81, b"e"),
            ],
            vec![
                frame(0x02, &small),
                ping,
                frame(0x80, b""),
                frame(0x81, b"e"),
            ],
            vec![cut(0, 20_001, false)],
        ),
        (
            "whose first part is too large",
            vec![frame(0x02, &large), frame(0x80, b"d"), frame(0x82, b"e")],
            vec![remainder(&large), frame(0x82, b"e")],
            vec![cut(0, 70_000, false)],
        ),
    ];
    for (what, stream, expected, expected_cut) in rows {
        for portion in [1, 13, 4096, 1 << 20] {
            let (out, cut) = filter(&stream.concat(), portion);
            assert!(out == expected.concat(), "{what} in portions of {portion}");
            assert_eq!(cut, expected_cut, "{what}");
        }
    }
}

#[test]
fn response_to_the_upgrade_passes() {
    let large = text(30_000);
    for (head, expected) in [
        (
            "HTTP/1.1 101 Switching Protocols\r\nA: b\r\n\r\n",
            remainder(&large),
        ),
        (
            "HTTP/1.1 403 Forbidden\r\nA: b\r\n\r\n",
            frame(0x81, &large),
        ),
    ] {
        let stream = [head.as_bytes(), &frame(0x81, &large)].concat();
        for portion in [1, 50, 1 << 20] {
            let mut filter = FrameFilter::after_response(LIMITS, CutMessages::default());
            let mut out = Vec::new();
            stream
                .chunks(portion)
                .for_each(|bytes| filter.pass(bytes, &mut out));
            assert!(
                out == [head.as_bytes(), &expected].concat(),
                "{head} in portions of {portion}"
            );
        }
    }
}

#[test]
fn a_frame_that_continues_no_message_passes() {
    // 20,001 bytes, more than are accepted
    let frame = [0, 254, 78, 33, 0, 0, 0, 0];
    assert_eq!(filter(&frame, 1).0, frame);
}

proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes: Vec<u8>, portion in 1_usize..20) {
        let (out, _) = filter(&bytes, portion);
        prop_assert!(out.len() <= bytes.len() + 4);
    }
}
