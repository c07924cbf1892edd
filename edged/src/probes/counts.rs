//! Counters of probe outcomes, for metrics.

use std::time::Duration;

use super::{ProbeKind, Probes, outcome::Outcome, worker::Job};
use crate::metrics::{Histogram, SHORT_BUCKETS};

/// Counters of one probe of a container, kept over restarts of the container.
#[derive(Clone, Debug)]
pub(crate) struct ProbeCounts {
    /// The pod's namespace.
    pub(crate) namespace: String,
    /// The pod's name.
    pub(crate) pod: String,
    /// The pod's uid.
    pub(crate) uid: String,
    /// The container's name.
    pub(crate) container: String,
    /// The kind of the probe.
    pub(crate) kind: ProbeKind,
    /// Number of successes.
    pub(crate) successful: u64,
    /// Number of failures.
    pub(crate) failed: u64,
    /// Number of probes that could not be run.
    pub(crate) unknown: u64,
    /// Duration of probes that did not fail; a failure may just last as long as its timeout.
    pub(crate) took: Histogram,
}

impl ProbeCounts {
    fn of(job: &Job) -> Self {
        let meta = &job.pod.metadata;
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            pod: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            container: job.container.clone(),
            kind: job.kind,
            successful: 0,
            failed: 0,
            unknown: 0,
            took: Histogram::new(SHORT_BUCKETS),
        }
    }

    fn count(&mut self, outcome: &Outcome, took: Duration) {
        match outcome {
            Outcome::Success | Outcome::Warning(_) => self.successful += 1,
            Outcome::Failure(_) => {
                self.failed += 1;
                return;
            }
            Outcome::Error(_) => self.unknown += 1,
        }
        self.took.observe(took);
    }
}

impl Probes {
    /// Counts an outcome. Counters are removed with their pod.
    pub(super) fn count(&self, job: &Job, outcome: &Outcome, took: Duration) {
        let mut pods = self.pods.lock();
        let uid = job.pod.metadata.uid.as_deref().unwrap_or_default();
        let Some(probes) = pods.get_mut(uid) else {
            return;
        };
        let key = (job.container.clone(), job.kind);
        probes
            .counts
            .entry(key)
            .or_insert_with(|| ProbeCounts::of(job))
            .count(outcome, took);
    }

    /// Returns the counters of all probes, sorted by namespace, pod, container and kind.
    pub(crate) fn counts(&self) -> Vec<ProbeCounts> {
        let mut all: Vec<_> = self
            .pods
            .lock()
            .values()
            .flat_map(|probes| probes.counts.values().cloned())
            .collect();
        all.sort_by(|a, b| {
            (&a.namespace, &a.pod, &a.uid, &a.container, a.kind).cmp(&(
                &b.namespace,
                &b.pod,
                &b.uid,
                &b.container,
                b.kind,
            ))
        });
        all
    }
}
