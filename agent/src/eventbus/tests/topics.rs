//! Every topic, payloads in and out, by `mosquitto_pub` and `mosquitto_sub`: one table for the internal broker and for an
//! external mosquitto.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use wire::{Down, Downstream, Message};

use super::{
    super::External,
    brokers::RestartableBroker,
    cloud::{RULE, report, say, upload},
    mosquitto::{Mosquitto, Subscriber, publish},
    node::{Node, device, internal, store},
};
use crate::{config::InternalAccess, edgehub::fake_cloud::FakeCloud};

const D: &str = "$hw/events/device/default/d";
const NODE: &str = "$hw/events/node/edge-1/membership";

/// How long one publication may take to the cloud before another one follows.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(200);

/// A step, and what is expected of it.
enum Step {
    /// A client publishes on this topic.
    Says(String, String),
    /// The cloud sends this.
    Cloud(Downstream),
    /// This is published on this topic next. `"*"` stands for any value.
    Hears(String, Value),
    /// An answer with this code on this topic, whose reason contains these words.
    Refused(String, u16, &'static str),
    /// The cloud gets this next: topic and payload.
    Uploads(&'static str, Value),
    /// A client publishes on this topic until the cloud gets it: the agent has subscribed to it then.
    Until(&'static str),
}

use Step::{Cloud, Hears, Refused, Says, Until, Uploads};

fn says(topic: &str, payload: impl ToString) -> Step {
    Says(topic.to_owned(), payload.to_string())
}

fn value_row(value: &str) -> Value {
    json!({"value": value, "metadata": {"timestamp": "*"}})
}

fn twin(expected: &str, actual: &str) -> Value {
    json!({"expected": value_row(expected), "actual": value_row(actual), "optional": true, "metadata": {"type": "float"}})
}

/// Reference: KubeEdge's documents, and messages of EdgeCore 1.23. Each row is one topic.
fn table() -> impl Iterator<Item = Step> {
    twins()
        .into_iter()
        .chain(memberships())
        .chain(uploads_and_rules())
        .chain(refusals())
}

fn on(what: &str) -> String {
    format!("{D}/{what}")
}

fn twins() -> Vec<Step> {
    let first =
        json!({"expected": value_row("21"), "optional": true, "metadata": {"type": "float"}});
    vec![
        // twin/update, and everything that follows
        says(
            &on("twin/update"),
            r#"{"event_id":"x1","timestamp":1,"twin":{"temp":{"expected":{"value":"20"},"actual":{"value":"12"},"metadata":{"type":"float"}}}}"#,
        ),
        Hears(
            on("twin/update/result"),
            json!({"event_id": "x1", "timestamp": "*", "twin": {"temp": twin("20", "12")}}),
        ),
        Hears(
            on("twin/update/document"),
            json!({"event_id": "x1", "timestamp": "*", "twin": {"temp": {"last": first, "current": twin("20", "12")}}}),
        ),
        Hears(
            on("twin/update/delta"),
            json!({"event_id": "*", "timestamp": "*", "twin": {"temp": twin("20", "12")}, "delta": {"temp": "20"}}),
        ),
        // twin/get
        says(&on("twin/get"), r#"{"event_id":"x2","timestamp":1}"#),
        Hears(
            on("twin/get/result"),
            json!({"event_id": "x2", "timestamp": "*", "twin": {"temp": twin("20", "12")}}),
        ),
        // the type name of mappers for a value that was read; the type is the model's
        says(
            &on("twin/update"),
            r#"{"event_id":"x2a","timestamp":1,"twin":{"temp":{"actual":{"value":"12","metadata":{"timestamp":1}},"metadata":{"type":"Updated"}}}}"#,
        ),
        Hears(
            on("twin/update/result"),
            json!({"event_id": "x2a", "timestamp": "*", "twin": {"temp": {"actual": value_row("12"), "optional": true, "metadata": {"type": "float"}}}}),
        ),
        // the form without a namespace
        says(
            "$hw/events/device/d/twin/get",
            r#"{"event_id":"x2b","timestamp":1}"#,
        ),
        Hears(
            "$hw/events/device/d/twin/get/result".into(),
            json!({"event_id": "x2b", "timestamp": "*", "twin": {"temp": twin("20", "12")}}),
        ),
        // state/update
        says(
            &on("state/update"),
            r#"{"event_id":"x4","timestamp":1,"state":"online"}"#,
        ),
        Hears(
            on("state/update/result"),
            json!({"event_id": "x4", "timestamp": "*", "device": {"name": "d", "state": "online", "lastOnlineTime": "*"}}),
        ),
    ]
}

fn memberships() -> Vec<Step> {
    let member = |value: &str| {
        let attributes =
            json!({"site": {"value": value, "optional": true, "metadata": {"type": "string"}}});
        let added = json!([{"id": "default/e", "name": "e", "attributes": attributes}]);
        Cloud(Downstream::Membership(
            json!({"event_id": "m", "timestamp": 1, "added_devices": added, "removed_devices": null}),
        ))
    };
    vec![
        // membership/get
        says(&format!("{NODE}/get"), r#"{"event_id":"x3","timestamp":1}"#),
        Hears(
            format!("{NODE}/get/result"),
            json!({"event_id": "x3", "timestamp": "*", "devices": [{"id": "default/d", "name": "d", "state": "online"}]}),
        ),
        // the same with a tag, the same in detail, and what is not available
        says(
            &format!("{NODE}/get/tag"),
            r#"{"event_id":"x3b","timestamp":1}"#,
        ),
        Hears(
            format!("{NODE}/get/result"),
            json!({"event_id": "x3b", "timestamp": "*", "devices": "*"}),
        ),
        says(
            &format!("{NODE}/detail"),
            r#"{"event_id":"x3c","timestamp":1}"#,
        ),
        Hears(
            format!("{NODE}/detail/result"),
            json!({"event_id": "x3c", "timestamp": "*", "devices": "*"}),
        ),
        says(
            "$hw/events/node/edge-1/authInfo/get",
            r#"{"event_id":"x3d","timestamp":1}"#,
        ),
        Refused(
            "$hw/events/node/edge-1/authInfo/get/result".into(),
            404,
            "issues no credentials",
        ),
        // membership/updated, and a device's attributes
        member("north"),
        Hears(
            format!("{NODE}/updated"),
            json!({"event_id": "m", "timestamp": "*", "added_devices": [{"id": "default/e", "name": "e", "attributes": "*"}], "removed_devices": null}),
        ),
        member("south"),
        Hears(
            "$hw/events/device/default/e/updated".into(),
            json!({"event_id": "*", "timestamp": "*", "attributes": {"site": {"value": "south", "optional": true, "metadata": {"type": "string"}}}}),
        ),
    ]
}

fn uploads_and_rules() -> Vec<Step> {
    vec![
        // uploads, verbatim
        says("$hw/events/upload/a/b", "any text"),
        Uploads("$hw/events/upload/a/b", json!("any text")),
        says("SYS/dis/upload_records", r#"{"a":1}"#),
        Uploads("SYS/dis/upload_records", json!("{\"a\":1}")),
        says("SYS/dis/upload_records/x", "2"),
        Uploads("SYS/dis/upload_records/x", json!("2")),
        says("default/user/x/y", ""),
        Uploads("default/user/x/y", json!("")),
        // messages of mappers to applications stay between them
        says("$ke/events/device/d/data/update", r#"{"event_id":"x5"}"#),
        Hears(
            "$ke/events/device/d/data/update".into(),
            json!({"event_id": "x5"}),
        ),
        // rules: a target, and sources; a topic that the agent subscribes to anyway comes once
        Cloud(Downstream::Publish {
            topic: "default/down".into(),
            payload: json!("{\"hello\":1}"),
        }),
        Hears("default/down".into(), json!({"hello": 1})),
        Cloud(Downstream::Subscription {
            on: true,
            topic: "default/user/z".into(),
            content: Value::Null,
        }),
        Cloud(Downstream::Subscription {
            on: true,
            topic: RULE.into(),
            content: Value::Null,
        }),
        Until(RULE),
        says("default/user/z", "once"),
        Uploads("default/user/z", json!("once")),
        says("$hw/events/upload/end", "1"),
        Uploads("$hw/events/upload/end", json!("1")),
    ]
}

fn refusals() -> Vec<Step> {
    let update = |body: &str| {
        says(
            &on("twin/update"),
            format!("{{\"event_id\":\"x\",\"timestamp\":1,\"twin\":{body}}}"),
        )
    };
    let refused = |code, why| Refused(on("twin/update/result"), code, why);
    vec![
        // refused requests
        says(&on("twin/update"), "{"),
        refused(400, "cannot parse"),
        says(&on("twin/update"), r#"{"event_id":"x"}"#),
        refused(400, "under \"twin\""),
        update(r#"{"pressure":{"actual":{"value":"1"}}}"#),
        refused(400, "pressure is no property"),
        update(r#"{"temp":{"actual":{"value":"warm"}}}"#),
        refused(400, "is of type float"),
        update(r#"{"temp":{"actual":{"value":"100.5"}}}"#),
        refused(400, "at most 100"),
        update(r#"{"temp":{"actual":{"value":"-1"}}}"#),
        refused(400, "at least 0"),
        update(r#"{"temp":{"actual":{"value":20}}}"#),
        refused(400, "cannot parse"),
        update(r#"{"temp":{"actual":{"value":""}}}"#),
        refused(
            400,
            "temp is of type float, and \"\" is not a finite number",
        ),
        says(
            &on("twin/update"),
            format!("{{\"event_id\":\"{}\"}}", "x".repeat(300 * 1024)),
        ),
        refused(413, "at most 262144 are read"),
        says(
            "$hw/events/device/default/nodev/twin/get",
            r#"{"event_id":"x5","timestamp":1}"#,
        ),
        Refused(
            "$hw/events/device/default/nodev/twin/get/result".into(),
            404,
            "Device default/nodev not found while getting twin",
        ),
        says(
            "$hw/events/device/default/nodev/twin/update",
            r#"{"event_id":"x6","twin":{}}"#,
        ),
        Refused(
            "$hw/events/device/default/nodev/twin/update/result".into(),
            404,
            "Device default/nodev not found",
        ),
        says(
            "$hw/events/device/default/nodev/state/update",
            r#"{"event_id":"x7","state":"ok"}"#,
        ),
        Refused(
            "$hw/events/device/default/nodev/state/update/result".into(),
            404,
            "Device default/nodev not found",
        ),
        says(&on("state/update"), r#"{"event_id":"x8","state":"tired"}"#),
        Refused(on("state/update/result"), 400, "is no state"),
        says(&format!("{NODE}/get"), "no json"),
        Refused(format!("{NODE}/get/result"), 400, "cannot parse"),
    ]
}

/// Returns whether a value is as expected.
fn fits(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(any), found) if any == "*" => !found.is_null(),
        (Value::Object(expected), Value::Object(found)) => {
            expected.len() == found.len()
                && expected
                    .iter()
                    .all(|(key, value)| found.get(key).is_some_and(|found| fits(value, found)))
        }
        (Value::Array(expected), Value::Array(found)) => {
            expected.len() == found.len()
                && expected
                    .iter()
                    .zip(found)
                    .all(|(expected, found)| fits(expected, found))
        }
        (expected, found) => expected == found,
    }
}

async fn run(node: &Node, line: &mut FakeCloud, address: SocketAddr) {
    line.up();
    let mut hears = Subscriber::at(address).await;
    let mut last = None;
    for step in table() {
        match step {
            Says(topic, payload) => {
                assert!(publish(address, &topic, &payload, &[]).await, "{topic}")
            }
            Cloud(body) => {
                line.say(Message::from(Down {
                    header: Default::default(),
                    body,
                }))
                .await
            }
            Hears(topic, expected) => {
                let mut found = hears.next(&topic).await;
                // the desired value may have been published again in between
                while topic.ends_with("/delta") && !fits(&expected, &found) {
                    found = hears.next(&topic).await;
                }
                assert!(fits(&expected, &found), "{topic}: {found}");
            }
            Refused(topic, code, why) => {
                let found = hears.next(&topic).await;
                let reason = found["reason"].as_str().unwrap_or_default();
                assert!(
                    found["code"] == code && reason.contains(why),
                    "{topic}: {found}"
                );
            }
            Uploads(topic, payload) => {
                let mut told = upload(line).await;
                // what the cloud takes late comes again from the disk
                while told.0 == RULE || last.as_ref() == Some(&told) {
                    told = upload(line).await;
                }
                assert_eq!(told, (topic.to_owned(), payload));
                last = Some(told);
            }
            Until(topic) => loop {
                assert!(publish(address, topic, "x", &[]).await);
                let told = tokio::time::timeout(PUBLISH_INTERVAL, upload(line)).await;
                if told.is_ok_and(|(on, _)| on == topic) {
                    break;
                }
            },
        }
    }
    // nothing that was refused has changed
    let twin = node.devices.twin(&device()).await.unwrap();
    assert_eq!(
        twin["temp"]
            .clone()
            .unwrap()
            .actual
            .unwrap()
            .value
            .as_deref(),
        Some("12")
    );
    let past = node.devices.history(&device()).await.unwrap();
    let past: Vec<_> = past
        .iter()
        .map(|past| (past.property.as_str(), past.value.as_deref()))
        .collect();
    assert_eq!(past, [("temp", Some("12"))]);
}

#[tokio::test]
async fn every_topic_at_the_internal_broker() {
    let directory = tempfile::tempdir().unwrap();
    let (node, mut line) =
        Node::before(Some(internal(Some(directory.path()))), None, store()).await;
    let address = node.bus.internal_address().await.unwrap();
    run(&node, &mut line, address).await;
}

#[tokio::test]
async fn every_topic_at_mosquitto() {
    let mosquitto = Mosquitto::start().await;
    let (node, mut line) = Node::before(None, Some(mosquitto.external()), store()).await;
    node.until_up().await;
    run(&node, &mut line, mosquitto.address()).await;
}

/// A twin of the cloud with an older version is answered with the node's state.
#[tokio::test]
async fn a_version_that_went_back_is_answered_with_the_newer_one() {
    let directory = tempfile::tempdir().unwrap();
    let (_node, mut line) =
        Node::before(Some(internal(Some(directory.path()))), None, store()).await;
    line.up();
    let wants = |value: &str, cloud: i64| {
        let twin = json!({"temp": {"expected": {"value": value}, "metadata": {"type": "float"}, "expected_version": {"cloud": cloud, "edge": 0}}});
        Downstream::TwinDesired {
            device: "default/d".into(),
            update: json!({"event_id": "c", "timestamp": 1, "twin": twin}),
        }
    };
    say(&line, wants("30", 7)).await;
    say(&line, wants("40", 6)).await;
    let (path, content, _) = report(&line).await;
    assert_eq!(path, "device/default/d/twin/edge_updated");
    let twin = &content["twin"]["temp"];
    assert_eq!(
        (&twin["expected"]["value"], &twin["expected_version"]),
        (&json!("30"), &json!({"cloud": 7, "edge": 0}))
    );
}

/// Users, and topics that are theirs alone, by `mosquitto_pub`.
#[tokio::test]
async fn a_device_publishes_its_own_topics_only() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let passwords = directory.path().join("passwords");
    std::fs::write(&passwords, "d:secret\ne:other\n").unwrap();
    std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(0o600)).unwrap();
    let rule = |filter: &str| mqtt::Rule {
        user: None,
        action: mqtt::Action::All,
        filter: filter.into(),
        allow: true,
    };
    let access = InternalAccess {
        password_file: Some(passwords),
        anonymous: false,
        rules: vec![rule("$hw/events/device/default/%u/#")],
    };
    let broker = super::Internal {
        access: Some(access),
        ..internal(Some(directory.path()))
    };
    let node = Node::start(Some(broker), None::<External>, store()).await;
    let address = node.bus.internal_address().await.unwrap();
    let update = |value: &str| {
        format!(r#"{{"event_id":"x","twin":{{"temp":{{"actual":{{"value":"{value}"}}}}}}}}"#)
    };
    let topic = format!("{D}/twin/update");
    assert!(!publish(address, &topic, &update("1"), &[]).await, "nobody");
    assert!(
        !publish(address, &topic, &update("2"), &["-u", "d", "-P", "wrong"]).await,
        "a wrong password"
    );
    publish(
        address,
        &topic,
        &update("3"),
        &["-u", "e", "-P", "other", "-V", "mqttv5"],
    )
    .await;
    assert!(publish(address, &topic, &update("4"), &["-u", "d", "-P", "secret"]).await);
    testkit::eventually("the value of its own device", async || {
        let past = node.devices.history(&device()).await.unwrap();
        let values: Vec<_> = past.iter().filter_map(|past| past.value.clone()).collect();
        (values == ["4"]).then_some(()).ok_or(values)
    })
    .await;
    assert_eq!(
        node.devices
            .counts()
            .get(crate::devicetwin::RequestOutcome::Done),
        1
    );
}
