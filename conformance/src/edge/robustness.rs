//! Unknown, damaged, large and many messages, and lost connections.

use std::{sync::Arc, time::Duration};

use peer::{Failure, ensure, fail, now_ms};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite;
use wire::{Answer, Change, Downstream, Group, Message, ObjectResp, Operation, ResourcePath};

use super::{
    pods::{container_id, start},
    state::{CONNECT_DEADLINE, Cloud},
};

fn map(name: &str, data: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "data": {"key": data}})
}

/// Delivers a ConfigMap, to see that the edge still works.
async fn is_alive(cloud: &Cloud, name: &str) -> Result<(), Failure> {
    let path = format!("default/configmap/{name}");
    cloud.deliver(Change::Insert, &path, map(name, "x")).await?;
    Ok(())
}

fn sessions(cloud: &Cloud) -> usize {
    cloud.state.lock().sessions.len()
}

pub(super) async fn unknown_kind(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let object = json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "x", "namespace": "default"}});
    cloud
        .deliver(Change::Insert, "default/widget/x", object)
        .await?;
    Ok(())
}

pub(super) async fn unknown_messages(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let before = sessions(&cloud);
    let mut of = Vec::new();
    for change in [
        (|message: &mut Message| message.route.group = Group::from("conformance".to_owned()))
            as fn(&mut Message),
        |message| message.route.operation = Operation::from("conformance".to_owned()),
        |message| message.route.resource = ResourcePath::from("x".to_owned()),
        |message| message.route.resource = ResourcePath::default(),
    ] {
        let mut message = Cloud::message_of(
            Change::Update,
            "default/configmap/unknown",
            map("unknown", "x"),
        );
        change(&mut message);
        of.push(message);
    }
    for message in &of {
        cloud.send(message).await?;
    }
    is_alive(&cloud, "after-unknown").await?;
    let after = sessions(&cloud);
    ensure!(before == after, "the edge ended its session");
    Ok(())
}

pub(super) async fn late_answer(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let before = sessions(&cloud);
    let answer = Downstream::Answer {
        path: ResourcePath::from("default/configmap/late".to_owned()),
        answer: Answer::Response(ObjectResp::ok(map("late", "x"))),
    };
    let answer = answer.into_message(now_ms()).answering("nobody");
    cloud.send(&answer).await?;
    is_alive(&cloud, "after-late").await?;
    let after = sessions(&cloud);
    ensure!(before == after, "the edge ended its session");
    Ok(())
}

pub(super) async fn binary(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let path = "default/configmap/binary";
    let object = cloud.store(path, map("binary", "x"));
    let message = Cloud::message_of(Change::Insert, path, object);
    let (mark, id) = (cloud.mark(), message.header.msg_id.clone());
    let frame = wire::json::encode(&message).into_bytes();
    cloud
        .send_frame(tungstenite::Message::binary(frame))
        .await?;
    let deadline = Duration::from_secs(30);
    cloud
        .expect("the acknowledgement", (mark, deadline), |one| {
            one.header.parent_msg_id == id
        })
        .await?;
    Ok(())
}

pub(super) async fn large(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let data = "x".repeat(900 * 1024);
    cloud
        .deliver(
            Change::Insert,
            "default/configmap/large",
            map("large", &data),
        )
        .await?;
    Ok(())
}

pub(super) async fn burst(cloud: Arc<Cloud>) -> Result<(), Failure> {
    const OBJECTS: usize = 80;
    let mark = cloud.mark();
    let mut ids = Vec::new();
    for number in 0..OBJECTS {
        let (name, path) = (
            format!("burst-{number}"),
            format!("default/configmap/burst-{number}"),
        );
        let object = cloud.store(&path, map(&name, "x"));
        let message = Cloud::message_of(Change::Insert, &path, object);
        cloud.send(&message).await?;
        ids.push(message.header.msg_id);
    }
    for (number, id) in ids.iter().enumerate() {
        let what = format!("the acknowledgement of object {number} of {OBJECTS}");
        cloud
            .expect(&what, (mark, Duration::from_secs(60)), |one| {
                one.header.parent_msg_id == *id
            })
            .await?;
    }
    Ok(())
}

pub(super) async fn malformed_json(cloud: Arc<Cloud>) -> Result<(), Failure> {
    for (number, text) in [
        "x",
        "{\"header\":",
        "[]",
        "null",
        "{\"header\":1,\"route\":2}",
    ]
    .iter()
    .enumerate()
    {
        cloud.send_frame(tungstenite::Message::text(*text)).await?;
        // an edge may end the session, which it does not notice at once
        tokio::time::sleep(Duration::from_secs(1)).await;
        is_alive(&cloud, &format!("after-malformed-{number}")).await?;
    }
    Ok(())
}

pub(super) async fn bad_objects(cloud: Arc<Cloud>) -> Result<(), Failure> {
    for (number, (path, object)) in [
        ("default/pod/bad-1", json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "bad-1", "namespace": "default"}})),
        ("default/pod/bad-2", json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "bad-2", "namespace": "default"}, "spec": {"containers": 7}})),
        ("default/configmap/bad-3", json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "bad-3", "namespace": "default"}, "data": [1]})),
        ("default/device/bad-4", json!({"kind": "Device", "metadata": {"name": "bad-4", "namespace": "default"}, "spec": "x"})),
    ]
    .into_iter()
    .enumerate()
    {
        let message = Cloud::message_of(Change::Insert, path, cloud.store(path, object));
        // whether it is acknowledged is up to the edge
        cloud.send(&message).await?;
        is_alive(&cloud, &format!("after-bad-{number}")).await?;
    }
    Ok(())
}

/// Closes the connection, and waits until the edge has connected again.
async fn reconnect(cloud: &Cloud) -> Result<(), Failure> {
    let before = sessions(cloud);
    cloud.send_frame(tungstenite::Message::Close(None)).await?;
    cloud
        .until("a new session", CONNECT_DEADLINE, |state| {
            (state.sessions.len() > before && state.outgoing.is_some()).then_some(())
        })
        .await
}

pub(super) async fn reconnection(cloud: Arc<Cloud>) -> Result<(), Failure> {
    start(&cloud, "survivor").await?;
    let before = container_id(&cloud, "survivor");
    reconnect(&cloud).await?;
    is_alive(&cloud, "after-reconnection").await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = container_id(&cloud, "survivor");
    ensure!(
        before == after,
        "the container {before} was replaced with {after}"
    );
    Ok(())
}

pub(super) async fn changed_while_away(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let object = start(&cloud, "leaving").await?;
    let mut deleted = object;
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
    deleted["metadata"]["deletionGracePeriodSeconds"] = json!(1);
    let path = super::pods::path("leaving");
    let message = Cloud::message_of(Change::Update, &path, cloud.store(&path, deleted));
    let mark = cloud.mark();
    cloud.send(&message).await?;
    // the pod stops without a connection
    reconnect(&cloud).await?;
    let ended = cloud.expect("the end of the pod", (mark, CONNECT_DEADLINE), |one| {
        one.route.operation == Operation::Delete && one.route.resource.as_str() == path
    });
    if ended.await.is_err() {
        fail!("the end of a pod that stopped without a connection was not reported");
    }
    Ok(())
}
