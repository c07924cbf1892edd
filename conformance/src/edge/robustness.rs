//! Unknown, damaged, large and many messages.

use std::{sync::Arc, time::Duration};

use peer::{Failure, ensure, now_ms, transport::Outgoing};
use serde_json::{Value, json};
use wire::{Answer, Change, Downstream, Group, Message, ObjectResp, Operation, ResourcePath};

use super::state::Cloud;

pub(super) fn map(name: &str, data: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"}, "data": {"key": data}})
}

/// Delivers a ConfigMap, to see that the edge still works.
pub(super) async fn is_alive(cloud: &Cloud, name: &str) -> Result<(), Failure> {
    let path = format!("default/configmap/{name}");
    cloud.deliver(Change::Insert, &path, map(name, "x")).await?;
    Ok(())
}

pub(super) fn sessions(cloud: &Cloud) -> usize {
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
    cloud.put(Outgoing::Binary(Box::new(message))).await?;
    let deadline = Duration::from_secs(30);
    cloud
        .expect("the acknowledgement", (mark, deadline), |one| {
            one.header.parent_msg_id == id
        })
        .await?;
    Ok(())
}

pub(super) async fn large(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let path = "default/configmap/large";
    let object = map("large", &"x".repeat(900 * 1024));
    cloud.deliver(Change::Insert, path, object).await?;
    Ok(())
}

pub(super) async fn largest(cloud: Arc<Cloud>) -> Result<(), Failure> {
    // base64 of 1 MiB, the largest Secret that Kubernetes accepts
    let data = "QUFB".repeat((1024 * 1024_usize).div_ceil(3));
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "largest", "namespace": "default"},
        "type": "Opaque", "data": {"key": data}});
    let path = "default/secret/largest";
    cloud.deliver(Change::Insert, path, secret).await?;
    Ok(())
}

/// Sends eighty ConfigMaps without waiting, until all are acknowledged.
pub(super) async fn burst(cloud: Arc<Cloud>) -> Result<(), Failure> {
    const OBJECTS: usize = 80;
    let mark = cloud.mark();
    let mut ids = Vec::new();
    for number in 0..OBJECTS {
        let name = format!("burst-{number}");
        let path = format!("default/configmap/{name}");
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

/// Delivers objects as KubeEdge's cloud does: each waits for the acknowledgement of the one before it.
pub(super) async fn many(cloud: Arc<Cloud>) -> Result<(), Failure> {
    for number in 0..300 {
        is_alive(&cloud, &format!("many-{number}")).await?;
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
        cloud.put(Outgoing::Text((*text).to_owned())).await?;
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
