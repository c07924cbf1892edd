//! A recording is equal to itself with other ids, times and revisions; each change of a content is found; hostile recordings have an error.

use std::{collections::HashMap, sync::Arc};

use proptest::prelude::*;
use record::{
    Side,
    block::{self, Index},
};
use serde_json::{Value, json};
use wire::{Change, Downstream, Message, ResourceType, Upstream};

use crate::{LoadError, MAX_CONNECTIONS, Script, Selection, Sent, Sort, compare};

const NODE_UID: &str = "0d9a4d3e-9d6a-4c1c-a1fb-0242ac120001";
const POD_UID: &str = "0d9a4d3e-9d6a-4c1c-a1fb-0242ac120002";

/// Returns a script of these messages.
pub(crate) fn script(node: &str, messages: &[(Side, Message)]) -> Script {
    let mut script = Script::default();
    for (number, (from, message)) in messages.iter().enumerate() {
        let sent = Sent {
            frame: number as u64 + 1,
            time: 1_795_231_219_727_000_000 + number as u64 * 1_000_000,
            node: Arc::from(node),
            from: *from,
            kind: record::kind_of(*from, message),
            ..Sent::default()
        };
        script.push(sent, message).unwrap();
    }
    script
}

fn pod(phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-x7k2p", "generateName": "web-", "namespace": "default", "uid": POD_UID,
            "resourceVersion": "17", "creationTimestamp": "2026-11-29T12:35:30Z",
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": NODE_UID}]},
        "spec": {"nodeName": "edge-1", "containers": [{"name": "main", "image": "nginx", "command": ["a", "b"]}]},
        "status": {"phase": phase, "startTime": "2026-11-29T12:35:31Z"}})
}

/// Returns a session with all sorts of ids.
pub(crate) fn session() -> Vec<(Side, Message)> {
    let node = json!({"metadata": {"name": "edge-1", "labels": {"kubernetes.io/hostname": "edge-1"}}, "status": {"capacity": {"cpu": "4"}}});
    let mut stored = node.clone();
    stored["metadata"]["uid"] = json!(NODE_UID);
    stored["metadata"]["resourceVersion"] = json!("12");
    let registration = Upstream::put(Change::Insert, "", &ResourceType::Node, "edge-1", node)
        .into_message(1_795_231_219_001);
    let registered = Downstream::Answer {
        path: registration.route.resource.clone(),
        answer: wire::Answer::Response(wire::ObjectResp::ok(stored)),
    }
    .into_message(2)
    .answering(&registration.header.msg_id);
    let object = |change, phase| {
        Downstream::Object {
            origin: wire::Source::EdgeController,
            change,
            path: wire::ResourcePath::from("default/pod/web-x7k2p"),
            object: pod(phase),
        }
        .into_message(3)
        .at_revision("17")
    };
    let insert = object(Change::Insert, "Pending");
    let ack = insert.acknowledgement(4);
    let patch = json!({"metadata": {"uid": POD_UID}, "status": {"phase": "Running",
        "podIP": "10.0.0.7", "containerStatuses": [{"containerID": format!("containerd://{}", "0a1b2c3d".repeat(8)), "ready": true}]}});
    let status = Upstream::pod_patch("default", "web-x7k2p", patch.to_string()).into_message(5);
    let event = json!({"metadata": {"name": "web-x7k2p.18ec84390ed503db", "namespace": "default"}, "reason": "Pulled", "count": 1,
        "message": "Successfully pulled image \"nginx\" in 1.234s", "firstTimestamp": "2026-11-29T12:35:32Z",
        "involvedObject": {"kind": "Pod", "name": "web-x7k2p", "uid": POD_UID}});
    let event = Upstream::put(
        Change::Insert,
        "default",
        &ResourceType::Event,
        "web-x7k2p.18ec84390ed503db",
        event,
    )
    .into_message(6);
    let update = object(Change::Update, "Running");
    let updated = update.acknowledgement(8);
    let delete = object(Change::Delete, "Running");
    let deleted = delete.acknowledgement(9);
    vec![
        (Side::Edge, Upstream::keepalive().into_message(0)),
        (Side::Edge, registration),
        (Side::Cloud, registered),
        (Side::Cloud, insert),
        (Side::Edge, ack),
        (Side::Edge, status),
        (Side::Edge, event),
        (Side::Cloud, update),
        (Side::Edge, updated),
        (Side::Cloud, delete),
        (Side::Edge, deleted),
    ]
}

/// A kind of object, its states in two recordings, and the expected differences.
type StatesCase = (
    ResourceType,
    &'static [&'static str],
    &'static [&'static str],
    &'static [Sort],
);

