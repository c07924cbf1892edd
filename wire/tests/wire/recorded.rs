//! Replays recorded traffic between KubeEdge's own `CloudCore` and `EdgeCore`: every frame has a typed value and is encoded back unchanged.

use std::collections::BTreeMap;

use serde_json::Value;
use wire::{Down, Downstream, Message, Up, Upstream, json};

const RECORDINGS: [&str; 2] = [
    include_str!("../fixtures/edgecore-cloudcore-1.23-full.jsonl"),
    include_str!("../fixtures/edgecore-cloudcore-1.23-restart.jsonl"),
];

fn frames() -> impl Iterator<Item = (bool, Value)> {
    RECORDINGS
        .iter()
        .flat_map(|recording| recording.lines())
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            (line["dir"] == "edge->cloud", line["frame"].take())
        })
}

/// Returns the variant's name, from its `Debug` text.
fn variant(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}")
        .chars()
        .take_while(|c| c.is_alphanumeric())
        .collect()
}

#[test]
fn every_recorded_frame_is_typed_and_encodes_back_to_itself() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (up, frame) in frames() {
        let message = json::decode(frame.to_string().as_bytes(), json::DEFAULT_LIMIT).unwrap();
        let (name, back): (String, Message) = if up {
            let up = Up::from(message.clone());
            assert!(!matches!(up.body, Upstream::Unknown { .. }), "{frame}");
            (format!("up {}", variant(&up.body)), up.into())
        } else {
            let down = Down::from(message.clone());
            assert!(!matches!(down.body, Downstream::Unknown { .. }), "{frame}");
            (format!("down {}", variant(&down.body)), down.into())
        };
        assert_eq!(back, message);
        assert_eq!(
            serde_json::from_str::<Value>(&json::encode(&back)).unwrap(),
            frame
        );
        *seen.entry(name).or_default() += 1;
    }
    assert!(seen.values().sum::<usize>() >= 400);
    insta::assert_json_snapshot!(seen);
}

#[test]
fn recorded_acknowledgements_are_the_ones_made_here() {
    let frames: Vec<(bool, Message)> = frames()
        .map(|(up, frame)| (up, serde_json::from_value(frame).unwrap()))
        .collect();
    let mut compared = 0;
    for (_, ack) in frames.iter().filter(|(up, _)| *up) {
        let asked = frames
            .iter()
            .find(|(up, message)| !up && message.header.msg_id == ack.header.parent_msg_id);
        if let (Some((_, asked)), Upstream::Ack { .. }) = (asked, Up::from(ack.clone()).body) {
            let made = asked.acknowledgement(ack.header.timestamp);
            assert_eq!((&made.route, &made.content), (&ack.route, &ack.content));
            assert_eq!(made.header.parent_msg_id, ack.header.parent_msg_id);
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn whatever_waits_for_an_acknowledgement_was_acknowledged() {
    let frames: Vec<(bool, Message)> = frames()
        .map(|(up, frame)| (up, serde_json::from_value(frame).unwrap()))
        .collect();
    for (_, message) in frames
        .iter()
        .filter(|(up, message)| !up && wire::lane::needs_ack(message))
    {
        let acknowledged = frames
            .iter()
            .any(|(up, ack)| *up && ack.header.parent_msg_id == message.header.msg_id);
        assert!(acknowledged, "{:?}", message.route);
    }
}
