//! Measures the codec of the session with recorded messages of KubeEdge: decode, find the kind, encode.

use std::time::Instant;

use anyhow::ensure;
use wire::{Down, Message, Up, json};

use crate::Figure;

const RECORDING: &str =
    include_str!("../../wire/tests/fixtures/edgecore-cloudcore-1.23-full.jsonl");
/// How many messages are measured; they must take two seconds at most.
const MESSAGES: u32 = 100_000;
const LIMIT: f64 = 2.0;

pub(crate) async fn codec() -> anyhow::Result<Vec<Figure>> {
    let lines: Vec<(bool, &str)> = RECORDING.lines().filter_map(frame).collect();
    let start = Instant::now();
    let mut bytes = 0;
    for (is_up, text) in lines.iter().cycle().zip(0..MESSAGES).map(|(line, _)| line) {
        let message = json::decode(text.as_bytes(), json::DEFAULT_LIMIT)?;
        let message: Message = if *is_up {
            Up::from(message).into()
        } else {
            Down::from(message).into()
        };
        let encoded = json::encode(&message);
        ensure!(encoded == *text, "a message is encoded differently");
        bytes += encoded.len();
    }
    let seconds = start.elapsed().as_secs_f64();
    ensure!(seconds <= LIMIT, "{MESSAGES} messages took {seconds:.2} s");
    Ok(vec![
        Figure {
            name: "protocol.messages".into(),
            value: f64::from(MESSAGES) / seconds,
            unit: "messages/s",
        },
        Figure {
            name: "protocol.bytes".into(),
            value: bytes as f64 / seconds / 1e6,
            unit: "MB/s",
        },
    ])
}

/// Returns whether the node sent the message of a line, and its text.
fn frame(line: &str) -> Option<(bool, &str)> {
    let (head, frame) = line.split_once(r#""frame":"#)?;
    Some((head.contains("edge->cloud"), frame.strip_suffix('}')?))
}
