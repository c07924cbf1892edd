//! Message shapes, limits, and malicious input.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Down, Up};

fn read(text: &str) -> Result<Message, DecodeError> {
    decode(text.as_bytes(), DEFAULT_LIMIT)
}

#[test]
fn empty_fields_are_left_out_but_for_three() {
    assert_eq!(
        encode(&Message::default()),
        r#"{"header":{"msg_id":"","timestamp":0},"route":{},"content":null}"#
    );
    let full = r#"{"header":{"msg_id":"a","parent_msg_id":"b","timestamp":1,"resourceversion":"2","sync":true,"type":"x"},"route":{"source":"s","destination":"d","group":"g","operation":"o","resource":"r"},"content":{"a":1}}"#;
    assert_eq!(encode(&read(full).unwrap()), full);
}

#[test]
fn missing_null_and_unknown_fields_are_tolerated() {
    for text in [
        "{}",
        r#"{"header":null,"route":null,"content":null}"#,
        r#"{"header":{"msg_id":null,"timestamp":null,"new":1},"route":{"source":null,"destination":null,"resource":null},"more":[]}"#,
        "  {\"header\":{}}\n",
    ] {
        assert_eq!(read(text).unwrap(), Message::default(), "{text}");
    }
}

#[test]
fn what_is_no_message_is_refused_with_its_place() {
    for (text, part) in [
        ("", "line 1 column 0"),
        ("{", "line 1 column 1"),
        ("[1,2]x", "column"),
        (r#"{"header":{"msg_id":1}}"#, "column 21"),
        (r#"{"header":{"timestamp":"soon"}}"#, "column 29"),
        (r#"{"route":{"source":{}}}"#, "column"),
        (r#"{"content":1} trailing"#, "column 15"),
        ("{\"header\":{\"msg_id\":\"\u{0}\"}}", "column"),
    ] {
        let error = read(text).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains(part), "{text}: {cause}");
    }
}

#[test]
fn size_and_depth_have_limits() {
    assert!(matches!(
        decode(b"{}   ", 4),
        Err(DecodeError::TooLarge { size: 5, limit: 4 })
    ));
    let nested = |levels: usize| {
        format!(
            r#"{{"content":{}{}}}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        )
    };
    assert!(read(&nested(100)).is_ok());
    assert!(matches!(
        read(&nested(1000)),
        Err(DecodeError::Malformed(_))
    ));
    assert!(matches!(
        read(&"[".repeat(1_000_000)),
        Err(DecodeError::Malformed(_))
    ));
}

#[test]
fn head_of_a_message_that_is_cut_off_names_it() {
    let text = r#"{"header":{"msg_id":"a","timestamp":1},"route":{"source":"s","resource":"r\",\"content\":"},"content":{"b":"#;
    let head = decode_head(text.as_bytes()).unwrap();
    assert_eq!(
        (head.header.msg_id.as_str(), head.content),
        ("a", Value::Null)
    );
    for text in ["", "xxxx", r#"{"header":{"msg_id":"a"#, r#"{"content":"#] {
        assert!(decode_head(text.as_bytes()).is_none(), "{text}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!("OK")),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("(Object|Err|ErrStatus|[a-z]{1,3})", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Known and unknown words, so that every arm of both decoders is reached.
fn any_message() -> impl Strategy<Value = Value> {
    let source = "(edgecontroller|devicecontroller|dynamiccontroller|policycontroller|taskmanager|router_eventbus|router_servicebus|cloudhub|edged|meta|metamanager|twin|bus|servicebus|metaserver|websocket||[a-z]{1,4})";
    let group = "(resource|meta|twin|user|hub|taskmanager|dynamiccontroller||[a-z]{1,4})";
    let operation = "(insert|update|delete|query|patch|get|response|error|upload|keepalive|publish|subscribe|start|applicationResponse|UpdateNodeActionStatus|upgrade|createvolume|null||GET)";
    let resource = "(|node|null|twin|membership|membership/detail|k8s/ca.crt|watchapp/sync|ignore/Application/ignore|device/a/b/twin/edge_updated|device/a/b/state/update|device/a/b/twin/cloud_updated|default/podstatus|task/1/node/n|operations.kubeedge.io/v1alpha2/nodeupgradejob/j/node/n|(default|null)/(pod|podpatch|podstatus|configmap|secret|serviceaccounttoken|node|nodepatch|nodestatus|lease|event|certificatesigningrequest|persistentvolume|volume|device|service)/x|[a-z/]{1,8})";
    let content = prop_oneof![
        any_json(),
        Just(Value::Null),
        Just(json!("OK")),
        Just(json!("ping"))
    ];
    (source, group, operation, resource, "(|parent)", "(|dest)", content).prop_map(
        |(source, group, operation, resource, parent, destination, content)| {
            let mut frame =
                json!({"header": {"msg_id": "id", "timestamp": 1}, "route": {}, "content": content});
            let fields = [
                ("source", source),
                ("destination", if parent.is_empty() { destination } else { String::new() }),
                ("group", group),
                ("operation", operation),
                ("resource", resource),
            ];
            for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
                frame["route"][name] = value.into();
            }
            if !parent.is_empty() {
                frame["header"]["parent_msg_id"] = parent.into();
            }
            frame
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = decode(&bytes, 48);
    }

    #[test]
    fn json_never_panics(value in any_json()) {
        if let Ok(message) = read(&value.to_string()) {
            let _ = (Down::from(message.clone()), Up::from(message));
        }
    }

    #[test]
    fn every_message_survives_both_vocabularies(frame in any_message()) {
        let message = read(&frame.to_string()).unwrap();
        let same = |message: Message| serde_json::from_str::<Value>(&encode(&message)).unwrap();
        prop_assert_eq!(same(message.clone()), frame.clone());
        prop_assert_eq!(same(Down::from(message.clone()).into()), frame.clone());
        prop_assert_eq!(same(Up::from(message).into()), frame);
    }
}
