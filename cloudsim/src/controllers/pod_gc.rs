//! Deletes pods that nothing else deletes: those of nodes that no longer exist, terminated ones beyond a threshold, unscheduled ones that
//! are being deleted, and those that are being deleted on a node that is out of service.
//!
//! Source: Kubernetes' pod garbage collector.

use std::{sync::Arc, time::Duration};

use clock::{HashMap, HashSet};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    scheduler::is_ready,
    workloads::{cluster, pods::is_finished},
};

/// How often pods are checked.
const GC_INTERVAL: Duration = Duration::from_secs(20);
/// How long a node must be gone before its pods are deleted.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// How many terminated pods are kept; kube-controller-manager's `--terminated-pod-gc-threshold`.
const TERMINATED_POD_THRESHOLD: usize = 12_500;

cluster!(Cluster {
    nodes: Node,
    pods: Pod
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let mut missing = MissingNodes::default();
    let mut ticks = tokio::time::interval(GC_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // a tick that is dropped at its await comes again
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let (pods, nodes) = (cluster.pods.all(), cluster.nodes.all());
        for (pod, why) in choose(
            &pods,
            &nodes,
            &mut missing,
            TERMINATED_POD_THRESHOLD,
            clock::now(),
        ) {
            if let Err(error) = collect(&cluster, &pod, why).await {
                warn!(error = &error as &dyn std::error::Error, pod = %pod.name_any(), "failed to garbage-collect pod; retrying");
            }
        }
    }
}

/// Nodes that pods name and that do not exist, with the time since when.
type MissingNodes = HashMap<String, Timestamp>;

/// The reason for which a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GcReason {
    NodeGone,
    TooMany,
    NeverScheduled,
    OutOfService,
}

impl GcReason {
    /// Returns the reason in words.
    fn as_str(self) -> &'static str {
        match self {
            Self::NodeGone => "its node is gone",
            Self::TooMany => "too many pods have ended",
            Self::NeverScheduled => "it is being deleted and never had a node",
            Self::OutOfService => "its node is out of service",
        }
    }
}

/// The taint by which an administrator says that a node was shut down, so that its pods run no more.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Reports whether the node is not ready, and is declared out of service.
fn is_out_of_service(node: &Node) -> bool {
    let mut taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    !is_ready(node) && taints.any(|taint| taint.key == OUT_OF_SERVICE)
}

fn choose(
    pods: &[Arc<Pod>],
    nodes: &[Arc<Node>],
    missing: &mut MissingNodes,
    kept: usize,
    now: Timestamp,
) -> Vec<(Arc<Pod>, GcReason)> {
    let node_of = |pod: &Pod| {
        pod.spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default()
    };
    let there: HashSet<_> = nodes.iter().map(|node| node.name_any()).collect();
    let named: HashSet<_> = pods
        .iter()
        .map(|pod| node_of(pod))
        .filter(|name| !name.is_empty())
        .collect();
    missing.retain(|name, _| named.contains(name) && !there.contains(name));
    for name in named.difference(&there) {
        missing.entry(name.clone()).or_insert(now);
    }
    let down: HashSet<_> = nodes
        .iter()
        .filter(|node| is_out_of_service(node))
        .map(|node| node.name_any())
        .collect();
    let is_gone = |name: &str| {
        missing
            .get(name)
            .is_some_and(|since| now.duration_since(*since) >= QUARANTINE)
    };
    let mut chosen = Vec::new();
    let mut ended = Vec::new();
    for pod in pods {
        let node = node_of(pod);
        if is_gone(&node) {
            chosen.push((Arc::clone(pod), GcReason::NodeGone));
        } else if down.contains(&node) && pod.metadata.deletion_timestamp.is_some() {
            chosen.push((Arc::clone(pod), GcReason::OutOfService));
        } else if node.is_empty() && pod.metadata.deletion_timestamp.is_some() {
            chosen.push((Arc::clone(pod), GcReason::NeverScheduled));
        } else if is_finished(pod) && pod.metadata.deletion_timestamp.is_none() {
            ended.push(Arc::clone(pod));
        }
    }
    ended.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
    ended.truncate(ended.len().saturating_sub(kept));
    chosen.extend(ended.into_iter().map(|pod| (pod, GcReason::TooMany)));
    chosen
}

