//! Lost connections.

use std::{sync::Arc, time::Duration};

use peer::{Failure, ensure, fail, transport::Outgoing};
use serde_json::json;
use wire::{Change, Operation};

use super::{
    pods::{POD_DEADLINE, container_id, path, pod, start, stub},
    robustness::{is_alive, map, sessions},
    state::{CONNECT_DEADLINE, Cloud},
};

/// Closes the connection, and waits until the edge has connected again.
async fn reconnect(cloud: &Cloud) -> Result<(), Failure> {
    let before = sessions(cloud);
    cloud.put(Outgoing::Close).await?;
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
    let path = path("leaving");
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

pub(super) async fn lost_acknowledgement(cloud: Arc<Cloud>) -> Result<(), Failure> {
    start(&cloud, "lost-ack").await?;
    let before = container_id(&cloud, "lost-ack");
    let path = path("lost-ack");
    let known = cloud.state.lock().objects.get(&path).cloned();
    let mut object = known.unwrap_or_default();
    object["metadata"]["annotations"]["conformance"] = json!("changed");
    let message = Cloud::message_of(Change::Update, &path, cloud.store(&path, object));
    cloud.send(&message).await?;
    // the acknowledgement is lost with the session, or is ignored here
    reconnect(&cloud).await?;
    cloud.send_reliably(&message).await?;
    let after = container_id(&cloud, "lost-ack");
    ensure!(
        before == after,
        "the container {before} was replaced with {after}"
    );
    Ok(())
}

pub(super) async fn changes_across_sessions(cloud: Arc<Cloud>) -> Result<(), Failure> {
    const CHANGES: usize = 10;
    let path = "default/configmap/across";
    for number in 0..CHANGES {
        let object = map("across", &number.to_string());
        if number == CHANGES / 2 {
            let object = cloud.store(path, object);
            cloud
                .send(&Cloud::message_of(Change::Update, path, object))
                .await?;
            reconnect(&cloud).await?;
            continue;
        }
        let change = match number {
            0 => Change::Insert,
            _ => Change::Update,
        };
        cloud.deliver(change, path, object).await?;
    }
    Ok(())
}

pub(super) async fn successor(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let name = "successor";
    let object = start(&cloud, name).await?;
    let before = container_id(&cloud, name);
    reconnect(&cloud).await?;
    // without the edge, the pod was deleted, and another one has its name
    cloud
        .send_reliably(&stub(name, &object["metadata"]["uid"]))
        .await?;
    cloud.change(|state| state.objects.remove(&path(name)));
    cloud
        .deliver(Change::Insert, &path(name), pod(&cloud, name)?)
        .await?;
    cloud
        .until("a container of the second pod", POD_DEADLINE, |state| {
            let status = &state.objects.get(&path(name))?["status"];
            let id = status.pointer("/containerStatuses/0/containerID")?;
            (status["phase"] == "Running" && *id != before).then_some(())
        })
        .await
}
