//! The captured messages: each has a kind, has the schema of that kind and is encoded again as the same bytes.

use serde_json::{Value, json};
use wire::{
    Message, json as codec,
    kind::{DOWN, MessageKind, UP, find},
};

use super::hub;

const RECORDINGS: [&str; 2] = [
    include_str!("../fixtures/edgecore-cloudcore-1.23-full.jsonl"),
    include_str!("../fixtures/edgecore-cloudcore-1.23-restart.jsonl"),
];

/// A captured message.
pub(super) struct Capture {
    /// Whether the node sent it.
    pub(super) up: bool,
    /// The text of the message.
    pub(super) text: &'static str,
    /// The message.
    pub(super) frame: Value,
    /// The message, decoded.
    pub(super) message: Message,
}

/// Returns all captured messages.
pub(super) fn captures() -> Vec<Capture> {
    let lines = RECORDINGS.iter().flat_map(|recording| recording.lines());
    let capture = |line: &'static str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let start = line.find(r#""frame":"#).unwrap() + r#""frame":"#.len();
        let text = &line[start..line.len() - 1];
        Capture {
            up: value["dir"] == "edge->cloud",
            text,
            frame: value["frame"].clone(),
            message: codec::decode(text.as_bytes(), codec::DEFAULT_LIMIT).unwrap(),
        }
    };
    lines.map(capture).collect()
}

impl Capture {
    /// Returns the name of the message's kind.
    pub(super) fn kind(&self) -> Option<&'static str> {
        fn name<F>(table: &'static [MessageKind<F>], message: &Message) -> Option<&'static str> {
            find(table, &message.route, &message.content).map(|kind| kind.name)
        }
        if self.up {
            name(UP, &self.message)
        } else {
            name(DOWN, &self.message)
        }
    }
}

#[test]
fn every_capture_encodes_to_the_same_bytes() {
    for capture in captures() {
        assert_eq!(codec::encode(&capture.message), capture.text);
    }
}

#[test]
fn every_capture_has_the_schema_of_its_kind() {
    let document = hub::document();
    for capture in captures() {
        let kind = capture.kind().unwrap();
        let pointer = format!("/components/messages/{}/payload", hub::id(kind));
        assert!(
            document.pointer(&pointer).is_some(),
            "{kind} is not in the document"
        );
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "allOf": [{"$ref": format!("#{pointer}")}],
            "components": document["components"],
        });
        let validator = validator(kind, &schema);
        let errors: Vec<String> = validator
            .iter_errors(&capture.frame)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{kind}: {errors:?}\n{}", capture.text);
        check_text(kind, &capture.frame, &document);
    }
}

fn validator(kind: &str, schema: &Value) -> jsonschema::Validator {
    jsonschema::validator_for(schema).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

/// Checks JSON that is text in a string, which tools that know only draft 7 do not check.
fn check_text(kind: &str, frame: &Value, document: &Value) {
    let pointer = format!(
        "/components/messages/{}/payload/properties/content/x-content",
        hub::id(kind)
    );
    let (Some(_), Some(text)) = (document.pointer(&pointer), frame["content"].as_str()) else {
        return;
    };
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "allOf": [{"$ref": format!("#{pointer}")}],
        "components": document["components"],
    });
    // the call of a program is in base64, and no capture has one
    let value: Value = serde_json::from_str(text).unwrap();
    let errors: Vec<String> = validator(kind, &schema)
        .iter_errors(&value)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{kind}: {errors:?}\n{text}");
}

#[test]
fn a_message_of_another_shape_does_not_have_the_schema() {
    let document = hub::document();
    let components = &document["components"];
    let is_valid = |kind: &str, message: &Value| {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "allOf": [{"$ref": format!("#/components/messages/{}/payload", hub::id(kind))}],
            "components": components,
        });
        validator(kind, &schema).is_valid(message)
    };
    let good = json!({
        "header": {"msg_id": "a", "timestamp": 1},
        "route": {"source": "websocket", "group": "resource", "operation": "keepalive", "resource": "node"},
        "content": "ping",
    });
    assert!(is_valid("keepalive", &good));
    for (pointer, value) in [
        ("/header/timestamp", json!("1")),
        ("/route/resource", json!("nodes")),
        ("/route/source", json!("edged")),
        ("/content", json!({"ping": 1})),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert!(!is_valid("keepalive", &bad), "{pointer}");
    }
    let mut list = json!({
        "header": {"msg_id": "a", "timestamp": 1},
        "route": {"source": "devicecontroller", "group": "twin", "operation": "update", "resource": "membership"},
        "content": {"event_id": "e", "timestamp": 1, "added_devices": [{"id": "ns/d"}], "removed_devices": null},
    });
    assert!(is_valid("membership", &list));
    list["content"]["added_devices"] = json!({"id": "ns/d"});
    assert!(!is_valid("membership", &list));
}
