//! Large and many objects.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream, try_join};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::Api;
use peer::{Failure, ensure};
use serde_json::{Value, json};
use wire::{ResourceType, Upstream};

use super::{
    delivery::{deliver, deliver_pod, is_pod, pod_path},
    nodes::lease_query,
    sync::SYNC_DEADLINE,
    target::{PlayedNode, Target, pod_object},
};

/// The largest Secret that an API server accepts, bytes.
const MAX_SECRET: usize = 1024 * 1024;

/// Queries an object of a pod's volume, and returns its value.
async fn query(
    target: &Target,
    node: &mut PlayedNode,
    (kind, name, volume): (ResourceType, &str, Value),
) -> Result<Value, Failure> {
    let mut pod = pod_object(name, &node.name);
    pod["spec"]["volumes"] = json!([volume]);
    deliver_pod(target, node, pod).await?;
    let query = Upstream::query(&target.namespace, &kind, name);
    let answer = node.session.ask(query).await?;
    Ok(answer.content["data"]["key"].clone())
}

pub(super) async fn large(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("large").await?;
    let data = "x".repeat(900 * 1024);
    let object = json!({"metadata": {"name": "large"}, "data": {"key": data}});
    target.create::<ConfigMap>(object).await?;
    let volume = json!({"name": "map", "configMap": {"name": "large"}});
    let map = (ResourceType::ConfigMap, "large", volume);
    let found = query(&target, &mut node, map).await?;
    ensure!(
        found == data,
        "the ConfigMap arrived with {} bytes",
        found.as_str().map_or(0, str::len)
    );
    Ok(())
}

pub(super) async fn largest(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("largest").await?;
    let object =
        json!({"metadata": {"name": "largest"}, "stringData": {"key": "x".repeat(MAX_SECRET)}});
    target.create::<Secret>(object).await?;
    let volume = json!({"name": "secret", "secret": {"secretName": "largest"}});
    let secret = (ResourceType::Secret, "largest", volume);
    let found = query(&target, &mut node, secret).await?;
    let (found, expected) = (
        found.as_str().map_or(0, str::len),
        MAX_SECRET.div_ceil(3) * 4,
    );
    ensure!(
        found == expected,
        "the Secret arrived with {found} bytes of base64 instead of {expected}"
    );
    Ok(())
}

pub(super) async fn large_report(target: Arc<Target>) -> Result<(), Failure> {
    const BYTES: usize = 600 * 1024;
    let mut node = target.node("large-report").await?;
    let name = "large-report";
    let pod = deliver(&target, &mut node, name).await?;
    let patch = json!({
        "metadata": {"uid": pod.content["metadata"]["uid"]},
        "status": {"phase": "Running", "message": "x".repeat(BYTES)},
    });
    let request = Upstream::pod_patch(&target.namespace, name, patch.to_string());
    let answer = node.session.ask(request).await?;
    ensure!(
        answer.content["Err"].is_null(),
        "the report was refused: {}",
        answer.content["Err"]
    );
    let pods: Api<Pod> = target.api();
    target
        .wait(&pods, name, "the large status", |pod| {
            let message = pod.and_then(|pod| pod.status.as_ref()?.message.as_ref());
            message.is_some_and(|message| message.len() == BYTES)
        })
        .await
}

/// Creates pods, and waits until all have arrived.
async fn pods(target: &Target, name: &str, count: usize) -> Result<(), Failure> {
    let mut node = target.node(name).await?;
    let pod = |number: usize| format!("{name}-{number}");
    let mut missing: Vec<String> = (0..count).map(|n| pod_path(target, &pod(n))).collect();
    let creating = stream::iter(0..count)
        .map(|number| async move {
            let object = pod_object(&pod(number), &target.node_name(name));
            target.create::<Pod>(object).await
        })
        .buffer_unordered(8)
        .try_for_each(|_| async { Ok(()) });
    // meanwhile the session is read: a full one neither acknowledges messages nor sends a keepalive
    let reading = async {
        while !missing.is_empty() {
            let what = format!("{} of {count} pods", missing.len());
            let message = node
                .session
                .expect(&what, SYNC_DEADLINE, |one| {
                    missing.iter().any(|path| is_pod(path)(one))
                })
                .await?;
            missing.retain(|path| path != message.route.resource.as_str());
        }
        Ok(())
    };
    try_join!(creating, reading)?;
    node.session.ask(lease_query(&node.name)).await?;
    Ok(())
}

pub(super) async fn burst(target: Arc<Target>) -> Result<(), Failure> {
    pods(&target, "burst", 60).await
}

pub(super) async fn many(target: Arc<Target>) -> Result<(), Failure> {
    pods(&target, "many", 120).await
}
