//! A node whose Lease is no longer renewed becomes NotReady (`Ready=Unknown`, reason `NodeStatusUnknown`), with the
//! scheduler's taint; a node that reports again loses the taint.
//!
//! Source: Kubernetes' node lifecycle controller (node monitor grace period 40 s).

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, NodeCondition},
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        controller::{Action, Controller},
        reflector::ObjectRef,
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The namespace of node leases.
pub const LEASES: &str = "kube-node-lease";
/// The taint of a node that is not heard of.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const AFTER_ERROR: Duration = Duration::from_secs(1);

struct Context {
    client: Client,
    grace: Duration,
    started: jiff::Timestamp,
}

/// Runs until `shutdown`. `grace`: how old the last renewal may get.
pub async fn run(client: Client, grace: Duration, shutdown: CancellationToken) {
    let leases = Api::<Lease>::namespaced(client.clone(), LEASES);
    let context = Arc::new(Context { client: client.clone(), grace, started: jiff::Timestamp::now() });
    Controller::new(Api::<Node>::all(client), watcher::Config::default())
        .watches(leases, watcher::Config::default(), |lease| [ObjectRef::<Node>::new(&lease.name_any())])
        .run(
            reconcile,
            |_, error, _| {
                warn!(error = error as &dyn std::error::Error, "a node's state could not be written");
                Action::requeue(AFTER_ERROR)
            },
            context,
        )
        // not kube's own graceful shutdown: begun before the first list has come, that one never ends
        .take_until(shutdown.cancelled_owned())
        .for_each(|_| async {})
        .await;
}

async fn reconcile(node: Arc<Node>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let name = node.name_any();
    let lease = Api::<Lease>::namespaced(context.client.clone(), LEASES).get_opt(&name).await?;
    let now = jiff::Timestamp::now();
    let left = remaining(&node, lease.as_ref(), &context, now);
    match (left, is_unknown(&node)) {
        (None, false) => {
            info!(node = %name, "the node's lease ran out: NotReady");
            // the change that this makes leads back here, for the taint
            mark_unknown(&node, &context.client, now).await?;
            Ok(Action::await_change())
        }
        (None, true) => {
            if !is_tainted(&node) {
                set_taint(&node, &context.client, true, now).await?;
            }
            Ok(Action::await_change())
        }
        (Some(left), unknown) => {
            if !unknown && is_tainted(&node) {
                set_taint(&node, &context.client, false, now).await?;
            }
            Ok(Action::requeue(left))
        }
    }
}

/// How long the node's last sign of life, a renewed lease or a reported status, still counts; `None`: it is overdue. A node gets
/// the whole grace period after a start of this program, which could not hear it before.
fn remaining(
    node: &Node,
    lease: Option<&Lease>,
    context: &Context,
    now: jiff::Timestamp,
) -> Option<Duration> {
    let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|time| time.0);
    let created = node.creation_timestamp().map(|time| time.0);
    let reported =
        ready(node).and_then(|condition| condition.last_heartbeat_time.as_ref()).map(|time| time.0);
    let heard = [renewed, reported, created, Some(context.started)].into_iter().flatten().max()?;
    let age = Duration::try_from(now.duration_since(heard)).unwrap_or_default();
    context.grace.checked_sub(age).filter(|left| !left.is_zero())
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| condition.type_ == "Ready")
}

fn is_unknown(node: &Node) -> bool {
    ready(node).is_some_and(|condition| condition.status == "Unknown")
}

fn is_tainted(node: &Node) -> bool {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).any(|taint| taint.key == UNREACHABLE)
}

async fn mark_unknown(node: &Node, client: &Client, now: jiff::Timestamp) -> Result<(), kube::Error> {
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let conditions: Vec<_> = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .into_iter()
        .map(|kind| {
            json!({"type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.", "lastTransitionTime": at})
        })
        .collect();
    let patch = Patch::Strategic(json!({"status": {"conditions": conditions}}));
    Api::<Node>::all(client.clone())
        .patch_status(&node.name_any(), &PatchParams::default(), &patch)
        .await
        .map(drop)
}

async fn set_taint(node: &Node, client: &Client, on: bool, now: jiff::Timestamp) -> Result<(), kube::Error> {
    let old = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut taints: Vec<_> = old.filter(|taint| taint.key != UNREACHABLE).map(|taint| json!(taint)).collect();
    if on {
        let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        // the second makes pods leave that do not tolerate it, as nearly all do for a while
        for effect in ["NoSchedule", "NoExecute"] {
            taints.push(json!({"key": UNREACHABLE, "effect": effect, "timeAdded": at}));
        }
    }
    // the resource version makes the write fail, and be tried anew, where somebody else changed the taints meanwhile
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
    let api = Api::<Node>::all(client.clone());
    match api.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => result.map(drop),
    }
}
