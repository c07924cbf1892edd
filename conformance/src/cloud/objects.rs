//! What a node reports about pods.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use peer::{Failure, ensure, now_ms};
use serde_json::{Value, json};
use wire::{Change, ResourceType, Upstream};

use super::{delivery::deliver, target::Target};

fn running(uid: &Value) -> String {
    json!({"metadata": {"uid": uid}, "status": {"phase": "Running", "hostIP": "192.0.2.1"}})
        .to_string()
}

fn is_running(pod: Option<&Pod>) -> bool {
    pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()) == Some("Running")
}

pub(super) async fn pod_status(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("pod-status").await?;
    let pod = deliver(&target, &mut node, "status").await?;
    let patch = running(&pod.content["metadata"]["uid"]);
    let answer = node
        .session
        .ask(Upstream::pod_patch(&target.namespace, "status", patch))
        .await?;
    ensure!(
        answer.content["Err"].is_null() && answer.content["Object"]["status"]["phase"] == "Running",
        "the answer does not contain the patched pod: {}",
        answer.content["Err"]
    );
    let pods: Api<Pod> = target.api();
    target.wait(&pods, "status", "the status", is_running).await
}

pub(super) async fn event(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("event").await?;
    let pod = deliver(&target, &mut node, "event").await?;
    let name = "event.conformance";
    let object = json!({
        "metadata": {"name": name, "namespace": target.namespace},
        "involvedObject": {"kind": "Pod", "apiVersion": "v1", "name": "event", "namespace": target.namespace,
            "uid": pod.content["metadata"]["uid"]},
        "reason": "Conformance", "message": "a test", "type": "Normal", "count": 1,
        "source": {"component": "kubelet", "host": node.name},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    let request = Upstream::put(
        Change::Insert,
        &target.namespace,
        &ResourceType::Event,
        name,
        object,
    );
    // KubeEdge does not answer it
    node.session.send(&request.into_message(now_ms())).await;
    let events: Api<Event> = target.api();
    target
        .wait(&events, name, "the event", |event| event.is_some())
        .await
}

pub(super) async fn foreign_status(target: Arc<Target>) -> Result<(), Failure> {
    let mut owner = target.node("status-owner").await?;
    let pod = deliver(&target, &mut owner, "owned").await?;
    let other = target.node("status-other").await?;
    let patch = running(&pod.content["metadata"]["uid"]);
    let request = Upstream::pod_patch(&target.namespace, "owned", patch);
    other.session.send(&request.into_message(now_ms())).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let pods: Api<Pod> = target.api();
    ensure!(
        !is_running(pods.get_opt("owned").await?.as_ref()),
        "a node changed the status of another node's pod"
    );
    Ok(())
}
