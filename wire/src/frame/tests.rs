//! Round trips of frames, frames in portions, and bytes that are not frames.

use serde_json::json;

use super::*;
use crate::{ResourceType, Upstream};

fn decode(bytes: &[u8]) -> Result<Option<(Message, usize)>, FrameError> {
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(bytes);
    decoder.take()
}

fn message(content: Value) -> Message {
    let mut message =
        Upstream::query("ns", &ResourceType::Secret, "s").into_message(1_795_230_556_314);
    message.content = content;
    message.answering("parent").at_revision("1908")
}

#[test]
fn messages_come_back_as_they_were() {
    for content in [
        json!({"a": [1, null, "ü"]}),
        json!([]),
        Value::Null,
        json!("OK"),
        json!("123"),
        json!(""),
    ] {
        let message = message(content);
        let frame = encode(&message);
        assert_eq!(decode(&frame).unwrap(), Some((message, frame.len())));
    }
}

#[test]
fn json_in_a_string_comes_back_as_json() {
    let text = message(json!("{\"status\":{}}"));
    let (back, _) = decode(&encode(&text)).unwrap().unwrap();
    assert_eq!(back.content, json!({"status": {}}));
    assert_eq!(back.content_json().unwrap(), text.content_json().unwrap());
}

#[test]
fn the_bytes_are_viaducts() {
    let message = Message {
        content: json!("x"),
        ..Message::default()
    };
    assert_eq!(
        encode(&message),
        [1, 1, 1, 0, 1, 0, 0, 0, 0, 7, 10, 0, 18, 0, 26, 1, b'x']
    );
    let mut timed = Message::default();
    (timed.header.timestamp, timed.content) = (-1, json!("x"));
    // zigzag
    assert_eq!(encode(&timed)[HEAD..], [10, 2, 24, 1, 18, 0, 26, 1, b'x']);
}

#[test]
fn portions_do_not_matter() {
    let (first, second) = (message(json!({"n": 1})), message(json!("two")));
    let stream = [encode(&first), encode(&second)].concat();
    for portion in [1, 3, 10, 11, stream.len()] {
        let (mut decoder, mut got) = (Decoder::new(LIMIT), Vec::new());
        for bytes in stream.chunks(portion) {
            decoder.push(bytes);
            while let Some((message, _)) = decoder.take().unwrap() {
                got.push(message);
            }
        }
        assert_eq!(got, [first.clone(), second.clone()], "{portion}");
    }
}

#[test]
fn the_limit_holds_before_the_message_is_there() {
    let mut decoder = Decoder::new(100);
    decoder.push(&[1, 1, 1, 0, 1, 0, 0, 0, 0, 101]);
    assert!(matches!(
        decoder.take(),
        Err(FrameError::TooLarge {
            size: 101,
            limit: 100
        })
    ));
    assert!(matches!(
        decode(&[1, 1, 1, 0, 1, 0, 255, 255, 255, 255]),
        Err(FrameError::TooLarge { .. })
    ));
}

#[test]
fn frame_that_is_too_large_is_skipped_and_named() {
    for size in [100, 10_000] {
        let large = message(json!("x".repeat(size)));
        let next = message(json!({"n": 1}));
        let stream = [encode(&large), encode(&next)].concat();
        for portion in [1, 7, 100, stream.len()] {
            let (mut decoder, mut got, mut skipped) =
                (Decoder::new(90 + 40), Vec::new(), Vec::new());
            for bytes in stream.chunks(portion) {
                decoder.push(bytes);
                loop {
                    skipped.extend(decoder.take_skipped());
                    match decoder.take() {
                        _ if decoder.is_skipping() => break,
                        Err(FrameError::TooLarge { .. }) => decoder.skip(),
                        taken => match taken.unwrap() {
                            Some((message, _)) => got.push(message),
                            None => break,
                        },
                    }
                }
            }
            let [(bytes, Some(head))] = &skipped[..] else {
                panic!("{size} {portion}: {skipped:?}")
            };
            assert_eq!(
                (*bytes, &head.header, &head.route),
                (encode(&large).len() - HEAD, &large.header, &large.route)
            );
            assert_eq!(
                (got.as_slice(), &head.content),
                (&[next.clone()][..], &Value::Null),
                "{size} {portion}"
            );
        }
    }
}

#[test]
fn what_is_no_frame_is_refused() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        &[1, 1, 1, 0, 2, 0, 0, 0, 0, 0],
        &[2, 1, 1, 0, 1, 0, 0, 0, 0, 0],
    ] {
        assert!(matches!(decode(bytes), Err(FrameError::Head)), "{bytes:?}");
    }
    assert!(matches!(
        decode(&[1, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0xff]),
        Err(FrameError::Malformed(_))
    ));
    assert!(matches!(
        decode(&[1, 1, 1, 0, 1, 0, 0, 0, 0, 3, 26, 1, 0xff]),
        Err(FrameError::Content)
    ));
}

proptest::proptest! {
    #[test]
    fn no_bytes_are_too_strange(bytes: Vec<u8>) {
        let _ = decode(&bytes);
        let size = u32::try_from(bytes.len()).unwrap_or_default();
        let _ = decode(&[&[1, 1, 1, 0, 1, 0][..], &size.to_be_bytes(), &bytes].concat());
    }
}