/// Returns a session of these states, each with its answer.
fn states(kind: &ResourceType, states: &[&str]) -> Script {
    let messages = states.iter().enumerate().flat_map(|(place, state)| {
        let patch = json!({"status": {"phase": state}});
        let (from, message) = match kind {
            ResourceType::Pod => (
                Side::Edge,
                Upstream::pod_patch("default", "web", patch.to_string()),
            ),
            ResourceType::NodeStatus => (
                Side::Edge,
                Upstream::node_patch("edge-1", patch.to_string()),
            ),
            kind => {
                let (origin, namespace) = match kind {
                    ResourceType::Node => (wire::Source::EdgeController, "null"),
                    ResourceType::ServiceAccountAccess => {
                        (wire::Source::PolicyController, "default")
                    }
                    _ => (wire::Source::EdgeController, "default"),
                };
                let object = Downstream::Object {
                    origin,
                    change: match kind {
                        ResourceType::ServiceAccountAccess if place == 0 => Change::Insert,
                        _ => Change::Update,
                    },
                    path: format!("{namespace}/{kind}/edge-1").as_str().into(),
                    object: patch,
                };
                let message = object.into_message(1);
                let answer = message.acknowledgement(2);
                return [(Side::Cloud, message), (Side::Edge, answer)];
            }
        };
        let message = message.into_message(1);
        let answer = Downstream::Answer {
            path: message.route.resource.clone(),
            answer: wire::Answer::Response(wire::ObjectResp::ok(json!({"phase": state}))),
        };
        let answer = answer.into_message(2).answering(&message.header.msg_id);
        [(from, message), (Side::Cloud, answer)]
    });
    script("edge-1", &messages.collect::<Vec<_>>())
}

#[test]
fn of_the_states_of_a_node_or_pod_only_the_latest_is_compared() {
    let cases: [StatesCase; 11] = [
        (ResourceType::NodeStatus, &["a", "b", "c"], &["a", "c"], &[]),
        (ResourceType::NodeStatus, &["c"], &["a", "b", "c"], &[]),
        (ResourceType::NodeStatus, &["a", "c"], &["b", "c"], &[]),
        (
            ResourceType::NodeStatus,
            &["a", "b"],
            &["a", "c"],
            &[Sort::Content, Sort::Content],
        ),
        (
            ResourceType::NodeStatus,
            &["a"],
            &[],
            &[Sort::Missing, Sort::Missing],
        ),
        (
            ResourceType::NodeStatus,
            &[],
            &["a", "b"],
            &[Sort::Additional, Sort::Additional],
        ),
        (ResourceType::Node, &["a", "b", "c"], &["c"], &[]),
        (
            ResourceType::Node,
            &["a", "b"],
            &["b", "a"],
            &[Sort::Content],
        ),
        (ResourceType::ServiceAccountAccess, &["a", "b"], &["b"], &[]),
        (ResourceType::Pod, &["a", "b", "c"], &["a", "c"], &[]),
        // each state of any other object counts
        (
            ResourceType::ConfigMap,
            &["a", "b", "c"],
            &["a", "c"],
            &[Sort::Missing, Sort::Content, Sort::Missing],
        ),
    ];
    for (kind, first, second, expected) in cases {
        let found = compare(&states(&kind, first), &states(&kind, second));
        let sorts: Vec<Sort> = found.differences.iter().map(|one| one.sort).collect();
        assert_eq!(sorts, expected, "{kind} {first:?} {second:?}: {found:#?}");
    }
}

/// Replaces what may differ from session to session, each value always by the same other one.
struct Renamer {
    seed: u64,
    known: HashMap<String, String>,
}

impl Renamer {
    fn number(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.seed
    }

    fn text(&mut self, text: &str) -> String {
        let fixed = [
            (POD_UID, "0a000000-0000-4000-8000-"),
            (NODE_UID, "0b000000-0000-4000-8000-"),
        ];
        let mut text = text.to_owned();
        for (uid, prefix) in fixed {
            let number = self.number() >> 16;
            let new = self
                .known
                .entry(uid.to_owned())
                .or_insert(format!("{prefix}{number:012x}"));
            text = text.replace(uid, new);
        }
        text = text
            .replace("web-x7k2p", "web-zzzz9")
            .replace("edge-1", "edge-2");
        text = text.replace("18ec84390ed503db", "18ec84390ed50000");
        text = text.replace(&"0a1b2c3d".repeat(8), &"9f".repeat(32));
        text.replace("2026-11-29T12:35", "2027-01-02T03:04")
            .replace("1.234s", "2m3.5s")
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(map) => {
                for (key, value) in map {
                    match key.as_str() {
                        "resourceVersion" => *value = json!(self.number().to_string()),
                        _ => self.value(value),
                    }
                }
            }
            _ => {}
        }
    }

    fn message(&mut self, message: &Message) -> Message {
        let mut new = message.clone();
        for id in [&mut new.header.msg_id, &mut new.header.parent_msg_id] {
            if !id.is_empty() {
                let fresh = Message::new_id();
                *id = self.known.entry(id.clone()).or_insert(fresh).clone();
            }
        }
        new.header.timestamp += 12345;
        if !new.header.resource_version.is_empty() {
            new.header.resource_version = self.number().to_string();
        }
        new.route.resource = self.text(message.route.resource.as_str()).into();
        self.value(&mut new.content);
        new
    }
}

