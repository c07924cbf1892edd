//! What goes between the cloud and brokers: reports, uploads, rules.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use wire::{Down, Downstream, Message, Up, Upstream};

use super::{
    mapper::Mapper,
    node::{Node, device, internal, store, within},
    numbered, topic,
};
use crate::edgehub::line::Line;

/// The next message about devices or topics; what it says, and itself.
async fn heard(line: &Line) -> (Upstream, Message) {
    loop {
        let message = within("a message for the cloud", line.next()).await;
        let body = Up::from(message.clone()).body;
        if let Upstream::Device { .. } | Upstream::MembershipDetail(_) | Upstream::BusUpload { .. } = body {
            return (body, message);
        }
    }
}

/// The next report; what of, its content, and itself.
pub(super) async fn report(line: &Line) -> (String, Value, Message) {
    loop {
        if let (Upstream::Device { path, .. }, message) = heard(line).await {
            return (path.as_str().to_owned(), message.content_json().unwrap(), message);
        }
    }
}

pub(super) async fn upload(line: &Line) -> (String, Value) {
    loop {
        if let (Upstream::BusUpload { topic, payload }, _) = heard(line).await {
            return (topic.as_str().to_owned(), payload);
        }
    }
}

async fn confirm(line: &Line, message: &Message) {
    let answer = Downstream::TwinConfirmed("OK".into()).into_message(1).answering(&message.header.msg_id);
    line.say(answer).await;
}

pub(super) async fn say(line: &Line, body: Downstream) {
    line.say(Message::from(Down { header: Default::default(), body })).await;
}

async fn node(directory: &Path) -> (Node, Line, Mapper) {
    let (node, line) = Node::before(Some(internal(Some(directory))), None, store()).await;
    let mapper = Mapper::connect(node.bus.internal_address().await.unwrap(), "mapper").await;
    (node, line, mapper)
}

#[tokio::test]
async fn a_node_asks_for_its_devices_once_for_each_connection() {
    let directory = TempDir::new().unwrap();
    let (_node, mut line, _mapper) = node(directory.path()).await;
    line.up();
    let (Upstream::MembershipDetail(question), message) = heard(&line).await else {
        panic!("it asks nothing")
    };
    let question: Value = serde_json::from_str(question.as_str().unwrap()).unwrap();
    assert_eq!((&question["group_id"], &question["operation"]), (&json!("edge-1"), &json!("detail")));
    confirm(&line, &message).await;
    let list =
        json!({"event_id": "l", "timestamp": 1, "devices": [{"id": "default/listed", "name": "listed"}]});
    say(&line, Downstream::MembershipDetail(list)).await;
    super::node::eventually("the device of the list", async || {
        let members = _node.devices.members().await.unwrap();
        members.iter().any(|member| member.id.as_str() == "default/listed").then_some(()).ok_or(members)
    })
    .await;
}

#[tokio::test]
async fn what_is_reported_is_told_until_it_is_confirmed() {
    let directory = TempDir::new().unwrap();
    let (node, mut line, mut mapper) = node(directory.path()).await;
    // before there is a cloud
    mapper.publish(&topic("default/d", "twin/update"), numbered(1)).await;
    mapper.told(&topic("default/d", "twin/update/result"), "n1").await;
    line.up();
    let (path, content, message) = report(&line).await;
    assert_eq!(path, "device/default/d/twin/edge_updated");
    let twin = &content["twin"]["temp"];
    assert_eq!(twin["actual_version"], json!({"cloud": 0, "edge": 1}));
    assert_eq!(
        (&twin["actual"]["value"], &twin["metadata"], &twin["optional"]),
        (&json!("1"), &json!({"type": "float"}), &json!(true))
    );
    assert!(message.header.parent_msg_id.is_empty() && content["event_id"].is_string());
    // the connection breaks before the confirmation, and the value changes
    line.down();
    mapper.publish(&topic("default/d", "twin/update"), numbered(2)).await;
    mapper.told(&topic("default/d", "twin/update/result"), "n2").await;
    line.up();
    let (_, content, message) = report(&line).await;
    assert_eq!(content["twin"]["temp"]["actual"]["value"], "2", "the newest counts");
    confirm(&line, &message).await;
    // what is confirmed is not told again, what comes after it is
    node.devices.report_state(&device(), "online").await.unwrap();
    let (path, content, message) = report(&line).await;
    assert_eq!(
        (path.as_str(), &content["device"]["state"]),
        ("device/default/d/state/update", &json!("online"))
    );
    assert!(message.content.is_string(), "as EdgeCore sends it");
    confirm(&line, &message).await;
    mapper.publish(&topic("default/d", "twin/update"), numbered(21)).await;
    let (_, content, _) = report(&line).await;
    let past = node.devices.history(&device()).await.unwrap();
    assert_eq!(past.first().map(|past| past.value.as_deref()), Some(Some("1")));
    // it is as it is wanted now
    assert_eq!(content["twin"]["temp"]["expected"]["value"], "21");
    assert_eq!(content["twin"]["temp"]["expected_version"], json!({"cloud": 1, "edge": 0}));
}

#[tokio::test]
async fn topics_of_applications_go_to_the_cloud_as_they_are() {
    let directory = TempDir::new().unwrap();
    let (_node, mut line, mut mapper) = node(directory.path()).await;
    // while there is no cloud they wait
    mapper.publish_text("$hw/events/upload/early", "1").await;
    line.up();
    assert_eq!(upload(&line).await, ("$hw/events/upload/early".into(), json!("1")));
    for (topic, payload) in
        [("SYS/dis/upload_records", "{\"a\":1}"), ("ns/user/x/y", "any text"), ("$hw/events/upload/b", "")]
    {
        mapper.publish_text(topic, payload).await;
        assert_eq!(upload(&line).await, (topic.into(), json!(payload)));
    }
}

#[tokio::test]
async fn rules_listen_and_publish() {
    let directory = TempDir::new().unwrap();
    let store = store();
    let (node, mut line) = Node::before(Some(internal(Some(directory.path()))), None, store.clone()).await;
    let mut mapper = Mapper::connect(node.bus.internal_address().await.unwrap(), "mapper").await;
    line.up();
    say(&line, Downstream::Publish { topic: "$hw/events/rule".into(), payload: json!("{\"hello\":1}") })
        .await;
    assert_eq!(mapper.until("$hw/events/rule", |_| true).await, json!({"hello": 1}));
    for topic in ["bad/#/filter", "default/up"] {
        say(&line, Downstream::Subscription { on: true, topic: topic.into(), content: Value::Null }).await;
    }
    // until it is subscribed nobody hears it
    let first = loop {
        mapper.publish_text("default/up", "x").await;
        tokio::select! {
            first = upload(&line) => break first,
            () = tokio::task::yield_now() => {}
        }
    };
    assert_eq!(first, ("default/up".into(), json!("x")));
    node.kill().await;
    // an agent that starts again knows the rule
    let (node, mut line) = Node::before(Some(internal(Some(directory.path()))), None, store).await;
    let mut mapper = Mapper::connect(node.bus.internal_address().await.unwrap(), "mapper").await;
    line.up();
    let again = loop {
        mapper.publish_text("default/up", "y").await;
        tokio::select! {
            again = upload(&line) => break again,
            () = tokio::task::yield_now() => {}
        }
    };
    assert_eq!(again.0, "default/up");
}
