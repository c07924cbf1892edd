//! What an edge reports about its node.

use std::{sync::Arc, time::Duration};

use peer::{Failure, ensure};
use serde_json::{Value, json};
use wire::{Change, Operation};

use super::state::Cloud;

/// How long an edge may take to become ready.
const READY_DEADLINE: Duration = Duration::from_secs(90);
/// The lifetime of a lease.
const LEASE_LIFETIME: Duration = Duration::from_secs(40);

pub(super) async fn registration(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let path = format!("null/node/{}", cloud.node()?);
    let node = cloud
        .until("the registration of the node", READY_DEADLINE, |state| {
            state.objects.get(&path).cloned()
        })
        .await?;
    for label in [
        "node-role.kubernetes.io/edge",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
    ] {
        ensure!(
            node["metadata"]["labels"][label].is_string(),
            "the Node lacks the label {label}"
        );
    }
    Ok(())
}

pub(super) async fn ready(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let path = format!("null/node/{}", cloud.node()?);
    let is_ready =
        |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    cloud
        .until("a Node that is Ready", READY_DEADLINE, |state| {
            let conditions = state.objects.get(&path)?.pointer("/status/conditions")?;
            conditions.as_array()?.iter().any(is_ready).then_some(())
        })
        .await
}

pub(super) async fn lease(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let path = format!("kube-node-lease/lease/{}", cloud.node()?);
    for _ in 0..2 {
        let mark = cloud.mark();
        cloud
            .expect("a renewal of the lease", (mark, LEASE_LIFETIME), |one| {
                one.route.resource.as_str() == path
                    && matches!(one.route.operation, Operation::Insert | Operation::Update)
            })
            .await?;
    }
    Ok(())
}

pub(super) async fn update(cloud: Arc<Cloud>) -> Result<(), Failure> {
    let path = format!("null/node/{}", cloud.node()?);
    let known = cloud.state.lock().objects.get(&path).cloned();
    let mut node =
        known.unwrap_or_else(|| json!({"metadata": {"name": cloud.node().unwrap_or_default()}}));
    node["kind"] = json!("Node");
    node["apiVersion"] = json!("v1");
    node["metadata"]["annotations"]["conformance"] = json!("changed");
    cloud.deliver(Change::Update, &path, node).await?;
    Ok(())
}
