//! Counts pods that ended, each once. Pure.

use std::sync::Arc;

use k8s_openapi::api::{
    batch::v1::{Job, JobStatus, UncountedTerminatedPods},
    core::v1::Pod,
};
use kube::ResourceExt;

use crate::controllers::workloads::{pods::is_finished, replica_set::count};

/// The finalizer of pods that are not counted yet.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The most uncounted pods in a status, which bounds its size.
pub(super) const MAX_UNCOUNTED: usize = 500;

/// Reports whether the pod has the finalizer.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    pod.finalizers()
        .iter()
        .any(|finalizer| finalizer == TRACKING)
}

/// Returns the job's status in which uncounted pods that lost their finalizer have been added to the counts.
pub(super) fn tally_pods(job: &Job, pods: &[Arc<Pod>]) -> JobStatus {
    let mut status = job.status.clone().unwrap_or_default();
    let tracked = |uid: &String| {
        pods.iter()
            .any(|pod| pod.uid().as_ref() == Some(uid) && is_tracked(pod))
    };
    let uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
    let settle = |uids: Option<Vec<String>>, number: &mut Option<i32>| -> Option<Vec<String>> {
        let (left, done): (Vec<_>, Vec<_>) = uids
            .unwrap_or_default()
            .into_iter()
            .partition(|uid| tracked(uid));
        if !done.is_empty() {
            *number = Some(number.unwrap_or_default().saturating_add(count(done.len())));
        }
        (!left.is_empty()).then_some(left)
    };
    status.uncounted_terminated_pods = Some(UncountedTerminatedPods {
        succeeded: settle(uncounted.succeeded, &mut status.succeeded),
        failed: settle(uncounted.failed, &mut status.failed),
    });
    status
}

/// Returns the uids in `uncountedTerminatedPods`: of succeeded and of failed pods.
pub(super) fn uncounted_uids(status: &JobStatus) -> (&[String], &[String]) {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    (
        uncounted
            .and_then(|uncounted| uncounted.succeeded.as_deref())
            .unwrap_or_default(),
        uncounted
            .and_then(|uncounted| uncounted.failed.as_deref())
            .unwrap_or_default(),
    )
}

/// Adds a pod to `uncountedTerminatedPods`, so that it is counted even if this process ends now.
pub(super) fn add_uncounted(status: &mut JobStatus, pod: &Pod, succeeded: bool) {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let list = if succeeded {
        &mut uncounted.succeeded
    } else {
        &mut uncounted.failed
    };
    list.get_or_insert_default().extend(pod.uid());
}

/// Reports whether `uncountedTerminatedPods` is empty.
pub(super) fn has_no_uncounted(status: &JobStatus) -> bool {
    let (succeeded, failed) = uncounted_uids(status);
    succeeded.is_empty() && failed.is_empty()
}

/// Reports whether the pod is being deleted and still runs.
pub(super) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && !is_finished(pod)
}

/// Reports whether the pod was deleted and has stopped on its node without a terminal phase.
pub(super) fn is_gone_from_node(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
        && pod
            .metadata
            .deletion_grace_period_seconds
            .unwrap_or_default()
            == 0
}
