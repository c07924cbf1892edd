//! How a job ends, and why. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    batch::v1::{Job, JobSpec, JobStatus},
    core::v1::Pod,
};

use super::{
    policy::{self, Action},
    view::View,
};
use crate::controllers::workloads::pods::phase;

/// How a job ends. Both are first told as what is aimed at, and then, when no pod is left, as what is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    /// Whether it ends well.
    pub(super) well: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Ending {
    fn badly(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self { well: false, reason: reason.to_owned(), message: message.into() })
    }

    fn well(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self { well: true, reason: reason.to_owned(), message: message.into() })
    }

    /// All that was to be done is done.
    pub(super) fn completed() -> Option<Self> {
        Self::well("CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// The condition that says so while pods are left.
    pub(super) fn target(&self) -> &'static str {
        if self.well { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    /// The condition that says so in the end.
    pub(super) fn condition(&self) -> &'static str {
        if self.well { "Complete" } else { "Failed" }
    }

    /// What the status says of it already.
    pub(super) fn told(status: &JobStatus) -> Option<Self> {
        ["SuccessCriteriaMet", "FailureTarget"].into_iter().find_map(|target| {
            let mut conditions = status.conditions.iter().flatten();
            let told = conditions.find(|told| told.type_ == target && told.status == "True")?;
            Some(Self {
                well: target == "SuccessCriteriaMet",
                reason: told.reason.clone().unwrap_or_default(),
                message: told.message.clone().unwrap_or_default(),
            })
        })
    }

    /// What follows from the pods and the time; that all is done is not asked here.
    pub(super) fn new(view: &View<'_>, status: &JobStatus, now: Timestamp) -> Option<Self> {
        let spec = view.spec;
        let fatal = |pod: &Pod| match policy::on_failure(spec, pod) {
            Action::FailJob(message) if phase(pod) == "Failed" => Some(message),
            _ => None,
        };
        if let Some(message) = view.pods.iter().find_map(|pod| fatal(pod)) {
            return Self::badly("PodFailurePolicy", message);
        }
        if view.failed > backoff_limit(spec) || restarted_too_often(view) {
            return Self::badly("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        if deadline(spec, status, now).is_some_and(|left| left.is_zero()) {
            return Self::badly("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        if !view.is_indexed() {
            return None;
        }
        let lost = view.failed_indexes.count();
        if spec.max_failed_indexes.is_some_and(|most| lost > most) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return Self::badly("MaxFailedIndexesExceeded", message);
        }
        if lost > 0 && view.succeeded.saturating_add(lost) >= spec.completions.unwrap_or_default() {
            return Self::badly("FailedIndexes", "Job has failed indexes");
        }
        Self::well("SuccessPolicy", policy::success(spec, &view.succeeded_indexes)?)
    }
}

fn backoff_limit(spec: &JobSpec) -> i32 {
    let default = if spec.backoff_limit_per_index.is_some() { i32::MAX } else { 6 };
    spec.backoff_limit.unwrap_or(default)
}

/// Containers that begin again in their pod count as pods do.
fn restarted_too_often(view: &View<'_>) -> bool {
    let template = view.spec.template.spec.as_ref();
    if template.is_none_or(|spec| spec.restart_policy.as_deref() != Some("OnFailure")) {
        return false;
    }
    let running = view.pods.iter().filter(|pod| matches!(phase(pod), "Running" | "Pending"));
    let restarts = running.map(|pod| restarts(pod)).fold(0, i32::saturating_add);
    restarts > 0 && restarts >= backoff_limit(view.spec)
}

fn restarts(pod: &Pod) -> i32 {
    let Some(status) = &pod.status else { return 0 };
    let containers = [&status.container_statuses, &status.init_container_statuses];
    let counts = containers.into_iter().flatten().flatten().map(|container| container.restart_count);
    // nodes write these: they may be anything
    counts.fold(0, i32::saturating_add)
}

/// How long until the job's deadline: zero when it is past. A suspended job's clock stands still.
pub(super) fn deadline(spec: &JobSpec, status: &JobStatus, now: Timestamp) -> Option<Duration> {
    let seconds = spec.active_deadline_seconds.filter(|_| spec.suspend != Some(true))?;
    let started = status.start_time.as_ref()?.0;
    let left = SignedDuration::from_secs(seconds).saturating_sub(now.duration_since(started));
    Some(Duration::try_from(left).unwrap_or_default())
}

/// Whether the job's end was told.
pub(super) fn is_finished(job: &Job) -> bool {
    let mut conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })
}
