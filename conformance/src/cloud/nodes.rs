//! Registration, status and lease of a node.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use peer::{Failure, ensure};
use serde_json::json;
use wire::{Change, ResourceType, Upstream};

use super::target::{DELIVERY_DEADLINE, NODE_LEASES, PlayedNode, Target, node_object};

/// Returns a query for the node's lease. Every cloud answers it, and it changes nothing.
pub(super) fn lease_query(node: &str) -> Upstream {
    Upstream::query(NODE_LEASES, &ResourceType::Lease, node)
}

fn nodes(target: &Target) -> Api<Node> {
    Api::all(target.client.clone())
}

pub(super) async fn register(target: Arc<Target>) -> Result<(), Failure> {
    let node = target.node("register").await?;
    let object = nodes(&target).get(&node.name).await?;
    let labels: &BTreeMap<String, String> = object.labels();
    for label in ["kubernetes.io/hostname", "node-role.kubernetes.io/edge"] {
        ensure!(
            labels.contains_key(label),
            "the Node lacks the label {label}"
        );
    }
    Ok(())
}

pub(super) async fn register_again(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("again").await?;
    let object = node_object(&node.name);
    let request = Upstream::put(Change::Insert, "", &ResourceType::Node, &node.name, object);
    let answer = node.session.ask(request).await?;
    let reason = &answer.content["Err"]["ErrStatus"]["reason"];
    ensure!(
        reason == "AlreadyExists",
        "the answer has no reason AlreadyExists: {}",
        answer.content["Err"]
    );
    Ok(())
}

/// Reports that a node is ready, and waits until the API has it.
pub(super) async fn report_ready(target: &Target, node: &mut PlayedNode) -> Result<(), Failure> {
    let patch = json!({"status": {
        "conditions": [{"type": "Ready", "status": "True", "reason": "EdgeReady", "message": "conformance",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "nodeInfo": {"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "conformance://1", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": "v1.32.10-kubeedge-v1.22.0", "machineID": "", "operatingSystem": "linux",
            "osImage": "", "systemUUID": ""},
    }});
    let request = Upstream::node_patch(&node.name, patch.to_string());
    let answer = node.session.ask(request).await?;
    ensure!(
        answer.content["Err"].is_null(),
        "the patch was refused: {}",
        answer.content["Err"]
    );
    let runtime = "/Object/status/nodeInfo/containerRuntimeVersion";
    let found = answer.content.pointer(runtime);
    ensure!(
        found == Some(&json!("conformance://1")),
        "the answer does not contain the patched object"
    );
    target
        .wait(&nodes(target), &node.name, "the patched status", |node| {
            node.and_then(|node| node.status.as_ref()?.conditions.as_ref())
                .is_some_and(|list| {
                    list.iter()
                        .any(|one| one.reason.as_deref() == Some("EdgeReady"))
                })
        })
        .await
}

pub(super) async fn status(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("status").await?;
    report_ready(&target, &mut node).await
}

pub(super) async fn lease(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("lease").await?;
    let name = node.name.clone();
    let missing = node.session.ask(lease_query(&name)).await?;
    ensure!(
        missing.content["Err"]["ErrStatus"]["code"] == 404,
        "the query for a lease that does not exist was answered with {}",
        missing.content
    );
    let mut object = json!({
        "metadata": {"name": name, "namespace": NODE_LEASES},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    let put =
        |change, object| Upstream::put(change, NODE_LEASES, &ResourceType::Lease, &name, object);
    let answer = node
        .session
        .ask(put(Change::Insert, object.clone()))
        .await?;
    let created = &answer.content["Object"];
    ensure!(
        answer.content["Err"].is_null() && created["metadata"]["uid"].is_string(),
        "the lease was not created: {}",
        answer.content["Err"]
    );
    object = created.clone();
    object["spec"]["renewTime"] = json!("2026-01-01T00:01:00.000000Z");
    let answer = node.session.ask(put(Change::Update, object)).await?;
    ensure!(
        answer.content["Err"].is_null(),
        "the lease was not renewed: {}",
        answer.content["Err"]
    );
    let leases = Api::<Lease>::namespaced(target.client.clone(), NODE_LEASES);
    target
        .wait(&leases, &name, "the renewed lease", |lease| {
            let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
            renewed.is_some_and(|time| time.0.to_string().contains("00:01:00"))
        })
        .await
}

pub(super) async fn update(target: Arc<Target>) -> Result<(), Failure> {
    let mut node = target.node("update").await?;
    node.session.forget();
    let patch = json!({"metadata": {"annotations": {"conformance": "changed"}}});
    nodes(&target)
        .patch(&node.name, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    let path = format!("null/node/{}", node.name);
    let annotation = "/metadata/annotations/conformance";
    node.session
        .expect("the changed Node", DELIVERY_DEADLINE, |one| {
            one.route.resource.as_str() == path
                && one.content.pointer(annotation) == Some(&json!("changed"))
        })
        .await?;
    Ok(())
}
