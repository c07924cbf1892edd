//! Messages that no cloud should send, which a node must refuse without failing itself. Pure.
//!
//! They include the messages of KubeEdge's published vulnerabilities, as far as they concern a node.

mod objects;

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::{Group, Message, Operation, Route, Source};

/// What is written to a node.
#[derive(Clone, Debug)]
pub(crate) enum RawMessage {
    /// A well-formed message.
    Message(Box<Message>),
    /// Text that is not a message.
    Text(String),
    /// Bytes that are not UTF-8.
    Bytes(Vec<u8>),
    /// The number of fragments, and the bytes of each, of a message that never ends.
    Fragments(usize, usize),
    /// The beginning of a message that announces the largest size its transport can express.
    Announced,
}

macro_rules! shapes {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// A kind of hostile message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Shape {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Shape {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name of the kind, as in the API and on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns a description in one sentence.
            pub fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*).trim_ascii(),)* }
            }
        }
    };
}

shapes! {
    /// Text that is not JSON.
    NotJson = "not-json",
    /// Bytes that are not UTF-8.
    NotText = "not-text",
    /// The document `null` (CVE-2022-31076, CVE-2022-31077).
    Null = "null",
    /// A message whose header, route and content are `null` (CVE-2022-31076).
    NullParts = "null-parts",
    /// Every known message with `null` as its content (CVE-2022-31077).
    NullContent = "null-content",
    /// Objects whose fields have the wrong types.
    WrongTypes = "wrong-types",
    /// Unknown sources, groups, operations, kinds and paths.
    UnknownKinds = "unknown-kinds",
    /// Content nested a hundred thousand levels deep.
    DeepJson = "deep-json",
    /// A message that exceeds every size limit (CVE-2022-31079).
    Oversize = "oversize",
    /// A length of gigabytes, without the data (CVE-2026-62370).
    AnnouncedLength = "announced-length",
    /// Fragments of a message that never ends (CVE-2022-31080).
    EndlessParts = "endless-parts",
    /// Names, paths and IDs of one megabyte.
    LongNames = "long-names",
    /// Names, keys and paths with directory traversal (CVE-2026-62369).
    PathTraversal = "path-traversal",
    /// Jobs and settings that contain shell commands (CVE-2026-62371, CVE-2026-62182).
    ShellInjection = "shell-injection",
    /// Calls of local services with bodies of several megabytes (CVE-2022-31073, CVE-2022-31078).
    LargeCalls = "large-calls",
    /// Revisions, times and counts outside the range of every number type.
    WildNumbers = "wild-numbers",
    /// Objects with duplicate fields.
    DoubledFields = "doubled-fields",
    /// Responses without a request.
    UnaskedAnswers = "unasked-answers",
    /// Pods and settings of other nodes, and objects whose name differs from the message's.
    ForeignObjects = "foreign-objects",
    /// Thousands of empty messages.
    Flood = "flood",
}

/// There is no kind of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown malformed message {0:?}; `cloudsim faults messages` lists them")]
pub struct UnknownShape(String);

impl FromStr for Shape {
    type Err = UnknownShape;

    fn from_str(text: &str) -> Result<Self, UnknownShape> {
        let found = Self::ALL.iter().copied().find(|shape| shape.name() == text);
        found.ok_or_else(|| UnknownShape(text.chars().take(40).collect()))
    }
}

/// More than every limit of a message's size, bytes.
const OVERSIZE_BYTES: usize = wire::json::DEFAULT_LIMIT + 1024;
const NESTING_DEPTH: usize = 100_000;
const LONG_NAME_BYTES: usize = 1024 * 1024;
const LARGE_BODY_BYTES: usize = 6 * 1024 * 1024;
const FLOOD_MESSAGES: usize = 3000;

