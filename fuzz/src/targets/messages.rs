//! The messages between a node and its cloud, and between a node and its runtime.

use std::{fmt::Write, time::Duration};

use bytes::Bytes;
use prost::Message as _;
use serde_json::Value;
use wire::{
    Down, Message, ResourcePath, Up,
    application::{Application, Target},
    compression::{Compressor, Decompressor},
    cri,
    enroll::{Usage, is_node_name},
    frame::{self, Decoder},
    lane::needs_ack,
};

use crate::corpus;

/// The largest message that is accepted here, in bytes.
const LIMIT: usize = 1 << 20;

pub(super) fn json(bytes: &[u8]) {
    if let Ok(message) = wire::json::decode(bytes, LIMIT) {
        check_types(&message);
        let text = wire::json::encode(&message);
        let again =
            wire::json::decode(text.as_bytes(), usize::MAX).expect("what was encoded is decoded");
        assert_eq!(again, message, "a message is what it was encoded from");
    }
}

/// Checks that every message keeps its type in both vocabularies.
fn check_types(message: &Message) {
    let _ = needs_ack(message);
    let _ = message.acknowledgement(0);
    let _ = message.content_bytes();
    let _ = Down::from(message.clone()).body.into_message(0);
    let up: Message = Up::from(message.clone()).into();
    assert_eq!(
        up.header.msg_id, message.header.msg_id,
        "a message stays itself"
    );
}

pub(super) fn recorded_seeds() -> Vec<Vec<u8>> {
    corpus::recorded_messages()
}

