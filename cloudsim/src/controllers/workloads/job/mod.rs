//! Jobs: pods that end, as often as they should end well.
//!
//! Each pod has a finalizer until it is counted, so that none is counted twice and none that was deleted is missed: its uid is
//! first written to `status.uncountedTerminatedPods`, then the finalizer goes, then it is added to the number.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::{Job, JobStatus},
    core::v1::Pod,
};
use kube::{ResourceExt, runtime::controller::Action};
use serde_json::json;
use tokio_util::sync::CancellationToken;

mod plan;
mod tally;

use self::{
    plan::{Outcome, Plan},
    tally::TRACKING,
};
use super::{
    cluster::Cluster,
    conditions::{Condition, seconds},
    replica_set::count,
    triggers::adopters,
};
use crate::controllers::{
    events::{Component, Told},
    informers::{Failure, Triggers, work},
};

/// Runs until `stop`.
pub(crate) async fn run(cluster: Cluster, stop: CancellationToken) {
    let triggers = Triggers::none().and_owned(&cluster.pods).and(
        &cluster.pods,
        adopters(&cluster.jobs, |job| job.spec.as_ref().and_then(|spec| spec.selector.as_ref())),
    );
    work(cluster.jobs.clone(), triggers, cluster, reconcile, stop).await;
}

async fn reconcile(job: Arc<Job>, cluster: Arc<Cluster>) -> Result<Action, Failure> {
    let Some(spec) = &job.spec else { return Ok(Action::await_change()) };
    // another controller's job
    if spec.managed_by.as_deref().is_some_and(|manager| manager != "kubernetes.io/job-controller") {
        return Ok(Action::await_change());
    }
    let Some(selector) = &spec.selector else { return Ok(Action::await_change()) };
    let pods = cluster.claimed(&cluster.pods, &*job, selector).await?;
    let now = Timestamp::now();
    if job.metadata.deletion_timestamp.is_some() {
        untrack(&cluster, &pods).await?;
        return Ok(Action::await_change());
    }
    if plan::is_finished(&job) {
        untrack(&cluster, &pods).await?;
        return expire(&job, &cluster, now).await;
    }
    let mut status = tally::counted(&job, &pods);
    let uncounted = tally::uncounted(&pods, &status);
    let plan = plan::plan(&job, &pods, tally::with(&status, &uncounted), now);
    tally::note(&mut status, &uncounted);
    begin(&job, &mut status, now);
    carry_out(&job, &plan, &pods, &cluster).await?;
    let pods = cluster.pods.controlled_by(job.metadata.uid.as_deref().unwrap_or_default());
    observe(&job, &mut status, &pods, &plan, now);
    cluster.write_status(&cluster.jobs, &*job, &job.status, &status).await?;
    tell(&job, &status, &cluster);
    let noted = tally::noted(&pods, &status);
    let left = !noted.is_empty();
    untrack(&cluster, &noted).await?;
    if left {
        // the counting goes on with what was just written
        return Ok(Action::requeue(Duration::ZERO));
    }
    Ok(plan.look_again.map_or_else(Action::await_change, Action::requeue))
}

fn begin(job: &Job, status: &mut JobStatus, now: Timestamp) {
    let suspended = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    if suspended {
        status.start_time = None;
    } else if status.start_time.is_none() {
        status.start_time = Some(seconds(now));
    }
    let conditions = status.conditions.get_or_insert_default();
    let (holds, reason, message) = if suspended {
        (true, "JobSuspended", "Job suspended")
    } else if conditions.iter().any(|condition| condition.type_ == "Suspended") {
        (false, "JobResumed", "Job resumed")
    } else {
        return;
    };
    Condition { type_: "Suspended", holds, reason, message: message.into() }.set_job(conditions, now);
}

async fn carry_out(job: &Job, plan: &Plan, pods: &[Arc<Pod>], cluster: &Cluster) -> Result<(), Failure> {
    let delete: Vec<_> = pods.iter().filter(|pod| plan.delete.contains(&pod.name_any())).cloned().collect();
    cluster.delete_pods(job, Component::Job, delete).await?;
    let made = plan.create.iter().map(|index| plan::pod(job, *index)).collect();
    Ok(cluster.create_pods(job, Component::Job, made).await?)
}

