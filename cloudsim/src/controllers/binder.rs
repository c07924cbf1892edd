//! Binds pods without a node to a Ready edge node: what a cluster's scheduler does, as far as edge nodes need it
//! (nodeSelector, taints and tolerations, cordon, the fewest pods first). Off where a real scheduler runs.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    runtime::{
        WatchStreamExt,
        controller::{Action, Controller},
        reflector::{self, Store},
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::warn;

mod fit;

use super::events::{Component, Recorder, Told};

/// A pod that fits nowhere is looked at again when a node changes, and after this time at the latest.
const RETRY: Duration = Duration::from_secs(30);
/// After a failed call; the API is in this process or near it.
const AFTER_ERROR: Duration = Duration::from_secs(1);

struct Context {
    client: Client,
    events: Recorder,
    nodes: Store<Node>,
    pods: Store<Pod>,
}

/// Runs until `shutdown`.
pub async fn run(client: Client, events: Recorder, shutdown: CancellationToken) {
    let (nodes, node_writer) = reflector::store();
    let node_events = watcher(Api::<Node>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .reflect(node_writer)
        .touched_objects()
        .filter_map(|event| async move { event.is_ok().then_some(()) });
    let controller = Controller::new(Api::<Pod>::all(client.clone()), watcher::Config::default());
    let pods = controller.store();
    let context = Arc::new(Context { client, events, nodes, pods });
    controller
        .reconcile_all_on(node_events)
        .run(
            reconcile,
            |_, error, _| {
                warn!(error = error as &dyn std::error::Error, "a pod could not be bound");
                Action::requeue(AFTER_ERROR)
            },
            context,
        )
        // not kube's own graceful shutdown: begun before the first list has come, that one never ends
        .take_until(shutdown.cancelled_owned())
        .for_each(|_| async {})
        .await;
}

async fn reconcile(pod: Arc<Pod>, context: Arc<Context>) -> Result<Action, kube::Error> {
    if !fit::wants_a_node(&pod) {
        return Ok(Action::await_change());
    }
    let nodes = context.nodes.state();
    let pods = context.pods.state();
    match fit::choose(&pod, &nodes, &pods) {
        Ok(node) => bind(&pod, &node, &context).await,
        Err(reason) => unschedulable(&pod, &reason, &context).await,
    }
}

async fn bind(pod: &Pod, node: &str, context: &Context) -> Result<Action, kube::Error> {
    let namespace = pod.namespace().unwrap_or_default();
    let api = Api::<Pod>::namespaced(context.client.clone(), &namespace);
    let name = pod.name_any();
    let binding = Binding {
        metadata: ObjectMeta { name: Some(name.clone()), uid: pod.uid(), ..ObjectMeta::default() },
        target: ObjectReference {
            kind: Some("Node".into()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    match api
        .create_subresource::<_, serde_json::Value>("binding", &name, &PostParams::default(), &binding)
        .await
    {
        // bound by somebody else, or gone: the next event tells
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Action::await_change()),
        Err(error) => Err(error),
        Ok(_) => {
            let message = format!("Successfully assigned {namespace}/{name} to {node}");
            context.events.tell(pod, Told::normal(Component::Scheduler, "Scheduled", message));
            Ok(Action::await_change())
        }
    }
}

/// Says in the pod's conditions why it has no node yet, as the scheduler does.
async fn unschedulable(pod: &Pod, reason: &str, context: &Context) -> Result<Action, kube::Error> {
    let known = pod.status.iter().flat_map(|status| status.conditions.iter().flatten()).any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.message.as_deref() == Some(reason)
    });
    if !known {
        let told = Told::warning(Component::Scheduler, "FailedScheduling", reason.to_owned());
        context.events.tell(pod, told);
        let api = Api::<Pod>::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
        let patch = json!({"status": {"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": reason,
            "lastTransitionTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }]}});
        match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            result => drop(result?),
        }
    }
    Ok(Action::requeue(RETRY))
}