fn rename(messages: &[(Side, Message)], seed: u64) -> Vec<(Side, Message)> {
    let known = HashMap::new();
    let mut renamer = Renamer { seed, known };
    messages
        .iter()
        .map(|(from, message)| (*from, renamer.message(message)))
        .collect()
}

/// Returns the places of all leaves that have a meaning.
fn leaves(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let is_time = key.ends_with("Timestamp") || key.ends_with("Time");
                // an id that stands for nothing else, or whose name is a number
                let is_id = ["resourceVersion", "containerID"].contains(&key.as_str());
                if !is_time && !is_id {
                    leaves(
                        value,
                        format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")),
                        found,
                    );
                }
            }
        }
        Value::Array(items) => {
            for (place, value) in items.iter().enumerate() {
                leaves(value, format!("{path}/{place}"), found);
            }
        }
        _ => found.push(path),
    }
}

proptest! {
    #[test]
    fn a_recording_is_equal_to_itself_with_other_ids_times_and_revisions(seed: u64) {
        let session = session();
        let comparison = compare(&script("edge-1", &session), &script("edge-2", &rename(&session, seed)));
        prop_assert!(comparison.is_same(), "{}", comparison.to_text(["A", "B"]));
    }

    #[test]
    fn each_change_of_a_content_is_found(seed: u64, which: prop::sample::Index, place: prop::sample::Index, other: u32) {
        let session = session();
        let mut changed = rename(&session, seed);
        let with_content: Vec<usize> = (0..changed.len()).filter(|one| changed[*one].1.content.is_object() || changed[*one].1.route.operation == wire::Operation::Patch).collect();
        let number = with_content[which.index(with_content.len())];
        let message = &mut changed[number].1;
        let mut content = message.content_json().unwrap();
        let mut found = Vec::new();
        leaves(&content, String::new(), &mut found);
        let path = &found[place.index(found.len())];
        *content.pointer_mut(path).unwrap() = json!(format!("other {other}"));
        message.content = match message.content {
            Value::String(_) => content.to_string().into(),
            _ => content,
        };
        let comparison = compare(&script("edge-1", &session), &script("edge-2", &changed));
        prop_assert!(!comparison.is_same(), "{path} of message {number}");
    }
}

#[test]
fn each_sort_of_difference_is_found_and_named() {
    let session = session();
    let whole = script("edge-1", &session);
    let without = |place: usize| {
        let mut less = session.clone();
        less.remove(place);
        script("edge-1", &less)
    };
    let found = |a: &Script, b: &Script| {
        let comparison = compare(a, b);
        let all = comparison.differences.iter();
        all.map(|one| (one.sort, one.kind, one.first, one.second))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&whole, &whole), []);
    // keepalive messages do not count
    assert_eq!(found(&whole, &without(0)), []);
    assert_eq!(
        found(&whole, &without(5)),
        [(Sort::Missing, "pod-status", Some(6), None)]
    );
    assert_eq!(
        found(&without(5), &whole),
        [(Sort::Additional, "pod-status", None, Some(6))]
    );
    let mut swapped = session.clone();
    swapped.swap(7, 9);
    let moved = found(&whole, &script("edge-1", &swapped));
    assert!(
        moved
            .iter()
            .any(|one| one.0 == Sort::Order && one.1 == "pod"),
        "{moved:?}"
    );
    let mut changed = session.clone();
    changed[3].1.content["spec"]["containers"][0]["image"] = json!("nginx:2");
    let comparison = compare(&whole, &script("edge-1", &changed));
    let text = comparison.to_text(["A", "B"]);
    let expected = "first difference:\ncontent    cloud edge-1 pod insert default/pod/web-x7k2p  (A frame 4, B frame 4)\n  \
        .content.spec.containers[0].image\n    - \"nginx\"\n    + \"nginx:2\"\n";
    assert_eq!(text, expected);
}