/// What of the status follows from the pods as they are.
fn observe(job: &Job, status: &mut JobStatus, pods: &[Arc<Pod>], plan: &Plan, now: Timestamp) {
    let count = |wanted: &dyn Fn(&Pod) -> bool| count(pods.iter().filter(|pod| wanted(pod)).count());
    let active = count(&|pod| super::pods::is_active(pod));
    status.active = (active > 0).then_some(active);
    status.ready = Some(count(&|pod| super::pods::is_active(pod) && super::pods::is_ready(pod)));
    status.terminating =
        Some(count(&|pod| pod.metadata.deletion_timestamp.is_some() && !super::pods::is_finished(pod)));
    if !plan.completed.is_empty() {
        status.completed_indexes = Some(plan.completed.clone());
    }
    // the end is told when everything is counted and nothing runs
    let is_counted = status.uncounted_terminated_pods.as_ref().is_none_or(tally::is_empty);
    let Some(outcome) = plan.outcome.as_ref().filter(|_| is_counted && status.active.is_none()) else {
        return;
    };
    let conditions = status.conditions.get_or_insert_default();
    match outcome {
        Outcome::Complete => {
            let message = "Reached expected number of succeeded pods".to_owned();
            for type_ in ["SuccessCriteriaMet", "Complete"] {
                Condition { type_, holds: true, reason: "CompletionsReached", message: message.clone() }
                    .set_job(conditions, now);
            }
            status.completion_time = Some(seconds(now));
        }
        Outcome::Failed { reason, message } => {
            for type_ in ["FailureTarget", "Failed"] {
                Condition { type_, holds: true, reason, message: message.clone() }.set_job(conditions, now);
            }
        }
    }
    status.ready = Some(0);
    tracing::debug!(job = %job.name_any(), ?outcome, "a job ended");
}

/// Tells what the new status says and the old one did not.
fn tell(job: &Job, status: &JobStatus, cluster: &Cluster) {
    let old = job.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    for new in status.conditions.iter().flatten() {
        if old.iter().any(|old| old.type_ == new.type_ && old.status == new.status) {
            continue;
        }
        let message = new.message.clone().unwrap_or_default();
        let told = match (new.type_.as_str(), new.status.as_str(), new.reason.as_deref()) {
            ("Complete", "True", _) => Told::normal(Component::Job, "Completed", "Job completed".into()),
            ("Failed", "True", Some("BackoffLimitExceeded")) => {
                Told::warning(Component::Job, "BackoffLimitExceeded", message)
            }
            ("Failed", "True", Some("DeadlineExceeded")) => {
                Told::warning(Component::Job, "DeadlineExceeded", message)
            }
            ("Failed", "True", Some("PodFailurePolicy")) => {
                Told::warning(Component::Job, "PodFailurePolicy", message)
            }
            ("Suspended", "True", _) => Told::normal(Component::Job, "Suspended", message),
            ("Suspended", "False", _) => Told::normal(Component::Job, "Resumed", message),
            _ => continue,
        };
        cluster.events.tell(job, told);
    }
}

/// Takes the finalizer from pods that are counted, or need no more counting.
async fn untrack(cluster: &Cluster, pods: &[Arc<Pod>]) -> Result<(), Failure> {
    for pod in pods.iter().filter(|pod| pod.finalizers().iter().any(|own| own == TRACKING)) {
        let left: Vec<_> = pod.finalizers().iter().filter(|own| *own != TRACKING).collect();
        let patch = json!({"metadata": {"uid": pod.uid(), "finalizers": left}});
        cluster.patch(&cluster.pods, &**pod, &patch).await?;
        if left.is_empty() && pod.metadata.deletion_timestamp.is_some() {
            cluster.pods.removed(pod);
        }
    }
    Ok(())
}

/// Deletes a finished job when its time is over.
async fn expire(job: &Job, cluster: &Cluster, now: Timestamp) -> Result<Action, Failure> {
    let seconds = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let finished = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let finished = finished.filter(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed"));
    let finished =
        finished.filter_map(|condition| condition.last_transition_time.as_ref()).map(|time| time.0).max();
    let (Some(seconds), Some(finished)) = (seconds, finished) else { return Ok(Action::await_change()) };
    let left = SignedDuration::from_secs(seconds.into()) - now.duration_since(finished);
    if let Some(left) = Duration::try_from(left).ok().filter(|left| !left.is_zero()) {
        return Ok(Action::requeue(left));
    }
    cluster.delete(&cluster.jobs, job).await?;
    Ok(Action::await_change())
}
