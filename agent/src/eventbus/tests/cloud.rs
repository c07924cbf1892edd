//! Messages between the cloud and brokers: reports, uploads, rules.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use objectstore::{Page, Resource, Scope, Store};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::within;
use wire::{Down, Downstream, Message, Up, Upstream};

use super::{
    super::topics,
    brokers::{ExternalBroker, RestartableBroker},
    mapper::Mapper,
    node::{Node, device, internal, store},
    numbered_message, topic,
};
use crate::{edgehub::fake_cloud::FakeCloud, outbox};

/// The topic of a rule of the cloud.
pub(super) const RULE: &str = "default/up";
/// A topic that the cloud gets without a rule.
const ALWAYS: &str = "$hw/events/upload/always";
/// The interval of repeated publications.
const AGAIN: Duration = Duration::from_millis(50);

/// Returns the next message about devices or topics, decoded and raw.
async fn next_message(line: &FakeCloud) -> (Upstream, Message) {
    loop {
        let message = within("a message for the cloud", line.next()).await;
        let body = Up::from(message.clone()).body;
        if let Upstream::Device { .. }
        | Upstream::MembershipDetail(_)
        | Upstream::BusUpload { .. } = body
        {
            return (body, message);
        }
    }
}

/// Returns the next report: its resource, its content, and the message.
pub(super) async fn report(line: &FakeCloud) -> (String, Value, Message) {
    loop {
        if let (Upstream::Device { path, .. }, message) = next_message(line).await {
            return (
                path.as_str().to_owned(),
                message.content_json().unwrap(),
                message,
            );
        }
    }
}

pub(super) async fn upload(line: &FakeCloud) -> (String, Value) {
    loop {
        if let (Upstream::BusUpload { topic, payload }, _) = next_message(line).await {
            return (topic.as_str().to_owned(), payload);
        }
    }
}

async fn confirm(line: &FakeCloud, message: &Message) {
    let answer = Downstream::TwinConfirmed("OK".into())
        .into_message(1)
        .answering(&message.header.msg_id);
    line.say(answer).await;
}

pub(super) async fn say(line: &FakeCloud, body: Downstream) {
    line.say(Message::from(Down {
        header: Default::default(),
        body,
    }))
    .await;
}

async fn node(directory: &Path) -> (Node, FakeCloud, Mapper) {
    let (node, line) = Node::before(Some(internal(Some(directory))), None, store()).await;
    let mapper = Mapper::connect(node.bus.internal_address().await.unwrap(), "mapper").await;
    (node, line, mapper)
}

#[tokio::test]
async fn a_node_asks_for_its_devices_once_for_each_connection() {
    let directory = TempDir::new().unwrap();
    let (_node, mut line, _mapper) = node(directory.path()).await;
    line.up();
    let (Upstream::MembershipDetail(question), message) = next_message(&line).await else {
        panic!("it asks nothing")
    };
    let question: Value = serde_json::from_str(question.as_str().unwrap()).unwrap();
    assert_eq!(
        (&question["group_id"], &question["operation"]),
        (&json!("edge-1"), &json!("detail"))
    );
    confirm(&line, &message).await;
    let list = json!({"event_id": "l", "timestamp": 1, "devices": [{"id": "default/listed", "name": "listed"}]});
    say(&line, Downstream::MembershipDetail(list)).await;
    testkit::eventually("the device of the list", async || {
        let members = _node.devices.members().await.unwrap();
        members
            .iter()
            .any(|member| member.id.as_str() == "default/listed")
            .then_some(())
            .ok_or(members)
    })
    .await;
}

