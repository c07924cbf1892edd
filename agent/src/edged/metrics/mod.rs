//! What EdgeD counts of its own work, for whoever scrapes it; shown by `server`.
//!
//! Counting is cheap: a lock around a few integers, and nothing that ticks by itself.

mod operations;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
pub(crate) use kubeapi::exposition::Histogram;
use parking_lot::Mutex;

pub(crate) use self::operations::{Operation, Operations};

/// Bounds of what is quick, in seconds: those of Prometheus' own clients.
pub(crate) const QUICK: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Bounds of what may wait for the network, in seconds: the kubelet's for the start of pods.
const PATIENT: &[f64] = &[
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0,
    480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// What is counted, beside the runtime's operations. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Arc<Mutex<Counted>>);

/// The figures.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// From the first sight of a pod until it runs.
    pub(crate) pod_start: Histogram,
    /// Syncs of pods, by what for: `sync`, `kill`.
    pub(crate) pod_worker: BTreeMap<&'static str, Histogram>,
    /// Comparisons of the runtime's lists.
    pub(crate) relist: Histogram,
    /// From one to the next.
    pub(crate) relist_interval: Histogram,
    /// When the last one was done.
    pub(crate) last_relist: Option<(Instant, Timestamp)>,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            pod_start: Histogram::new(PATIENT),
            pod_worker: BTreeMap::new(),
            relist: Histogram::new(QUICK),
            relist_interval: Histogram::new(QUICK),
            last_relist: None,
        }
    }
}

impl Metrics {
    /// A pod runs, so long after it was seen first.
    pub(crate) fn pod_started(&self, took: Duration) {
        self.0.lock().pod_start.observe(took);
    }

    /// A pod was synced.
    pub(crate) fn pod_worked(&self, operation: &'static str, took: Duration) {
        let mut counted = self.0.lock();
        counted.pod_worker.entry(operation).or_insert_with(|| Histogram::new(QUICK)).observe(took);
    }

    /// The runtime's lists were compared.
    pub(crate) fn relisted(&self, took: Duration) {
        let mut counted = self.0.lock();
        let now = Instant::now();
        counted.relist.observe(took);
        if let Some((last, _)) = counted.last_relist {
            counted.relist_interval.observe(now.saturating_duration_since(last));
        }
        counted.last_relist = Some((now, Timestamp::now()));
    }

    /// The figures as they are.
    pub(crate) fn read(&self) -> Counted {
        self.0.lock().clone()
    }
}
