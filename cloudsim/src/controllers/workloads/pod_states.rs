//! Every state of a pod that a controller may find, for property tests: whatever the states, no step of a controller may leave fewer pods
//! available than was promised, or than there were.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use proptest::{prelude::Strategy, sample::select};
use serde_json::json;

use super::pods::{is_active, is_available};

/// The `minReadySeconds` of the tests' workloads.
pub(crate) const MIN_READY: i32 = 10;

/// The state of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodState {
    /// It does not exist.
    Absent,
    /// It has no node.
    Unbound,
    /// Its image is being pulled, or cannot be.
    Pending,
    /// It runs, and is not ready.
    Running,
    /// It is ready, and not yet for long enough.
    Ready,
    /// It counts as available.
    Available,
    /// It is being deleted, and still ready.
    Terminating,
    /// It has failed.
    Failed,
    /// It has failed, and its last report of its readiness is older.
    FailedReady,
    /// It has succeeded.
    Succeeded,
    /// Its node does not answer.
    NodeUnknown,
}

/// Returns any state.
pub(crate) fn any_state() -> impl Strategy<Value = PodState> {
    use PodState::*;
    // available ones more often: what must not be lost has to be there
    select(vec![
        Absent,
        Unbound,
        Pending,
        Running,
        Ready,
        Available,
        Available,
        Available,
        Available,
        Terminating,
        Failed,
        FailedReady,
        Succeeded,
        NodeUnknown,
    ])
}

/// The time of the tests.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_750_000_000).unwrap()
}

impl PodState {
    /// Returns the pod in this state, with a value of the label `controller-revision-hash`; `None` if it does not exist.
    pub(crate) fn pod(self, name: &str, node: &str, revision: &str) -> Option<Arc<Pod>> {
        let ready_for = match self {
            Self::Absent => return None,
            Self::Ready => Some(1),
            Self::Available | Self::Terminating | Self::FailedReady => Some(3600),
            _ => None,
        };
        let phase = match self {
            Self::Unbound | Self::Pending => "Pending",
            Self::Failed | Self::FailedReady => "Failed",
            Self::Succeeded => "Succeeded",
            Self::NodeUnknown => "Unknown",
            _ => "Running",
        };
        let since = now() - SignedDuration::from_secs(ready_for.unwrap_or(60));
        let status = if ready_for.is_some() { "True" } else { "False" };
        let mut pod = json!({
            "metadata": {"name": name, "uid": name, "namespace": "default", "creationTimestamp": "2025-01-01T00:00:00Z",
                "labels": {"app": "web", super::hash::REVISION: revision}},
            "spec": {"containers": []},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": since}]},
        });
        if self != Self::Unbound {
            pod["spec"]["nodeName"] = json!(node);
        }
        if self == Self::Terminating {
            pod["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
        }
        Some(Arc::new(serde_json::from_value(pod).unwrap()))
    }
}

/// Reports whether a user of the workload can count on the pod.
pub(crate) fn counts(pod: &Pod) -> bool {
    is_active(pod) && is_available(pod, MIN_READY, now())
}

/// Returns how many of the pods count once those of `deleted` are deleted.
pub(crate) fn remaining_pods<'a>(
    pods: impl IntoIterator<Item = &'a Arc<Pod>>,
    deleted: &[Arc<Pod>],
) -> Vec<&'a Arc<Pod>> {
    let is_deleted = |pod: &Pod| {
        deleted
            .iter()
            .any(|other| other.metadata.uid == pod.metadata.uid)
    };
    pods.into_iter()
        .filter(|pod| counts(pod) && !is_deleted(pod))
        .collect()
}
