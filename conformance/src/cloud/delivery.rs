//! Reliable delivery: what is sent to a node, how often, and in which order.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use peer::{Failure, ensure, now_ms};
use serde_json::{Value, json};
use wire::{Message, Operation, Source, Upstream};

use super::target::{DELIVERY_DEADLINE, PlayedNode, Target, pod_object};

/// KubeEdge sends an unacknowledged message again after 5 s.
pub(super) const RETRANSMISSION: Duration = Duration::from_secs(15);

/// Returns the path of a pod of this run.
pub(super) fn pod_path(target: &Target, name: &str) -> String {
    format!("{}/pod/{name}", target.namespace)
}

pub(super) fn is_pod(path: &str) -> impl Fn(&Message) -> bool + '_ {
    move |message| {
        message.route.resource.as_str() == path && message.header.parent_msg_id.is_empty()
    }
}

/// Creates a pod on a node, and waits until it has arrived there.
pub(super) async fn deliver(
    target: &Target,
    node: &mut PlayedNode,
    name: &str,
) -> Result<Message, Failure> {
    let pod = pod_object(name, &node.name);
    deliver_pod(target, node, pod).await
}

/// Creates this pod, and waits until it has arrived at the node.
pub(super) async fn deliver_pod(
    target: &Target,
    node: &mut PlayedNode,
    pod: Value,
) -> Result<Message, Failure> {
    let pod = target.create::<Pod>(pod).await?;
    let path = pod_path(target, &pod.name_any());
    node.session
        .expect("the pod", DELIVERY_DEADLINE, is_pod(&path))
        .await
}

