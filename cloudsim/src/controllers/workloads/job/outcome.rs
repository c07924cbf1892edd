//! The outcome of a job and its reason. Pure.

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

/// The outcome of a job. Its target condition is set first, and the final condition when no pod is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobOutcome {
    /// Whether the job has succeeded.
    pub(super) is_success: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl JobOutcome {
    fn badly(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self {
            is_success: false,
            reason: reason.to_owned(),
            message: message.into(),
        })
    }

    fn success(reason: &str, message: impl Into<String>) -> Option<Self> {
        Some(Self {
            is_success: true,
            reason: reason.to_owned(),
            message: message.into(),
        })
    }

    /// Returns the outcome of reaching the wanted completions.
    pub(super) fn completed() -> Option<Self> {
        Self::success(
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        )
    }

    /// Returns the condition while pods are left.
    pub(super) fn target(&self) -> &'static str {
        if self.is_success {
            "SuccessCriteriaMet"
        } else {
            "FailureTarget"
        }
    }

    /// Returns the final condition.
    pub(super) fn condition(&self) -> &'static str {
        if self.is_success {
            "Complete"
        } else {
            "Failed"
        }
    }

    /// Returns the outcome that the status has already.
    pub(super) fn from_status(status: &JobStatus) -> Option<Self> {
        ["SuccessCriteriaMet", "FailureTarget"]
            .into_iter()
            .find_map(|target| {
                let mut conditions = status.conditions.iter().flatten();
                let condition = conditions
                    .find(|condition| condition.type_ == target && condition.status == "True")?;
                Some(Self {
                    is_success: target == "SuccessCriteriaMet",
                    reason: condition.reason.clone().unwrap_or_default(),
                    message: condition.message.clone().unwrap_or_default(),
                })
            })
    }

    /// Returns the outcome that follows from the pods and the time; completions are not checked here.
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
            return Self::badly(
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            );
        }
        if deadline(spec, status, now).is_some_and(|left| left.is_zero()) {
            return Self::badly(
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            );
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
        Self::success(
            "SuccessPolicy",
            policy::success(spec, &view.succeeded_indexes)?,
        )
    }
}

fn backoff_limit(spec: &JobSpec) -> i32 {
    let default = if spec.backoff_limit_per_index.is_some() {
        i32::MAX
    } else {
        6
    };
    spec.backoff_limit.unwrap_or(default)
}

/// Reports whether restarts of containers exceed the back-off limit; they count as failed pods do.
fn restarted_too_often(view: &View<'_>) -> bool {
    let template = view.spec.template.spec.as_ref();
    if template.is_none_or(|spec| spec.restart_policy.as_deref() != Some("OnFailure")) {
        return false;
    }
    let running = view
        .pods
        .iter()
        .filter(|pod| matches!(phase(pod), "Running" | "Pending"));
    let restarts = running
        .map(|pod| restarts(pod))
        .fold(0, i32::saturating_add);
    restarts > 0 && restarts >= backoff_limit(view.spec)
}

fn restarts(pod: &Pod) -> i32 {
    let Some(status) = &pod.status else { return 0 };
    let containers = [&status.container_statuses, &status.init_container_statuses];
    let counts = containers
        .into_iter()
        .flatten()
        .flatten()
        .map(|container| container.restart_count);
    // nodes report these numbers, which may be anything
    counts.fold(0, i32::saturating_add)
}

/// Returns how long until the job's deadline: zero if it has passed. It does not run while the job is suspended.
pub(super) fn deadline(spec: &JobSpec, status: &JobStatus, now: Timestamp) -> Option<Duration> {
    let seconds = spec
        .active_deadline_seconds
        .filter(|_| spec.suspend != Some(true))?;
    let started = status.start_time.as_ref()?.0;
    let left = SignedDuration::from_secs(seconds).saturating_sub(now.duration_since(started));
    Some(Duration::try_from(left).unwrap_or_default())
}

/// Reports whether the job has a final condition.
pub(super) fn is_finished(job: &Job) -> bool {
    let mut conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| {
        matches!(condition.type_.as_str(), "Complete" | "Failed") && condition.status == "True"
    })
}
