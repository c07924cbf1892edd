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
    timing::{ResultStreak, Timing},
};
use crate::{
    events::{EventType, reason},
    trigger::Trigger,
};

/// How often a probe that could not be run is tried in a period.
const MAX_TRIES: usize = 3;

/// The probe that a task runs.
pub(super) struct Job {
    /// The pod.
    pub(super) pod: Arc<Pod>,
    /// The container's name.
    pub(super) container: String,
    /// The runtime's id of the container.
    pub(super) id: String,
    /// The kind of the probe.
    pub(super) kind: ProbeKind,
    /// The target, or why it cannot be resolved; it may change.
    pub(super) target: watch::Receiver<Resolved>,
    /// Timing and thresholds.
    pub(super) timing: Timing,
    /// Time until the first run.
    pub(super) wait: Duration,
}

/// Runs the probe until the task is aborted or the container has to be restarted.
pub(super) async fn run(probes: Arc<Probes>, job: Job) {
    let mut streak = ResultStreak::new(job.timing);
    let mut ticks = interval_at(Instant::now() + job.wait, job.timing.period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let begun = Instant::now();
        let outcome = run_probe(&probes, &job).await;
        probes.count(&job, &outcome, begun.elapsed());
        record_event(&probes, &job, &outcome);
        let success = match outcome {
            Outcome::Success | Outcome::Warning(_) => true,
            Outcome::Failure(_) => false,
            Outcome::Error(_) => continue,
        };
        let Some(result) = streak.add(success) else {
            continue;
        };
        let uid = job.pod.metadata.uid.as_deref().unwrap_or_default();
        if probes.record(uid, &job.id, job.kind, result) {
            let _ = probes.deps.triggers.send(Trigger::of(&job.pod)).await;
        }
        if !result && job.kind != ProbeKind::Readiness {
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
        let begun = Instant::now();
        outcome = check(&probes.deps.runtime, &job.id, &target, job.timing.timeout).await;
        outcome = outcome.unless_stalled(job.timing.timeout, begun.elapsed());
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
        Outcome::Warning(text) => (
            reason::PROBE_WARNING,
            format!("{kind} probe warning: {text}"),
        ),
        Outcome::Failure(text) => (reason::UNHEALTHY, format!("{kind} probe failed: {text}")),
        Outcome::Error(text) => (reason::UNHEALTHY, format!("{kind} probe errored: {text}")),
    };
    probes.deps.events.container(
        &job.pod,
        &job.container,
        EventType::Warning,
        reason,
        message,
    );
}
