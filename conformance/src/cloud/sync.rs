//! What a node gets after it was away: synchronisation.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use peer::{
    Failure, ensure,
    session::{Automatic, Session},
};
use serde_json::json;
use tokio::time::sleep;
use wire::Operation;

use super::{
    delivery::{RETRANSMISSION, annotate, annotation, deliver, deliver_pod, is_pod, pod_path},
    target::{DELIVERY_DEADLINE, PlayedNode, Target, pod_object},
};

/// The sync controller of KubeEdge looks every 5 s.
pub(super) const SYNC_DEADLINE: Duration = Duration::from_secs(60);
/// A cloud may record what a node has only after the acknowledgement.
const RECORD_PERIOD: Duration = Duration::from_secs(3);

/// Closes the session, calls `change`, and connects again.
async fn while_away(
    target: &Target,
    node: PlayedNode,
    change: impl Future<Output = Result<(), Failure>>,
) -> Result<Session, Failure> {
    let PlayedNode {
        name,
        identity,
        session,
    } = node;
    drop(session);
    // the cloud may need a moment to see that the session has ended
    tokio::time::sleep(Duration::from_secs(2)).await;
    change.await?;
    target.connect(&name, &identity, Automatic::EDGE).await
}

pub(super) async fn changed_while_away(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("changed").await?;
    deliver(&target, &mut node, "changed").await?;
    let change = annotate(&target, "changed", "away");
    let mut session = while_away(&target, node, change).await?;
    let path = pod_path(&target, "changed");
    session
        .expect("the changed pod", SYNC_DEADLINE, |one| {
            is_pod(&path)(one) && annotation(one) == Some("away")
        })
        .await?;
    Ok(())
}

pub(super) async fn unchanged_while_away(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("unchanged").await?;
    deliver(&target, &mut node, "unchanged").await?;
    sleep(RECORD_PERIOD).await;
    let mut session = while_away(&target, node, async { Ok(()) }).await?;
    let path = pod_path(&target, "unchanged");
    session
        .expect_none("the unchanged pod", RETRANSMISSION, is_pod(&path))
        .await
}

pub(super) async fn deleted_while_away(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("deleted").await?;
    let message = deliver(&target, &mut node, "deleted").await?;
    let uid = message.content["metadata"]["uid"].clone();
    sleep(RECORD_PERIOD).await;
    let pods: Api<Pod> = target.api();
    let delete = async {
        pods.delete("deleted", &DeleteParams::default().grace_period(0))
            .await?;
        Ok(())
    };
    let mut session = while_away(&target, node, delete).await?;
    let path = pod_path(&target, "deleted");
    let message = session
        .expect("the deletion", SYNC_DEADLINE, |one| {
            is_pod(&path)(one) && one.route.operation == Operation::Delete
        })
        .await?;
    ensure!(
        message.content["metadata"]["uid"] == uid,
        "the deletion does not have the pod's UID"
    );
    Ok(())
}

pub(super) async fn configuration_while_away(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("map-away").await?;
    let name = "away";
    let object = json!({"metadata": {"name": name}, "data": {"key": "first"}});
    target.create::<ConfigMap>(object).await?;
    let mut pod = pod_object(name, &node.name);
    pod["spec"]["volumes"] = json!([{"name": "map", "configMap": {"name": name}}]);
    deliver_pod(&target, &mut node, pod).await?;
    let maps: Api<ConfigMap> = target.api();
    let change = async |value: &str| -> Result<(), Failure> {
        let patch = Patch::Merge(json!({"data": {"key": value}}));
        maps.patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    };
    let path = format!("{}/configmap/{name}", target.namespace);
    let has = |value| {
        let path = path.clone();
        move |one: &wire::Message| {
            one.route.resource.as_str() == path && one.content["data"]["key"] == value
        }
    };
    change("second").await?;
    node.session
        .expect("the changed ConfigMap", DELIVERY_DEADLINE, has("second"))
        .await?;
    sleep(RECORD_PERIOD).await;
    let mut session = while_away(&target, node, change("third")).await?;
    session
        .expect("the ConfigMap of now", SYNC_DEADLINE, has("third"))
        .await?;
    Ok(())
}

pub(super) async fn lost_acknowledgement(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("lost-ack").await?;
    let path = pod_path(&target, "lost-ack");
    node.session.hold(&path);
    let first = deliver(&target, &mut node, "lost-ack").await?;
    let mut session = while_away(&target, node, async { Ok(()) }).await?;
    let second = session
        .expect("the unacknowledged pod", SYNC_DEADLINE, is_pod(&path))
        .await?;
    let uid = |message: &wire::Message| message.content["metadata"]["uid"].clone();
    ensure!(
        uid(&first) == uid(&second),
        "the pod has another UID in the second session"
    );
    Ok(())
}

pub(super) async fn order_across_sessions(target: Arc<Target>) -> Result<(), Failure> {
    const CHANGES: usize = 20;
    let mut node = target.node("order-away").await?;
    let name = "order-away";
    deliver(&target, &mut node, name).await?;
    let path = pod_path(&target, name);
    let state = |message: &wire::Message| annotation(message).and_then(|text| text.parse().ok());
    let mut last = 0;
    let mut session = Some(node.session);
    for number in 1..=CHANGES {
        annotate(&target, name, &number.to_string()).await?;
        if number == CHANGES / 2
            && let Some(mut first) = session.take()
        {
            let arrived = first.expect("a state", DELIVERY_DEADLINE, |one| {
                is_pod(&path)(one) && state(one).is_some()
            });
            last = state(&arrived.await?).unwrap_or_default();
        }
    }
    let mut session = target
        .connect(&node.name, &node.identity, Automatic::EDGE)
        .await?;
    while last < CHANGES {
        let message = session
            .expect("the last state", SYNC_DEADLINE, is_pod(&path))
            .await?;
        let number = state(&message).unwrap_or_default();
        ensure!(number >= last, "state {number} came after state {last}");
        last = number;
    }
    Ok(())
}
