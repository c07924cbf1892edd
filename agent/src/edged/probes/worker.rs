//! The task of one probe of one container.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::{
    ProbeKind, Probes, Resolved,
    check::check,
    outcome::Outcome,
    timing::{Tally, Timing},
};
use crate::edged::{
    events::{Severity, reason},
    pods::trigger::Trigger,
};

/// A probe that did not work is tried so often before the next period.
const MAX_TRIES: usize = 3;

/// One probe of one container.
pub(super) struct Job {
    /// Its pod.
    pub(super) pod: Arc<Pod>,
    /// The container's name.
    pub(super) container: String,
    /// The runtime's id of it.
    pub(super) id: String,
    /// What it is for.
    pub(super) kind: ProbeKind,
    /// What it does, or why it cannot; it may change.
    pub(super) target: watch::Receiver<Resolved>,
    /// Its numbers.
    pub(super) timing: Timing,
    /// How long until the first.
    pub(super) wait: Duration,
}

/// Probes until it is ended from outside, or its container has to end.
pub(super) async fn run(probes: Arc<Probes>, job: Job) {
    let mut tally = Tally::new(job.timing);
    let mut ticks = interval_at(Instant::now() + job.wait, job.timing.period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let begun = Instant::now();
        let outcome = run_probe(&probes, &job).await;
        probes.tally(&job, &outcome, begun.elapsed());
        record_event(&probes, &job, &outcome);
        let success = match outcome {
            Outcome::Success | Outcome::Warning(_) => true,
            Outcome::Failure(_) => false,
            Outcome::Error(_) => continue,
        };
        let Some(verdict) = tally.take(success) else { continue };
        let uid = job.pod.metadata.uid.as_deref().unwrap_or_default();
        if probes.record(uid, &job.id, job.kind, verdict) {
            let _ = probes.deps.triggers.send(Trigger::of(&job.pod)).await;
        }
        if !verdict && job.kind != ProbeKind::Readiness {
            return;
        }
    }
}

async fn run_probe(probes: &Probes, job: &Job) -> Outcome {
    let target = match job.target.borrow().clone() {
        Ok(target) => target,
        Err(why) => return Outcome::Error(why),
    };
    let mut outcome = Outcome::Error(String::new());
    for _ in 0..MAX_TRIES {
        outcome = check(&probes.deps.runtime, &job.id, &target, job.timing.timeout).await;
        if !matches!(outcome, Outcome::Error(_)) {
            break;
        }
    }
    outcome
}

fn record_event(probes: &Probes, job: &Job, outcome: &Outcome) {
    let kind = job.kind;
    let (reason, message) = match outcome {
        Outcome::Success => return,
        Outcome::Warning(text) => (reason::PROBE_WARNING, format!("{kind} probe warning: {text}")),
        Outcome::Failure(text) => (reason::UNHEALTHY, format!("{kind} probe failed: {text}")),
        Outcome::Error(text) => (reason::UNHEALTHY, format!("{kind} probe errored: {text}")),
    };
    probes.deps.events.container(&job.pod, &job.container, Severity::Warning, reason, message);
}
