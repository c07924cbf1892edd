//! Counting pods that ended, each once. Pure.

use std::sync::Arc;

use k8s_openapi::api::{
    batch::v1::{Job, JobStatus, UncountedTerminatedPods},
    core::v1::Pod,
};
use kube::ResourceExt;

use crate::controllers::workloads::{pods::is_finished, replica_set::count};

/// The finalizer of a pod that is not yet counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The most pods that are noted at the same time, so that a status stays small.
pub(super) const MAX_UNCOUNTED: usize = 500;

/// Whether the pod has its finalizer.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|finalizer| finalizer == TRACKING)
}

/// The job's status, in which the noted pods that lost their finalizer have become part of the numbers.
pub(super) fn counted(job: &Job, pods: &[Arc<Pod>]) -> JobStatus {
    let mut status = job.status.clone().unwrap_or_default();
    let tracked = |uid: &String| pods.iter().any(|pod| pod.uid().as_ref() == Some(uid) && is_tracked(pod));
    let noted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let settle = |uids: Option<Vec<String>>, number: &mut Option<i32>| -> Option<Vec<String>> {
        let (left, done): (Vec<_>, Vec<_>) =
            uids.unwrap_or_default().into_iter().partition(|uid| tracked(uid));
        if !done.is_empty() {
            *number = Some(number.unwrap_or_default().saturating_add(count(done.len())));
        }
        (!left.is_empty()).then_some(left)
    };
    status.uncounted_terminated_pods = Some(UncountedTerminatedPods {
        succeeded: settle(noted.succeeded, &mut status.succeeded),
        failed: settle(noted.failed, &mut status.failed),
    });
    status
}

/// The uids that the status notes: of pods that succeeded, and of those that failed.
pub(super) fn noted(status: &JobStatus) -> (&[String], &[String]) {
    let noted = status.uncounted_terminated_pods.as_ref();
    (
        noted.and_then(|noted| noted.succeeded.as_deref()).unwrap_or_default(),
        noted.and_then(|noted| noted.failed.as_deref()).unwrap_or_default(),
    )
}

/// Notes a pod in the status, so that it is counted even if this process ends now.
pub(super) fn note(status: &mut JobStatus, pod: &Pod, succeeded: bool) {
    let noted = status.uncounted_terminated_pods.get_or_insert_default();
    let list = if succeeded { &mut noted.succeeded } else { &mut noted.failed };
    list.get_or_insert_default().extend(pod.uid());
}

/// Whether nothing is noted.
pub(super) fn is_settled(status: &JobStatus) -> bool {
    let (succeeded, failed) = noted(status);
    succeeded.is_empty() && failed.is_empty()
}

/// Whether the pod is on its way out and still runs.
pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && !is_finished(pod)
}

/// Whether the pod ended without having said so: it was deleted, and its node is done with it.
pub(super) fn is_gone_from_node(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
        && pod.metadata.deletion_grace_period_seconds.unwrap_or_default() == 0
}
