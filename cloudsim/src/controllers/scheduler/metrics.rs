//! Metrics of the scheduler, with kube-scheduler's names.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use kubeapi::describe::exposition::{Text, number};

/// The result of an attempt to find a node for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The pod was bound.
    Scheduled,
    /// No node fits.
    Unschedulable,
    /// An API call failed.
    Error,
}

/// The labels of queues and of results.
const QUEUES: [&str; 3] = ["active", "backoff", "unschedulable"];
const RESULTS: [(Attempt, &str); 3] = [
    (Attempt::Scheduled, "scheduled"),
    (Attempt::Unschedulable, "unschedulable"),
    (Attempt::Error, "error"),
];

/// The counters of the scheduler. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchedulerMetrics(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    pending: [AtomicU64; QUEUES.len()],
    attempts: [AtomicU64; RESULTS.len()],
}

impl SchedulerMetrics {
    /// Sets the number of active, backed-off and unschedulable pods.
    pub(crate) fn pending(&self, counts: [usize; 3]) {
        for (slot, count) in self.0.pending.iter().zip(counts) {
            slot.store(count as u64, Ordering::Relaxed);
        }
    }

    /// Counts an attempt.
    pub(crate) fn attempt(&self, result: Attempt) {
        for ((one, _), count) in RESULTS.iter().zip(&self.0.attempts) {
            count.fetch_add(u64::from(*one == result), Ordering::Relaxed);
        }
    }

    pub(crate) fn write(&self, text: &mut Text) {
        let read = |count: &AtomicU64| number(count.load(Ordering::Relaxed));
        let mut pending = text.gauge(
            "scheduler_pending_pods",
            "Pods that wait for a node: next attempt (active), delayed attempt (backoff), change in the cluster (unschedulable).",
        );
        for (queue, count) in QUEUES.into_iter().zip(&self.0.pending) {
            pending.sample(&[("queue", queue)], read(count));
        }
        let mut attempts = text.counter(
            "scheduler_schedule_attempts_total",
            "Attempts to find a node for a pod, by result: scheduled, unschedulable, error.",
        );
        for ((_, result), count) in RESULTS.iter().zip(&self.0.attempts) {
            attempts.sample(
                &[("profile", "default-scheduler"), ("result", result)],
                read(count),
            );
        }
    }
}