async fn collect(cluster: &Cluster, pod: &Pod, why: GcReason) -> Result<(), kube::Error> {
    let api = cluster.beside::<Pod>(pod);
    let name = pod.name_any();
    if why == GcReason::NodeGone {
        let node = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default();
        // the cache may be behind
        if Api::<Node>::all(cluster.client.clone())
            .get_metadata_opt(&node)
            .await?
            .is_some()
        {
            return Ok(());
        }
    }
    if !is_finished(pod) {
        // a finalizer may keep the pod: a Job counts it once it has failed
        let failed = Patch::Strategic(failure_patch(pod, why));
        ignore_not_found(
            api.patch_status(&name, &PatchParams::default(), &failed)
                .await
                .map(drop),
        )?;
    }
    info!(namespace = %pod.namespace().unwrap_or_default(), pod = %name, reason = why.as_str(), "pod garbage-collected");
    let preconditions = Some(Preconditions {
        uid: pod.uid(),
        resource_version: None,
    });
    let params = DeleteParams {
        preconditions,
        ..DeleteParams::background().grace_period(0)
    };
    ignore_not_found(api.delete(&name, &params).await.map(drop))
}

/// Returns the patch that makes the pod Failed, with the disruption if there was one: a pod that never had a node keeps its own condition.
fn failure_patch(pod: &Pod, why: GcReason) -> Value {
    let mut patch = json!({"metadata": {"uid": pod.uid()}, "status": {"phase": "Failed"}});
    if why == GcReason::NodeGone {
        patch["status"]["conditions"] = json!([{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "observedGeneration": pod.metadata.generation,
        }]);
    }
    patch
}

fn ignore_not_found(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: &str, change: Value) -> Arc<Pod> {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [], "nodeName": node}, "status": {"phase": "Running"}});
        if let Some(phase) = change.get("phase") {
            pod["status"]["phase"] = phase.clone();
            pod["metadata"]["creationTimestamp"] = change["at"].clone();
        }
        if change.get("deleting").is_some() {
            pod["metadata"]["deletionTimestamp"] = json!("2025-06-01T00:00:00Z");
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn pods_that_nobody_else_deletes_are_found() {
        let node = |name: &str, taints: Value| {
            let node = json!({"metadata": {"name": name}, "spec": {"taints": taints}});
            Arc::new(serde_json::from_value::<Node>(node).unwrap())
        };
        let nodes = [
            node("a", json!([])),
            node(
                "down",
                json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]),
            ),
        ];
        let ended = |name: &str, at: &str| pod(name, "a", json!({"phase": "Failed", "at": at}));
        let pods = [
            pod("fine", "a", json!({})),
            pod("lost", "b", json!({})),
            pod("waits", "", json!({})),
            pod("never", "", json!({"deleting": true})),
            pod("ending", "a", json!({"deleting": true})),
            pod("stays", "down", json!({})),
            pod("unplugged", "down", json!({"deleting": true})),
            ended("young", "2025-06-01T00:00:02Z"),
            ended("old", "2025-06-01T00:00:01Z"),
        ];
        let mut missing = MissingNodes::default();
        let mut at = |second: i64| {
            let now = Timestamp::from_second(1_750_000_000 + second).unwrap();
            let chosen = choose(&pods, &nodes, &mut missing, 1, now);
            chosen
                .into_iter()
                .map(|(pod, why)| (pod.name_any(), why))
                .collect::<Vec<_>>()
        };
        let always = [
            ("never", GcReason::NeverScheduled),
            ("unplugged", GcReason::OutOfService),
            ("old", GcReason::TooMany),
        ];
        let always: Vec<_> = always
            .into_iter()
            .map(|(name, why)| (name.to_owned(), why))
            .collect();
        assert_eq!(at(0), always);
        assert_eq!(at(39), always);
        assert_eq!(at(40)[0], ("lost".to_owned(), GcReason::NodeGone));
    }
}
