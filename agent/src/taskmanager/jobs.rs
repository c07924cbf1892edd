//! The jobs of this node: which is next, which reports are still to be sent. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wire::node_job::{Action, ActionStatus, JobPath, Next};

/// The most jobs that are known: those that wait, and the last ones that have ended.
const MAX_JOBS: usize = 32;
/// How long a node may take for an action if the job does not say it.
const DEFAULT_TIMEOUT_SECONDS: u64 = 300;
/// The action with which a cloud of ours ends a job that was deleted.
const CANCEL: &str = "Cancel";

/// A job of this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Job {
    /// The resource of its messages.
    pub(super) path: String,
    /// The id of the message that began it, which reports name.
    pub(super) id: String,
    /// The spec.
    pub(super) spec: Value,
    /// The next action; `None` if the job has ended.
    pub(super) next: Option<String>,
    /// What was done.
    pub(super) reports: Vec<ActionStatus>,
    /// How many of the reports were sent.
    pub(super) sent: usize,
    /// Whether somebody on this node must confirm the next action.
    #[serde(default)]
    pub(super) waits: bool,
}

/// What a message of the cloud changes.
#[derive(Debug, PartialEq)]
pub(super) enum Received {
    /// The job is new, or has reports to send again: it is to be stored. An older job may have made room for it.
    Changed(Job, Option<Job>),
    /// The job was deleted in the cloud.
    Removed(Job),
    /// Nothing; why.
    Ignored(&'static str),
}

/// The jobs, oldest first.
#[derive(Debug, Default)]
pub(super) struct Jobs(Vec<Job>);

impl Jobs {
    /// Returns the jobs that were stored.
    pub(super) fn of(stored: impl IntoIterator<Item = Job>) -> Self {
        let known = |job: &Job| JobPath::parse(&job.path).is_some();
        Self(stored.into_iter().filter(known).collect())
    }

    /// Handles a message: `id` is that of the message, `action` its operation.
    pub(super) fn receive(
        &mut self,
        node: &str,
        id: &str,
        path: &str,
        action: &str,
        spec: Value,
    ) -> Received {
        let Some(parsed) = JobPath::parse(path) else {
            return Received::Ignored("its path is not that of a node job");
        };
        if parsed.node != node {
            return Received::Ignored("it is for another node");
        }
        if action == CANCEL {
            let place = self.0.iter().position(|job| job.path == path);
            return place.map_or(Received::Ignored("the job is unknown"), |place| {
                Received::Removed(self.0.remove(place))
            });
        }
        if let Some(job) = self
            .0
            .iter_mut()
            .find(|job| job.path == path && job.id == id)
        {
            job.sent = 0;
            return Received::Changed(job.clone(), None);
        }
        self.0.retain(|job| job.path != path);
        let mut job = Job {
            path: path.to_owned(),
            id: id.to_owned(),
            spec,
            next: Some(action.to_owned()),
            reports: Vec::new(),
            sent: 0,
            waits: false,
        };
        let mut forgotten = None;
        if Action::parse(action)
            .and_then(|action| parsed.kind.next(action, true))
            .is_none()
        {
            job.end(action, format!("{} has no such action", parsed.kind.kind()));
        } else if self.0.len() >= MAX_JOBS {
            forgotten = self.take_ended();
            if forgotten.is_none() {
                let why =
                    format!("{MAX_JOBS} other jobs wait on this node; create the job again later");
                job.end(action, why);
            }
        }
        self.0.push(job.clone());
        Received::Changed(job, forgotten)
    }

    /// Removes the oldest job that has ended.
    fn take_ended(&mut self) -> Option<Job> {
        let has_ended = |job: &Job| job.next.is_none() && job.sent == job.reports.len();
        let ended = self.0.iter().position(has_ended);
        ended.map(|place| self.0.remove(place))
    }

    /// Returns the job whose action is next: one that has begun before the others.
    pub(super) fn due(&self) -> Option<Job> {
        let due = || self.0.iter().filter(|job| job.next.is_some() && !job.waits);
        let begun = due().find(|job| !job.reports.is_empty());
        begun.or_else(|| due().next()).cloned()
    }

    /// Lets the oldest job continue that waits for a confirmation; returns it.
    pub(super) fn confirm(&mut self) -> Option<Job> {
        let job = self.0.iter_mut().find(|job| job.waits)?;
        job.waits = false;
        Some(job.clone())
    }

    /// Reports whether the job still exists.
    pub(super) fn has(&self, job: &Job) -> bool {
        self.0
            .iter()
            .any(|known| known.path == job.path && known.id == job.id)
    }

    /// Adds the outcome of the job's action; returns the job to store, `None` if it is gone.
    pub(super) fn record(&mut self, job: &Job, outcome: ActionStatus) -> Option<Job> {
        let job = self
            .0
            .iter_mut()
            .find(|known| known.path == job.path && known.id == job.id)?;
        let kind = JobPath::parse(&job.path)?.kind;
        let next =
            Action::parse(&outcome.action).and_then(|action| kind.next(action, outcome.succ));
        job.next = match next {
            Some(Next::Action(action)) => Some(action.as_str().to_owned()),
            Some(Next::End(_)) | None => None,
        };
        let is_wait = outcome.action == Action::WaitingConfirmation.as_str() && outcome.succ;
        job.waits = is_wait && job.spec["requireConfirmation"] == true;
        job.reports.push(outcome);
        Some(job.clone())
    }

    /// Returns the first report that was not sent, with its job.
    pub(super) fn unsent(&self) -> Option<(Job, ActionStatus)> {
        let job = self.0.iter().find(|job| job.sent < job.reports.len())?;
        Some((job.clone(), job.reports.get(job.sent)?.clone()))
    }

    /// Notes that a report was sent; returns the job to store. A job that was told again in the meantime begins with its first report.
    pub(super) fn confirm_sent(&mut self, sent: &Job) -> Option<Job> {
        let same = |known: &&mut Job| known.path == sent.path && known.id == sent.id;
        let job = self
            .0
            .iter_mut()
            .find(same)
            .filter(|known| known.sent == sent.sent)?;
        job.sent += 1;
        Some(job.clone())
    }
}

/// Returns how long the node may take to connect after a change: half of the job's time for an action, so that the end of the action can be
/// reported within it.
pub(super) fn connect_limit(timeout_seconds: Option<u64>) -> Duration {
    let seconds = timeout_seconds.filter(|seconds| *seconds > 0);
    Duration::from_secs(seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS).div_ceil(2))
}

impl Job {
    /// Ends the job before it has begun.
    fn end(&mut self, action: &str, reason: String) {
        self.next = None;
        self.reports.push(ActionStatus {
            action: action.to_owned(),
            succ: false,
            finish_time: clock::now().to_string(),
            reason,
            extend: String::new(),
        });
    }
}
