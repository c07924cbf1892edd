//! Deletes pods from nodes with a `NoExecute` taint: at once, or after the seconds for which they tolerate it.
//!
//! Source: Kubernetes' taint eviction controller.

use std::{sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    runtime::reflector::ObjectRef,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{
    events::{Component, NewEvent},
    informers::{Change, Failure, Triggers, work},
    workloads::{affinity::tolerates, cluster},
};

cluster!(Cluster {
    nodes: Node,
    pods: Pod
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let nodes = cluster.nodes.clone();
    let of_pod = move |change: &Change<Pod>| {
        let name = change
            .object
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())?;
        let node = nodes
            .get("", &name)
            .filter(|node| taints(node).next().is_some())?;
        Some(ObjectRef::from_obj(&*node))
    };
    let triggers = Triggers::none().and(&cluster.pods, of_pod);
    let queue = (
        cluster.queues.queue("taint-eviction"),
        cluster.nodes.clone(),
    );
    work(queue, triggers, cluster, reconcile, stop).await;
}

fn taints(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute")
}

async fn reconcile(node: Arc<Node>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
    if taints(&node).next().is_none() {
        return Ok(Action::await_change());
    }
    let now = clock::now();
    let name = node.name_any();
    let is_here = |pod: &Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.as_ref() == Some(&name))
    };
    let mut next: Option<SignedDuration> = None;
    for pod in cluster
        .pods
        .all()
        .into_iter()
        .filter(|pod| is_here(pod) && pod.metadata.deletion_timestamp.is_none())
    {
        match time_left(&pod, &node, now) {
            None => {}
            Some(left) if left.is_zero() => evict(&pod, &cluster, now).await?,
            Some(left) => next = Some(next.map_or(left, |next| next.min(left))),
        }
    }
    let next = next.and_then(|left| Duration::try_from(left).ok());
    Ok(next.map_or_else(Action::await_change, Action::requeue))
}

/// Returns how long the pod may stay: `None` without limit, zero if it has expired.
fn time_left(pod: &Pod, node: &Node, now: Timestamp) -> Option<SignedDuration> {
    let tolerations = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.tolerations.as_deref())
        .unwrap_or_default();
    let left = |taint: &Taint| {
        let seconds: Vec<_> = tolerations
            .iter()
            .filter(|toleration| tolerates(toleration, taint))
            .map(|toleration| toleration.toleration_seconds)
            .collect();
        if seconds.is_empty() {
            return Some(SignedDuration::ZERO);
        }
        // the shortest of those with a limit
        let shortest = seconds.into_iter().flatten().min()?;
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let left = SignedDuration::from_secs(shortest.max(0)) - now.duration_since(since);
        Some(left.max(SignedDuration::ZERO))
    };
    taints(node).filter_map(left).min()
}

async fn evict(pod: &Pod, cluster: &Cluster, now: Timestamp) -> Result<(), Failure> {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    info!(%namespace, %name, "pod deleted: it does not tolerate the taints of its node");
    let condition = json!({"status": {"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "observedGeneration": pod.metadata.generation,
    }]}});
    let told = format!("Marking for deletion Pod {namespace}/{name}");
    cluster.events.record(
        pod,
        NewEvent::normal(Component::TaintEviction, "TaintManagerEviction", told),
    );
    let api = cluster.beside::<Pod>(pod);
    match api
        .patch_status(&name, &PatchParams::default(), &Patch::Strategic(condition))
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        result => drop(result?),
    }
    cluster.delete(&cluster.pods, pod).await
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_stays_as_long_as_it_tolerates_the_taint() {
        let node = |taints: Value| -> Node {
            serde_json::from_value(json!({"spec": {"taints": taints}})).unwrap()
        };
        let away = node(
            json!([{"key": "away", "effect": "NoExecute", "timeAdded": "2025-06-01T00:00:00Z"}]),
        );
        let now = "2025-06-01T00:01:00Z".parse().unwrap();
        let left = |node: &Node, tolerations: Value| {
            let pod = json!({"spec": {"containers": [], "tolerations": tolerations}});
            time_left(&serde_json::from_value(pod).unwrap(), node, now).map(|left| left.as_secs())
        };
        let tolerates = |seconds: Value| json!([{"key": "away", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
        assert_eq!(left(&away, json!([])), Some(0));
        assert_eq!(left(&away, tolerates(json!(300))), Some(240));
        assert_eq!(left(&away, tolerates(json!(30))), Some(0));
        assert_eq!(left(&away, tolerates(json!(null))), None);
        assert_eq!(
            left(
                &node(json!([{"key": "away", "effect": "NoSchedule"}])),
                json!([])
            ),
            None
        );
    }
}