#[test]
fn an_answer_to_another_message_is_found() {
    let session = session();
    let mut changed = session.clone();
    let other = changed[5].1.header.msg_id.clone();
    changed[2].1.header.parent_msg_id = other;
    let comparison = compare(&script("edge-1", &session), &script("edge-1", &changed));
    assert_eq!(comparison.differences[0].changes[0].path, ".parent_msg_id");
}

#[test]
fn a_uid_stands_for_the_same_object_everywhere() {
    let session = session();
    let mut changed = session.clone();
    changed[7].1.content["metadata"]["uid"] = json!(Message::new_id());
    let comparison = compare(&script("edge-1", &session), &script("edge-1", &changed));
    assert_eq!(
        comparison.differences[0].changes[0].path,
        ".content.metadata.uid"
    );
}

#[test]
fn secrets_are_never_printed_and_masked_values_are_counted() {
    let secret = |value: &str| {
        Downstream::Object {
            origin: wire::Source::EdgeController,
            change: Change::Update,
            path: wire::ResourcePath::from("default/secret/s"),
            object: json!({"kind": "Secret", "metadata": {"name": "s"}, "data": {"key": value}, "type": "Opaque"}),
        }
        .into_message(1)
    };
    let of = |value: &str| script("edge-1", &[(Side::Cloud, secret(value))]);
    let comparison = compare(&of("aHVudGVyMg=="), &of("c2VjcmV0"));
    let text = comparison.to_text(["A", "B"]);
    assert_eq!(comparison.count(), 1);
    assert!(
        !text.contains("aHVudGVyMg") && !text.contains("c2VjcmV0"),
        "{text}"
    );
    let comparison = compare(&of("Kioq"), &of("c2VjcmV0"));
    assert_eq!((comparison.count(), comparison.masked), (0, 1));
}

/// Returns a recording with these lines after its header.
fn recording(lines: &[Value]) -> Vec<u8> {
    let header = json!({"type": "recording", "format": "kubeedge-recording", "version": 1, "program": "p", "kubeedge": "v1",
        "side": "edge", "started": "", "part": 1, "redacted": true});
    let text = |lines: &[Value]| {
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let block = |number, lines: &[Value]| {
        block::encode(
            text(lines).as_bytes(),
            Index {
                number,
                ..Index::default()
            },
        )
    };
    [block(0, &[header]), block(1, lines)].concat()
}

fn read(bytes: &[u8]) -> Result<Script, LoadError> {
    Script::read(bytes, &Selection::default())
}

#[test]
fn hostile_recordings_have_an_error_with_the_offset() {
    let connection = |id: usize| json!({"type": "connection", "id": id, "time": 1, "transport": "websocket", "node": "n"});
    let whole = recording(&[connection(1)]);
    assert!(read(&whole).is_ok());
    let many: Vec<Value> = (0..=MAX_CONNECTIONS).map(connection).collect();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (bytes, expected) in [
        (
            recording(&many),
            "more than 100000 open connections up to byte",
        ),
        (damaged, "at byte"),
        (
            b"no recording".to_vec(),
            "at byte 0: the file is no recording",
        ),
        (
            recording(&[json!({"type": "frame"})]),
            "line 1 of the block cannot be read",
        ),
    ] {
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // what a crash has cut off is noted
    let cut = read(&whole[..whole.len() - 5]).unwrap();
    assert!(cut.truncated.is_some());
    // a claimed size costs nothing
    let frame = json!({"type": "frame", "connection": 7, "time": 1, "from": "edge", "size": u64::MAX, "kind": "pod",
        "message": {"header": {}, "route": {}, "content": null}});
    assert_eq!(read(&recording(&[frame])).unwrap().sent.len(), 1);
}

#[test]
fn a_selection_leaves_out_the_rest() {
    let session = session();
    let frames: Vec<Value> = session
        .iter()
        .map(|(from, message)| {
            json!({"type": "frame", "connection": 1, "time": 1, "from": from, "size": 1, "message": message})
        })
        .collect();
    let connection = json!({"type": "connection", "id": 1, "time": 1, "transport": "websocket", "node": "edge-1"});
    let bytes = recording(&[vec![connection], frames].concat());
    for (node, kinds, expected) in [
        (None, vec![], session.len()),
        (Some("edge-1"), vec!["pod"], 3),
        (Some("edge-2"), vec![], 0),
    ] {
        let selection = Selection {
            node: node.map(str::to_owned),
            kinds: kinds.into_iter().map(str::to_owned).collect(),
        };
        let script = Script::read(&bytes[..], &selection).unwrap();
        assert_eq!(script.sent.len(), expected);
    }
}