#[tokio::test]
async fn reported_values_are_repeated_until_they_are_confirmed() {
    let directory = TempDir::new().unwrap();
    let (node, mut line, mut mapper) = node(directory.path()).await;
    // before there is a cloud
    mapper
        .publish(&topic("default/d", "twin/update"), numbered_message(1))
        .await;
    mapper
        .wait_told(&topic("default/d", "twin/update/result"), "n1")
        .await;
    line.up();
    let (path, content, message) = report(&line).await;
    assert_eq!(path, "device/default/d/twin/edge_updated");
    let twin = &content["twin"]["temp"];
    assert_eq!(twin["actual_version"], json!({"cloud": 0, "edge": 1}));
    assert_eq!(
        (
            &twin["actual"]["value"],
            &twin["metadata"],
            &twin["optional"]
        ),
        (&json!("1"), &json!({"type": "float"}), &json!(true))
    );
    assert!(message.header.parent_msg_id.is_empty() && content["event_id"].is_string());
    // the connection breaks before the confirmation, and the value changes
    line.down();
    mapper
        .publish(&topic("default/d", "twin/update"), numbered_message(2))
        .await;
    mapper
        .wait_told(&topic("default/d", "twin/update/result"), "n2")
        .await;
    line.up();
    let (_, content, message) = report(&line).await;
    assert_eq!(
        content["twin"]["temp"]["actual"]["value"], "2",
        "the newest counts"
    );
    confirm(&line, &message).await;
    // what is confirmed is not reported again, later changes are
    node.devices
        .report_state(&device(), "online")
        .await
        .unwrap();
    let (path, content, message) = report(&line).await;
    assert_eq!(
        (path.as_str(), &content["device"]["state"]),
        ("device/default/d/state/update", &json!("online"))
    );
    assert!(message.content.is_string(), "as EdgeCore sends it");
    confirm(&line, &message).await;
    mapper
        .publish(&topic("default/d", "twin/update"), numbered_message(21))
        .await;
    let (_, content, _) = report(&line).await;
    let past = node.devices.history(&device()).await.unwrap();
    assert_eq!(
        past.first().map(|past| past.value.as_deref()),
        Some(Some("1"))
    );
    // the desired value is reached now
    assert_eq!(content["twin"]["temp"]["expected"]["value"], "21");
    assert_eq!(
        content["twin"]["temp"]["expected_version"],
        json!({"cloud": 1, "edge": 0})
    );
}

#[tokio::test]
async fn topics_of_applications_go_to_the_cloud_as_they_are() {
    let directory = TempDir::new().unwrap();
    let (_node, mut line, mut mapper) = node(directory.path()).await;
    // while there is no cloud they wait
    mapper.publish_text("$hw/events/upload/early", "1").await;
    line.up();
    assert_eq!(
        upload(&line).await,
        ("$hw/events/upload/early".into(), json!("1"))
    );
    for (topic, payload) in [
        ("SYS/dis/upload_records", "{\"a\":1}"),
        ("ns/user/x/y", "any text"),
        ("$hw/events/upload/b", ""),
    ] {
        mapper.publish_text(topic, payload).await;
        assert_eq!(upload(&line).await, (topic.into(), json!(payload)));
    }
}

/// Sends a message as CloudCore's router does, in the recorded form.
async fn router(line: &FakeCloud, operation: &str, resource: &str, content: Value) {
    let message = json!({
        "header": {"msg_id": "0a3c5bd7-02c5-4f76-8dd1-e2cb90163873", "timestamp": 1_795_231_219_726_i64},
        "route": {"source": "router_eventbus", "group": "user", "operation": operation, "resource": resource},
        "content": content,
    });
    line.say(
        wire::json::decode(message.to_string().as_bytes(), wire::json::DEFAULT_LIMIT).unwrap(),
    )
    .await;
}

/// Returns the answer to a publication of the cloud: whether it failed, and "OK" or the reason.
async fn publish_result(line: &FakeCloud) -> (bool, Value) {
    loop {
        let message = within("an answer to a publication", line.next()).await;
        let parent = message.header.parent_msg_id.clone();
        if let Upstream::BusAnswer {
            failed, content, ..
        } = Up::from(message).body
        {
            assert_eq!(parent, "0a3c5bd7-02c5-4f76-8dd1-e2cb90163873");
            return (failed, content);
        }
    }
}

/// Publishes until the cloud gets it: not before the topic is subscribed.
async fn until_heard(line: &FakeCloud, mapper: &mut Mapper, topic: &str, payload: &str) {
    let wanted = (topic.to_owned(), json!(payload));
    within("a message on a rule's topic", async {
        loop {
            mapper.publish_text(topic, payload).await;
            let heard = async { while upload(line).await != wanted {} };
            if tokio::time::timeout(AGAIN, heard).await.is_ok() {
                return;
            }
        }
    })
    .await;
}

/// Returns whether the cloud gets the rule's topic; a later message is always sent.
async fn is_heard(line: &FakeCloud, mapper: &mut Mapper, payload: &str) -> bool {
    for topic in [RULE, ALWAYS] {
        mapper.publish_text(topic, payload).await;
    }
    let mut heard = Vec::new();
    while !heard.contains(&ALWAYS.to_owned()) {
        let (topic, found) = upload(line).await;
        heard.extend((found == payload).then_some(topic));
    }
    heard.contains(&RULE.to_owned())
}