/// Changes an annotation of a pod.
pub(super) async fn annotate(target: &Target, name: &str, value: &str) -> Result<(), Failure> {
    let patch = json!({"metadata": {"annotations": {"conformance": value}}});
    let pods: Api<Pod> = target.api();
    pods.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

pub(super) fn annotation(message: &Message) -> Option<&str> {
    message
        .content
        .pointer("/metadata/annotations/conformance")?
        .as_str()
}

pub(super) async fn pod(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("pod").await?;
    let message = deliver(&target, &mut node, "pod").await?;
    let (route, content) = (&message.route, &message.content);
    ensure!(
        route.source == Source::EdgeController && route.group == wire::Group::Resource,
        "the pod came as {}",
        route.summary()
    );
    ensure!(
        matches!(route.operation, Operation::Insert | Operation::Update),
        "the pod came as {}",
        route.summary()
    );
    ensure!(
        content["kind"] == "Pod" && content["apiVersion"] == "v1",
        "the pod has no kind and apiVersion"
    );
    ensure!(content["metadata"]["uid"].is_string(), "the pod has no UID");
    let revision = &message.header.resource_version;
    ensure!(
        revision.parse::<u64>().is_ok(),
        "the header resourceversion is {revision:?}"
    );
    Ok(())
}

pub(super) async fn foreign_pod(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("mine").await?;
    let mut other = target.node("theirs").await?;
    deliver(&target, &mut other, "theirs").await?;
    let path = pod_path(&target, "theirs");
    node.session
        .expect_none(
            "a pod of another node",
            Duration::from_secs(5),
            is_pod(&path),
        )
        .await
}

pub(super) async fn retransmission(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("again-pod").await?;
    let path = pod_path(&target, "again");
    node.session.hold(&path);
    let first = deliver(&target, &mut node, "again").await?;
    let second = node
        .session
        .expect("the same message again", RETRANSMISSION, is_pod(&path))
        .await?;
    ensure!(
        first.header.msg_id == second.header.msg_id,
        "the message came again with another id"
    );
    Ok(())
}

pub(super) async fn acknowledgement(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("acknowledged").await?;
    let first = deliver(&target, &mut node, "acknowledged").await?;
    let id = first.header.msg_id;
    node.session
        .expect_none("the message again", RETRANSMISSION, |one| {
            one.header.msg_id == id
        })
        .await
}

pub(super) async fn error_is_no_ack(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("error").await?;
    node.session.hold(&pod_path(&target, "error"));
    let first = deliver(&target, &mut node, "error").await?;
    let mut refusal = first.acknowledgement(now_ms());
    refusal.route.operation = Operation::Error;
    refusal.content = Value::from("conformance: not stored");
    node.session.send(&refusal).await;
    let id = first.header.msg_id;
    node.session
        .expect("the message again", RETRANSMISSION, |one| {
            one.header.msg_id == id
        })
        .await?;
    Ok(())
}

pub(super) async fn order(target: Arc<Target>) -> Result<(), Failure> {
    const CHANGES: usize = 20;
    let mut node = target.node("order").await?;
    deliver(&target, &mut node, "order").await?;
    for number in 1..=CHANGES {
        annotate(&target, "order", &number.to_string()).await?;
    }
    let (path, mut last) = (pod_path(&target, "order"), 0);
    while last < CHANGES {
        let message = node
            .session
            .expect("the last state", DELIVERY_DEADLINE, is_pod(&path))
            .await?;
        let number = annotation(&message).and_then(|text| text.parse().ok());
        let number: usize = number.unwrap_or_default();
        ensure!(number >= last, "state {number} came after state {last}");
        last = number;
    }
    Ok(())
}

pub(super) async fn graceful_deletion(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("graceful").await?;
    let message = deliver(&target, &mut node, "graceful").await?;
    let uid = message.content["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let pods: Api<Pod> = target.api();
    pods.delete("graceful", &DeleteParams::default().grace_period(20))
        .await?;
    let path = pod_path(&target, "graceful");
    node.session
        .expect(
            "the update with deletionTimestamp",
            DELIVERY_DEADLINE,
            |one| {
                is_pod(&path)(one)
                    && one.route.operation == Operation::Update
                    && one.content["metadata"]["deletionTimestamp"].is_string()
            },
        )
        .await?;
    let request = Upstream::pod_delete(&target.namespace, "graceful", &uid);
    node.session.ask(request).await?;
    node.session
        .expect("the deletion", DELIVERY_DEADLINE, |one| {
            is_pod(&path)(one) && one.route.operation == Operation::Delete
        })
        .await?;
    target
        .wait(&pods, "graceful", "the end of the pod", |pod| pod.is_none())
        .await
}

pub(super) async fn configuration(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("config").await?;
    for name in ["used", "unused"] {
        let object = json!({"metadata": {"name": name}, "data": {"key": "old"}});
        target.create::<ConfigMap>(object).await?;
    }
    let secret = json!({"metadata": {"name": "used"}, "stringData": {"key": "old"}});
    target.create::<Secret>(secret).await?;
    let mut pod = pod_object("config", &node.name);
    pod["spec"]["volumes"] = json!([
        {"name": "map", "configMap": {"name": "used"}},
        {"name": "secret", "secret": {"secretName": "used"}},
    ]);
    deliver_pod(&target, &mut node, pod).await?;
    let parameters = PatchParams::default();
    let maps: Api<ConfigMap> = target.api();
    for name in ["unused", "used"] {
        let patch = Patch::Merge(json!({"data": {"key": "new"}}));
        maps.patch(name, &parameters, &patch).await?;
    }
    let secrets: Api<Secret> = target.api();
    let patch = Patch::Merge(json!({"stringData": {"key": "new"}}));
    secrets.patch("used", &parameters, &patch).await?;
    for (kind, value) in [("configmap", "new"), ("secret", "bmV3")] {
        let path = format!("{}/{kind}/used", target.namespace);
        node.session
            .expect(&format!("the changed {kind}"), DELIVERY_DEADLINE, |one| {
                one.route.resource.as_str() == path && one.content["data"]["key"] == value
            })
            .await?;
    }
    node.session
        .expect_none("a ConfigMap of no pod", Duration::from_secs(2), |one| {
            one.route.resource.as_str().ends_with("/configmap/unused")
        })
        .await
}
