//! The node lifecycle: a node whose Lease is no longer renewed becomes NotReady (`Ready=Unknown`, reason `NodeStatusUnknown`); a node
//! that is not Ready, under pressure or cordoned gets the taints for it; the pods of a node that stops being ready become not ready.
//!
//! Source: Kubernetes' node lifecycle controller (node monitor grace period 40 s).

use std::{sync::Arc, time::Duration};

use clock::{HashSet, Instant};

use crate::controllers::reconciler::{Action, Controller};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, Taint},
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    core::PartialObjectMeta,
    runtime::{
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use kubeapi::LenientObject;
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

mod heartbeats;
mod pods;
mod taints;

pub use self::taints::UNREACHABLE;
use self::{
    heartbeats::{Heartbeats, Observation},
    taints::ready,
};
use super::{
    events::{Component, NewEvent, Recorder},
    panics::catch_panics,
    requeue::after_failure,
    workloads::is_created_since,
};

/// The namespace of node leases.
pub const LEASES: &str = "kube-node-lease";

struct Context {
    client: Client,
    events: Recorder,
    grace: Duration,
    started: jiff::Timestamp,
    nodes: Store<LenientObject<Node>>,
    seen: Mutex<Heartbeats>,
    /// Nodes that stopped being ready, and whose pods are not all marked yet.
    failed: Mutex<HashSet<String>>,
}

/// Runs until `shutdown`. `grace` is the longest age of the last renewal.
pub async fn run(client: Client, events: Recorder, grace: Duration, shutdown: CancellationToken) {
    let leases = Api::<PartialObjectMeta<Lease>>::namespaced(client.clone(), LEASES);
    let controller = Controller::new(
        Api::<LenientObject<Node>>::all(client.clone()),
        watcher::Config::default(),
    );
    let context = Arc::new(Context {
        client,
        events,
        grace,
        started: clock::now(),
        nodes: controller.store(),
        seen: Mutex::default(),
        failed: Mutex::default(),
    });
    controller
        .watches(leases, watcher::Config::default(), |lease| {
            [ObjectRef::<LenientObject<Node>>::new(&lease.name_any())]
        })
        .run(
            catch_panics("node-lifecycle", reconcile),
            |_, error| after_failure("write the state of a node", error),
            context,
            shutdown,
        )
        .await;
}

async fn reconcile(
    node: Arc<LenientObject<Node>>,
    context: Arc<Context>,
) -> Result<Action, kube::Error> {
    let Some(node) = node.decoded_or_logged() else {
        return Ok(Action::await_change());
    };
    let name = node.name_any();
    let lease = Api::<Lease>::namespaced(context.client.clone(), LEASES)
        .get_opt(&name)
        .await?;
    let Observation {
        left,
        is_new,
        has_failed,
    } = observe(node, lease.as_ref(), &context);
    let record = |reason, what: String| {
        context.events.record(
            node,
            NewEvent::normal(Component::Node, reason, format!("Node {name} {what}")),
        );
    };
    if is_new && is_created_since(&node.metadata, context.started) {
        record(
            "RegisteredNode",
            format!("event: Registered Node {name} in Controller"),
        );
    }
    if has_failed {
        record("NodeNotReady", "status is now: NodeNotReady".to_owned());
        context.failed.lock().insert(name.clone());
    }
    mark_pods(node, &context).await?;
    let now = clock::now();
    let is_unknown = ready(node).is_some_and(|condition| condition.status == "Unknown");
    if left.is_none() && !is_unknown {
        info!(node = %name, "node not ready: its lease has expired");
        // this change leads here again, for the taints
        mark_unknown(node, &context.client, now).await?;
        return Ok(Action::await_change());
    }
    if let Some(taints) = taints::due(node, now) {
        set_taints(node, &context.client, &taints).await?;
    }
    Ok(left.map_or_else(Action::await_change, Action::requeue))
}

/// Marks the pods of a node that stopped being ready, until all are marked or the node is back.
async fn mark_pods(node: &Node, context: &Context) -> Result<(), kube::Error> {
    let name = node.name_any();
    if !context.failed.lock().contains(&name) {
        return Ok(());
    }
    if ready(node).is_none_or(|condition| condition.status != "True") {
        pods::mark_not_ready(&name, &context.client, &context.events).await?;
    }
    context.failed.lock().remove(&name);
    Ok(())
}

/// The most deleted nodes whose heartbeats are kept.
const MAX_DELETED: usize = 100;

/// Records the node's heartbeats: the renewal of its lease and the report of its status.
fn observe(node: &Node, lease: Option<&Lease>, context: &Context) -> Observation {
    let renewed = lease
        .and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref())
        .map(|time| time.0);
    let condition = ready(node);
    let reported = condition
        .and_then(|condition| condition.last_heartbeat_time.as_ref())
        .map(|time| time.0);
    let is_ready = condition.is_some_and(|condition| condition.status == "True");
    let (name, uid) = (node.name_any(), node.uid().unwrap_or_default());
    let mut seen = context.seen.lock();
    let news = seen.observe(
        (&name, &uid),
        (renewed, reported),
        is_ready,
        context.grace,
        Instant::now(),
    );
    // rarely, since it looks at all nodes
    if news.is_new && seen.count() > context.nodes.len() + MAX_DELETED {
        seen.retain(|name| context.nodes.get(&ObjectRef::new(name)).is_some());
    }
    news
}

async fn mark_unknown(
    node: &Node,
    client: &Client,
    now: jiff::Timestamp,
) -> Result<(), kube::Error> {
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let conditions: Vec<_> = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"]
        .into_iter()
        .map(|kind| {
            json!({"type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.", "lastTransitionTime": at})
        })
        .collect();
    // as below: a newer status of the node is not overwritten
    let patch = json!({
        "metadata": {"resourceVersion": node.resource_version()},
        "status": {"conditions": conditions},
    });
    let api = Api::<Node>::all(client.clone());
    ignore_conflict(
        api.patch_status(
            &node.name_any(),
            &PatchParams::default(),
            &Patch::Strategic(patch),
        )
        .await,
    )
}

async fn set_taints(node: &Node, client: &Client, taints: &[Taint]) -> Result<(), kube::Error> {
    // the resource version makes the write fail if the taints were changed meanwhile; it is then tried again
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": taints}});
    let api = Api::<Node>::all(client.clone());
    ignore_conflict(
        api.patch(
            &node.name_any(),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await,
    )
}

/// Ignores a conflict: the other change leads here again.
fn ignore_conflict(result: Result<Node, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        result => result.map(drop),
    }
}
