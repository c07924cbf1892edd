//! Counting pods that ended, each once. Pure.

use std::sync::Arc;

use k8s_openapi::api::{
    batch::v1::{Job, JobStatus, UncountedTerminatedPods},
    core::v1::Pod,
};
use kube::ResourceExt;

use crate::controllers::workloads::{
    pods::{is_finished, phase},
    replica_set::count,
};

/// The finalizer of a pod that is not yet counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// The uids of pods that ended and are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uncounted {
    pub(super) succeeded: Vec<String>,
    pub(super) failed: Vec<String>,
}

fn is_tracked(pod: &Pod) -> bool {
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
            *number = Some(number.unwrap_or_default() + count(done.len()));
        }
        (!left.is_empty()).then_some(left)
    };
    status.uncounted_terminated_pods = Some(UncountedTerminatedPods {
        succeeded: settle(noted.succeeded, &mut status.succeeded),
        failed: settle(noted.failed, &mut status.failed),
    });
    status
}

/// The pods that ended, have their finalizer and stand nowhere yet. One that is deleted while it runs counts as failed when it
/// is gone from its node, which is when its phase says so or it has none to end on.
pub(super) fn uncounted(pods: &[Arc<Pod>], status: &JobStatus) -> Uncounted {
    let noted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let noted: Vec<_> =
        noted.succeeded.into_iter().flatten().chain(noted.failed.into_iter().flatten()).collect();
    let mut uncounted = Uncounted::default();
    for pod in pods.iter().filter(|pod| is_tracked(pod)) {
        let Some(uid) = pod.uid().filter(|uid| !noted.contains(uid)) else { continue };
        let ended_by_deletion = pod.metadata.deletion_timestamp.is_some()
            && pod.metadata.deletion_grace_period_seconds.unwrap_or_default() == 0;
        match phase(pod) {
            "Succeeded" => uncounted.succeeded.push(uid),
            _ if is_finished(pod) || ended_by_deletion => uncounted.failed.push(uid),
            _ => {}
        }
    }
    uncounted
}

/// How many pods succeeded and failed, all told.
pub(super) fn with(status: &JobStatus, uncounted: &Uncounted) -> (i32, i32) {
    let noted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let size = |list: Option<Vec<String>>| list.map_or(0, |list| count(list.len()));
    (
        status.succeeded.unwrap_or_default() + size(noted.succeeded) + count(uncounted.succeeded.len()),
        status.failed.unwrap_or_default() + size(noted.failed) + count(uncounted.failed.len()),
    )
}

/// Notes the pods in the status, so that they are counted even if this process ends now.
pub(super) fn note(status: &mut JobStatus, uncounted: &Uncounted) {
    let noted = status.uncounted_terminated_pods.get_or_insert_default();
    for (list, uids) in [(&mut noted.succeeded, &uncounted.succeeded), (&mut noted.failed, &uncounted.failed)]
    {
        if !uids.is_empty() {
            list.get_or_insert_default().extend(uids.iter().cloned());
        }
    }
}

/// The noted pods that still have their finalizer.
pub(super) fn noted(pods: &[Arc<Pod>], status: &JobStatus) -> Vec<Arc<Pod>> {
    let noted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let noted: Vec<_> =
        noted.succeeded.into_iter().flatten().chain(noted.failed.into_iter().flatten()).collect();
    pods.iter()
        .filter(|pod| is_tracked(pod) && pod.uid().is_some_and(|uid| noted.contains(&uid)))
        .cloned()
        .collect()
}

/// Whether nothing is noted.
pub(super) fn is_empty(noted: &UncountedTerminatedPods) -> bool {
    let empty = |list: &Option<Vec<String>>| list.as_ref().is_none_or(Vec::is_empty);
    empty(&noted.succeeded) && empty(&noted.failed)
}