#[tokio::test]
async fn rules_listen_and_publish() {
    let directory = TempDir::new().unwrap();
    let store = store();
    let (node, mut line) =
        Node::before(Some(internal(Some(directory.path()))), None, store.clone()).await;
    let mut mapper = Mapper::connect(node.bus.internal_address().await.unwrap(), "mapper").await;
    line.up();
    // a rule cannot publish as a device
    router(&line, "publish", "$hw/events/rule", json!("{\"hello\":0}")).await;
    let (failed, why) = publish_result(&line).await;
    assert!(
        failed && why.as_str().unwrap().contains("begin with $"),
        "{why}"
    );
    router(&line, "publish", "rules/down", json!("{\"hello\":1}")).await;
    assert_eq!(publish_result(&line).await, (false, json!("OK")));
    assert_eq!(
        mapper.until("rules/down", |_| true).await,
        json!({"hello": 1})
    );
    for topic in ["bad/#/filter", RULE] {
        router(&line, "subscribe", topic, Value::Null).await;
    }
    until_heard(&line, &mut mapper, RULE, "x").await;
    node.kill().await;
    // an agent that starts again knows the rule
    let (node, mut line) = Node::before(Some(internal(Some(directory.path()))), None, store).await;
    let mut mapper = Mapper::connect(node.bus.internal_address().await.unwrap(), "mapper").await;
    line.up();
    until_heard(&line, &mut mapper, RULE, "y").await;
}

/// The external broker forgets all subscriptions when it ends.
#[tokio::test]
async fn a_rule_is_listened_to_after_agent_and_broker_have_started_again() {
    let mut beside = ExternalBroker::start(None).await;
    let kept: Arc<dyn Store> = store();
    let (mut node, mut line) = Node::before(None, Some(beside.external()), kept.clone()).await;
    let mut mapper = Mapper::connect(beside.address, "mapper").await;
    line.up();
    router(&line, "subscribe", RULE, Value::Null).await;
    until_heard(&line, &mut mapper, RULE, "first").await;
    assert_eq!(
        topics::TOPICS.load(&kept).await.unwrap(),
        BTreeSet::from([RULE.to_owned()])
    );
    beside.restart().await;
    until_heard(&line, &mut mapper, RULE, "the broker is back").await;
    for restarts_broker in [false, true] {
        node.kill().await;
        if restarts_broker {
            beside.restart().await;
        }
        (node, line) = Node::before(None, Some(beside.external()), kept.clone()).await;
        line.up();
        let payload = format!("the agent is back, the broker too: {restarts_broker}");
        until_heard(&line, &mut mapper, RULE, &payload).await;
    }
    router(&line, "unsubscribe", RULE, Value::Null).await;
    let mut tries = 0;
    while is_heard(&line, &mut mapper, &format!("try {tries}")).await {
        tries += 1;
    }
    assert_eq!(topics::TOPICS.load(&kept).await.unwrap(), BTreeSet::new());
    node.kill().await;
    beside.restart().await;
    let (_node, mut line) = Node::before(None, Some(beside.external()), kept).await;
    line.up();
    until_heard(&line, &mut mapper, ALWAYS, "back").await;
    assert!(!is_heard(&line, &mut mapper, "last").await);
}

#[tokio::test]
async fn uploads_that_wait_survive_a_kill_of_the_node() {
    const UPLOADS: usize = 150;
    let store = store();
    let (node, _line) = Node::before(Some(internal(None)), None, store.clone()).await;
    let mut mapper = Mapper::connect(node.bus.internal_address().await.unwrap(), "mapper").await;
    for number in 0..UPLOADS {
        mapper.publish(ALWAYS, json!(number)).await;
    }
    testkit::eventually("all on disk", async || {
        let scope = Scope {
            resource: Resource::new(outbox::GROUP, "uploads"),
            namespace: None,
        };
        let chunks = store.list(&scope, &Page::default()).await.unwrap().items;
        let messages = chunks
            .iter()
            .map(|chunk| chunk.value().unwrap()["messages"].as_array().unwrap().len());
        let messages: usize = messages.sum();
        (messages == UPLOADS).then_some(()).ok_or(messages)
    })
    .await;
    node.kill().await;
    let (_node, mut line) = Node::before(Some(internal(None)), None, store).await;
    line.up();
    for number in 0..UPLOADS {
        assert_eq!(
            upload(&line).await,
            (ALWAYS.into(), json!(number.to_string()))
        );
    }
}