impl Shape {
    /// Returns what is written for it to this node.
    pub(crate) fn messages(self, node: &str) -> Vec<RawMessage> {
        let raw = |messages: Vec<Message>| {
            messages
                .into_iter()
                .map(|message| RawMessage::Message(Box::new(message)))
                .collect()
        };
        match self {
            Self::NotJson => vec![RawMessage::Text("this is not JSON".to_owned())],
            Self::NotText => vec![RawMessage::Bytes(vec![0xff, 0xfe, 0x00, 0x80])],
            Self::Null => vec![RawMessage::Text("null".to_owned())],
            Self::NullParts => vec![RawMessage::Message(Box::default())],
            Self::NullContent => raw(objects::known_messages(node, &Value::Null)),
            Self::WrongTypes => raw(objects::wrong_types(node)),
            Self::UnknownKinds => raw(unknown_kinds()),
            Self::DeepJson => {
                let deep = format!("{}{}", "[".repeat(NESTING_DEPTH), "]".repeat(NESTING_DEPTH));
                let route = r#"{"source":"edgecontroller","group":"resource","operation":"update","resource":"default/pod/deep"}"#;
                vec![RawMessage::Text(format!(r#"{{"header":{{"msg_id":"deep"}},"route":{route},"content":{deep}}}"#))]
            }
            Self::Oversize => vec![RawMessage::Text("x".repeat(OVERSIZE_BYTES))],
            Self::AnnouncedLength => vec![RawMessage::Announced],
            Self::EndlessParts => vec![RawMessage::Fragments(OVERSIZE_BYTES / LONG_NAME_BYTES + 8, LONG_NAME_BYTES)],
            Self::LongNames => raw(long_names()),
            Self::PathTraversal => raw(objects::path_traversal(node)),
            Self::ShellInjection => raw(shell_injection(node)),
            Self::LargeCalls => raw(large_calls()),
            Self::WildNumbers => objects::wild_numbers(node),
            Self::DoubledFields => vec![RawMessage::Text(
                r#"{"header":{"msg_id":"a","msg_id":"b"},"route":{"group":"resource","group":"twin"},"content":1,"content":2}"#
                    .to_owned(),
            )],
            Self::UnaskedAnswers => raw(unasked_answers()),
            Self::ForeignObjects => raw(objects::foreign(node)),
            Self::Flood => raw((0..FLOOD_MESSAGES).map(|_| message("flood", "flood", "flood", "flood", json!(""))).collect()),
        }
    }

    /// Reports whether a node may end the session because of it: it cannot know where the next message begins, or who the peer is.
    pub fn may_end_session(self) -> bool {
        matches!(
            self,
            Self::NotJson
                | Self::NotText
                | Self::Null
                | Self::DeepJson
                | Self::AnnouncedLength
                | Self::EndlessParts
                | Self::WildNumbers
                | Self::DoubledFields
        )
    }
}

/// Builds a message with arbitrary words in its route.
fn message(source: &str, group: &str, operation: &str, resource: &str, content: Value) -> Message {
    let route = Route {
        source: Source::from(source.to_owned()),
        group: Group::from(group.to_owned()),
        operation: Operation::from(operation.to_owned()),
        resource: resource.into(),
        destination: String::new(),
    };
    Message::new(route, content, 0)
}

fn unknown_kinds() -> Vec<Message> {
    let routes = [
        ("future", "future", "dance", "no/such/thing"),
        (
            "edgecontroller",
            "resource",
            "update",
            "default/unicorn/one",
        ),
        ("edgecontroller", "resource", "explode", "default/pod/one"),
        ("edgecontroller", "resource", "update", ""),
        ("edgecontroller", "resource", "update", "//////"),
        ("edgecontroller", "resource", "update", "default/pod"),
        (
            "devicecontroller",
            "twin",
            "update",
            "device//twin/cloud_updated",
        ),
        ("cloudhub", "resource", "keepalive", "node"),
        ("", "", "", ""),
    ];
    let contents = [
        json!(null),
        json!(""),
        json!(-1),
        json!([[]]),
        json!({"metadata": 1}),
        json!("{\"a\":"),
    ];
    let mut all = Vec::new();
    for (source, group, operation, resource) in routes {
        all.extend(
            contents
                .iter()
                .map(|content| message(source, group, operation, resource, content.clone())),
        );
    }
    all
}

fn long_names() -> Vec<Message> {
    let long = "n".repeat(LONG_NAME_BYTES);
    let object = json!({"metadata": {"name": long, "uid": long, "resourceVersion": "1"}});
    let mut named = message(
        "edgecontroller",
        "resource",
        "update",
        &format!("default/configmap/{long}"),
        object,
    );
    named.header.msg_id.clone_from(&long);
    let slashes = message(
        "edgecontroller",
        "resource",
        "update",
        &"/".repeat(LONG_NAME_BYTES),
        json!({}),
    );
    vec![
        named,
        slashes,
        message(&long, &long, &long, "x", json!(null)),
    ]
}

fn shell_injection(node: &str) -> Vec<Message> {
    let command = "v1.20.0; touch /tmp/outrigger-was-here; $(touch /tmp/outrigger-was-here) `touch /tmp/outrigger-was-here`";
    let upgrade = json!({
        "version": command, "image": command, "imageDigest": command, "upgradeTool": command,
        "upgradeID": command, "historyID": command, "upgradeInstallationPackage": command,
    });
    let update =
        json!({"updateFields": {"modules.edged.tailoredKubeletConfig.podLogsDir": command}});
    let path = |job: &str| format!("operations.kubeedge.io/v1alpha2/{job}/job-1/node/{node}");
    let mut all = Vec::new();
    for (source, operation, resource, content) in [
        (
            "nodeupgradejobcontroller",
            "Upgrade",
            path("nodeupgradejob"),
            &upgrade,
        ),
        (
            "nodeupgradejobcontroller",
            "BackUp",
            path("nodeupgradejob"),
            &upgrade,
        ),
        (
            "taskmanager",
            "upgrade",
            format!("upgrade/{command}/node/{node}"),
            &upgrade,
        ),
        ("taskmanager", "Update", path("configupdatejob"), &update),
        (
            "taskmanager",
            "Pull",
            path("imageprepulljob"),
            &json!({"images": [command], "imageSecret": command}),
        ),
    ] {
        all.push(message(
            source,
            "taskmanager",
            operation,
            &resource,
            content.clone(),
        ));
    }
    all
}

fn large_calls() -> Vec<Message> {
    let body = "A".repeat(LARGE_BODY_BYTES);
    let call = json!({"header": {}, "body": body, "method": "POST", "url": "http://127.0.0.1:1/x"});
    vec![
        message("router_servicebus", "user", "POST", "1:/x", call),
        message(
            "router_eventbus",
            "user",
            "publish",
            "any/topic",
            json!(body),
        ),
        message(
            "router_servicebus",
            "user",
            "start",
            &format!("http://127.0.0.1:1/{}", "a".repeat(LONG_NAME_BYTES)),
            json!(null),
        ),
    ]
}

fn unasked_answers() -> Vec<Message> {
    let answers = [
        (
            "edgecontroller",
            "default/podpatch/web",
            json!({"Object": null, "Err": {"ErrStatus": null}}),
        ),
        ("edgecontroller", "default/configmap/x", json!("OK")),
        (
            "edgecontroller",
            "default/serviceaccounttoken/default",
            json!({"status": {"token": 7}}),
        ),
        ("edgecontroller", "null/node/x", json!(null)),
        (
            "cloudhub",
            "k8s/ca.crt",
            json!("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n"),
        ),
        (
            "dynamiccontroller",
            "ignore/Application/ignore",
            json!({"ID": "x", "RespBody": "bm90aGluZw=="}),
        ),
    ];
    let mut all = Vec::new();
    for (source, resource, content) in answers {
        for parent in ["nobody", &"p".repeat(LONG_NAME_BYTES / 4)] {
            let operation = if source == "dynamiccontroller" {
                "applicationResponse"
            } else {
                "response"
            };
            all.push(
                message(source, "resource", operation, resource, content.clone()).answering(parent),
            );
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_has_a_name_a_sentence_and_something_to_write() {
        for shape in Shape::ALL.iter().copied() {
            assert_eq!(shape.name().parse(), Ok(shape));
            assert!(shape.about().ends_with('.'), "{}", shape.about());
            assert!(!shape.messages("edge-1").is_empty(), "{}", shape.name());
        }
        assert!("kind-words".parse::<Shape>().is_err());
    }

    #[test]
    fn the_published_vulnerabilities_that_reach_a_node_are_among_them() {
        let all: String = Shape::ALL.iter().map(|shape| shape.about()).collect();
        // the other two are of programs that run in the cloud: the admission controller and CloudHub's enrolment
        for cve in [
            "CVE-2022-31073",
            "CVE-2022-31076",
            "CVE-2022-31077",
            "CVE-2022-31078",
            "CVE-2022-31079",
            "CVE-2022-31080",
            "CVE-2026-62371",
            "CVE-2026-62182",
            "CVE-2026-62369",
            "CVE-2026-62370",
        ] {
            assert!(all.contains(cve), "{cve}");
        }
    }
}
