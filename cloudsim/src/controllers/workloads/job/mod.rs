//! Jobs: run pods until enough of them have succeeded.
//!
//! Each pod has a finalizer until it is counted, so that none is counted twice or missed when it is deleted: its uid is first written to
//! `status.uncountedTerminatedPods`, then the finalizer is removed, then it is added to the counts.

use std::{sync::Arc, time::Duration};

use crate::controllers::reconciler::Action;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::ResourceExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;

mod backoff;
mod indexes;
mod orphans;
mod outcome;
mod plan;
mod pod;
mod policy;
mod tally;
#[cfg(test)]
mod tests;
mod view;

use self::{
    plan::Plan,
    tally::{TRACKING, is_tracked},
};
use super::{cluster::cluster, shared::or_null, triggers::adopters};
use crate::controllers::{
    events::{Component, NewEvent},
    informers::{Failure, Triggers, work},
};

cluster!(Cluster {
    jobs: Job,
    pods: Pod
});

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let triggers = Triggers::none().and_owned(&cluster.pods).and(
        &cluster.pods,
        adopters(&cluster.jobs, |job| {
            job.spec.as_ref().and_then(|spec| spec.selector.clone())
        }),
    );
    let orphans = orphans::run(cluster.clone(), stop.clone());
    let reconcile =
        |job, cluster: Arc<Cluster>| async move { sync(job, &cluster, clock::now()).await };
    let queue = (cluster.queues.queue("job"), cluster.jobs.clone());
    tokio::join!(orphans, work(queue, triggers, cluster, reconcile, stop));
}

/// Reports whether another controller manages the job.
fn is_foreign(job: &Job) -> bool {
    let manager = job
        .spec
        .as_ref()
        .and_then(|spec| spec.managed_by.as_deref());
    manager.is_some_and(|manager| manager != "kubernetes.io/job-controller")
}

/// Reconciles a job.
async fn sync(job: Arc<Job>, cluster: &Cluster, now: Timestamp) -> Result<Action, Failure> {
    let selector = job.spec.as_ref().and_then(|spec| spec.selector.clone());
    let Some(selector) = selector.filter(|_| !is_foreign(&job)) else {
        return Ok(Action::await_change());
    };
    let pods = cluster
        .claim_objects(&cluster.pods, &*job, &selector)
        .await?;
    if job.metadata.deletion_timestamp.is_some() {
        untrack(cluster, &pods).await?;
        return Ok(Action::await_change());
    }
    if outcome::is_finished(&job) {
        untrack(cluster, &pods).await?;
        return expire(&job, cluster, now).await;
    }
    let Plan {
        delete,
        discard,
        create,
        mut status,
        untrack: free,
        look_again,
    } = plan::plan(&job, &pods, now);
    cluster
        .delete_pods(&cluster.pods, &*job, Component::Job, delete)
        .await?;
    untrack(cluster, &discard).await?;
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let discard = discard
        .iter()
        .filter_map(|pod| cluster.pods.get(&pod.namespace()?, &pod.name_any()));
    cluster
        .delete_pods(&cluster.pods, &*job, Component::Job, discard.collect())
        .await?;
    let create = create.into_iter().map(|new| pod::new(&job, new)).collect();
    let created = cluster
        .create_pods(&cluster.pods, &*job, Component::Job, create)
        .await;
    let pods = cluster.pods.controlled_by(uid);
    plan::observe(&mut status, &pods, free.is_empty(), now);
    cluster
        .write_status(&cluster.jobs, &*job, &job.status, &status)
        .await?;
    record(&job, &status, cluster);
    untrack(cluster, &free).await?;
    // the writes that succeeded are kept; the rest is tried again
    created?;
    if !free.is_empty() {
        // counting continues with what was just written
        return Ok(Action::requeue(Duration::ZERO));
    }
    Ok(look_again.map_or_else(Action::await_change, Action::requeue))
}

/// Records events for what is new in the status.
fn record(job: &Job, status: &JobStatus, cluster: &Cluster) {
    let old = job
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    for new in status.conditions.iter().flatten() {
        if old
            .iter()
            .any(|old| old.type_ == new.type_ && old.status == new.status)
        {
            continue;
        }
        let message = new.message.clone().unwrap_or_default();
        let told = match (new.type_.as_str(), new.status.as_str()) {
            ("Complete", "True") => {
                NewEvent::normal(Component::Job, "Completed", "Job completed".into())
            }
            ("Failed", "True") => {
                let reasons = [
                    "BackoffLimitExceeded",
                    "DeadlineExceeded",
                    "FailedIndexes",
                    "MaxFailedIndexesExceeded",
                    "PodFailurePolicy",
                ];
                let reason = reasons
                    .into_iter()
                    .find(|reason| new.reason.as_deref() == Some(reason));
                NewEvent::warning(Component::Job, reason.unwrap_or("Failed"), message)
            }
            ("Suspended", "True") => NewEvent::normal(Component::Job, "Suspended", message),
            ("Suspended", "False") => NewEvent::normal(Component::Job, "Resumed", message),
            _ => continue,
        };
        cluster.events.record(job, told);
    }
}

/// Removes the finalizer from pods that are counted, or need no counting.
async fn untrack(cluster: &Cluster, pods: &[Arc<Pod>]) -> Result<(), Failure> {
    for pod in pods {
        // the present version: this pass may have changed the pod
        let Some(pod) = cluster
            .pods
            .get(&pod.namespace().unwrap_or_default(), &pod.name_any())
        else {
            continue;
        };
        if !is_tracked(&pod) {
            continue;
        }
        let left: Vec<_> = pod
            .finalizers()
            .iter()
            .filter(|own| *own != TRACKING)
            .collect();
        let patch = json!({"metadata": {"uid": pod.uid(), "resourceVersion": pod.resource_version(), "finalizers": or_null(&left)}});
        cluster.patch(&cluster.pods, &*pod, &patch).await?;
        if left.is_empty() && tally::is_gone_from_node(&pod) {
            cluster.pods.apply_removal(&pod);
        }
    }
    Ok(())
}

/// Deletes a finished job after its `ttlSecondsAfterFinished`.
async fn expire(job: &Job, cluster: &Cluster, now: Timestamp) -> Result<Action, Failure> {
    let seconds = job
        .spec
        .as_ref()
        .and_then(|spec| spec.ttl_seconds_after_finished);
    let finished = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let finished =
        finished.filter(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed"));
    let finished = finished
        .filter_map(|condition| condition.last_transition_time.as_ref())
        .map(|time| time.0)
        .max();
    let (Some(seconds), Some(finished)) = (seconds, finished) else {
        return Ok(Action::await_change());
    };
    let left =
        SignedDuration::from_secs(seconds.into()).saturating_sub(now.duration_since(finished));
    if let Some(left) = Duration::try_from(left).ok().filter(|left| !left.is_zero()) {
        return Ok(Action::requeue(left));
    }
    cluster.delete(&cluster.jobs, job).await?;
    Ok(Action::await_change())
}