pub(super) fn frame(bytes: &[u8]) {
    let mut decoder = Decoder::new(LIMIT);
    // They may come in several pieces.
    for piece in bytes.chunks(97) {
        decoder.push(piece);
        loop {
            match decoder.take() {
                Ok(Some((message, _))) => {
                    check_types(&message);
                    let mut again = Decoder::new(usize::MAX);
                    again.push(&frame::encode(&message));
                    let (same, _) = again.take().expect("a frame").expect("a whole frame");
                    assert_eq!(same.header.msg_id, message.header.msg_id);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

pub(super) fn check_compressed(bytes: &[u8]) {
    let mut decompressor = Decompressor::default();
    let frame = Bytes::copy_from_slice(bytes);
    // Earlier messages may be referred to.
    for is_binary in [true, false, true] {
        if let Ok(message) = decompressor.read(frame.clone(), is_binary, LIMIT) {
            json(&message);
        }
    }
}

pub(super) fn conversations() -> Vec<Vec<u8>> {
    let mut compressor = Compressor::default();
    recorded_seeds()
        .iter()
        .filter_map(|message| compressor.compress(message))
        .collect()
}

pub(super) fn frames() -> Vec<Vec<u8>> {
    let messages = recorded_seeds()
        .into_iter()
        .filter_map(|bytes| wire::json::decode(&bytes, LIMIT).ok());
    let frames: Vec<Vec<u8>> = messages.map(|message| frame::encode(&message)).collect();
    frames.chunks(3).map(<[Vec<u8>]>::concat).collect()
}

pub(super) fn application(bytes: &[u8]) {
    let Ok(content) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    if let Ok(application) = Application::read(&content) {
        let _ = application.refusal();
        let _ = Target::parse(&application.key).map(|target| (target.path(), target.to_string()));
        Application::read(&application.write()).expect("what was written is read");
    }
}

pub(super) fn applications() -> Vec<Vec<u8>> {
    let recorded = recorded_seeds()
        .into_iter()
        .filter_map(|bytes| wire::json::decode(&bytes, LIMIT).ok());
    let contents = recorded
        .map(|message| message.content)
        .filter(|content| Application::read(content).is_ok());
    let mut all: Vec<Vec<u8>> = contents
        .map(|content| content.to_string().into_bytes())
        .collect();
    let target = Target::parse("/core/v1/pods/default/web").expect("a key");
    let made = Application::new(
        "edge-1",
        target.to_string(),
        wire::application::Verb::List,
        &serde_json::json!({"limit": 5}),
        b"{}".to_vec(),
        "",
    );
    all.push(made.write().to_string().into_bytes());
    all
}

pub(super) fn path(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let path = ResourcePath::from(&*text);
    let mut seen = String::new();
    if let Some(object) = path.as_object() {
        write!(seen, "{object:?}").expect("text");
    }
    assert_eq!(path.as_str(), text);
    let _ = Target::parse(&text);
    let _ = is_node_name(&text);
    let _ = Usage::parse_header(Some(&text));
}

pub(super) fn paths() -> Vec<Vec<u8>> {
    let recorded = recorded_seeds()
        .into_iter()
        .filter_map(|bytes| wire::json::decode(&bytes, LIMIT).ok());
    let mut paths: Vec<Vec<u8>> = recorded
        .map(|message| message.route.resource.as_str().as_bytes().to_vec())
        .collect();
    paths.sort();
    paths.dedup();
    paths.extend(corpus::texts(&[
        "/core/v1/pods/default/web",
        "edge-1.example",
        "[1,2]",
        "node/edge-1/membership",
    ]));
    paths
}

/// Decodes the responses of a runtime.
macro_rules! decode {
    ($bytes:expr, $($type:ident)*) => {
        $(if let Ok(message) = cri::$type::decode($bytes) {
            let again = cri::$type::decode(message.encode_to_vec().as_slice()).expect("what was encoded is decoded");
            assert_eq!(again.encode_to_vec(), message.encode_to_vec());
        })*
    };
}

pub(super) fn cri(bytes: &[u8]) {
    decode!(bytes, ListContainersResponse ListPodSandboxResponse ContainerStatusResponse PodSandboxStatusResponse
        ListImagesResponse StatusResponse VersionResponse ListContainerStatsResponse RunPodSandboxRequest
        CreateContainerRequest ContainerEventResponse);
}

pub(super) fn cri_messages() -> Vec<Vec<u8>> {
    let container = cri::Container {
        id: "c1".into(),
        labels: [("io.kubernetes.pod.uid".to_owned(), "u1".to_owned())].into(),
        ..cri::Container::default()
    };
    let containers = cri::ListContainersResponse {
        containers: vec![container; 3],
    };
    let version = cri::VersionResponse {
        runtime_name: "containerd".into(),
        ..cri::VersionResponse::default()
    };
    vec![containers.encode_to_vec(), version.encode_to_vec()]
}

/// The most lines of a recording that are read: a small block may have millions.
const MAX_RECORDED_LINES: usize = 100_000;

/// Reads a recording. Each block has one error at most.
pub(super) fn recording(input: &[u8]) {
    let lines = record::Reader::new(input).take(MAX_RECORDED_LINES);
    let errors = lines.filter(Result::is_err).count();
    assert!(
        errors <= 2 + input.len() / record::block::INDEX_BYTES,
        "{errors} errors"
    );
}

/// The first line of a recording.
const RECORDING: &[u8] = br#"{"type":"recording","format":"kubeedge-recording","version":1,"program":"p","kubeedge":"v1","side":"edge","started":"","part":1,"redacted":true}
"#;

fn block(number: u32, lines: &[u8]) -> Vec<u8> {
    let index = record::block::Index {
        number,
        lines: 1,
        ..Default::default()
    };
    record::block::encode(lines, index)
}

/// Returns recordings with one and with two blocks.
pub(super) fn recordings() -> Vec<Vec<u8>> {
    let gap = b"{\"type\":\"gap\",\"time\":1,\"frames\":2}\n";
    let first = block(0, RECORDING);
    vec![first.clone(), [first, block(1, gap)].concat()]
}

/// Compares a recording of these lines with itself, and plays it.
pub(super) fn comparison(lines: &[u8]) {
    let recording = [block(0, RECORDING), block(1, lines)].concat();
    let Ok(script) = replay::Script::read(&recording[..], &replay::Selection::default()) else {
        return;
    };
    let comparison = replay::compare(&script, &script);
    assert!(comparison.is_same(), "{}", comparison.to_text(["A", "B"]));
    for side in [record::Side::Edge, record::Side::Cloud] {
        play_alone(&script, side);
    }
}

/// Plays a side without another one: the replay ends, after a limited time.
fn play_alone(script: &replay::Script, side: record::Side) {
    let Ok(plan) = replay::Plan::new(script, side) else {
        return;
    };
    let (steps, patience) = (plan.steps.len(), Duration::from_secs(1));
    let options = replay::PlayOptions {
        node: "other".to_owned(),
        speed: None,
        patience,
        started: 1 << 60,
    };
    let mut player = replay::Player::new(plan, options);
    let mut now = Duration::ZERO;
    for _ in 0..3 * steps + 100 {
        match player.next(now) {
            Ok(replay::Next::Wait(until)) => now = until,
            Ok(replay::Next::Done) | Err(_) => {
                assert!(now <= 30 * patience, "{now:?}");
                let _ = player.finish().to_text(["A", "B"]);
                return;
            }
            Ok(_) => {}
        }
    }
    panic!("a replay of {steps} steps does not end");
}

/// Returns the lines of a recorded session.
pub(super) fn sessions() -> Vec<Vec<u8>> {
    let mut session = String::new();
    for message in corpus::recorded_messages() {
        if let Ok(message) = serde_json::from_slice::<Value>(&message) {
            let frame = serde_json::json!({"type": "frame", "connection": 1, "time": 1, "from": "edge", "size": 1,
                "message": message});
            session.push_str(&format!("{frame}\n"));
        }
    }
    vec![session.into_bytes()]
}
