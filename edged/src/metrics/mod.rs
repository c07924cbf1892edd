//! Metrics of EdgeD's own work, served by `server`.
//!
//! Recording is cheap: a lock around a few integers, without any timer.

mod operations;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use clock::Instant;
use jiff::Timestamp;
pub(crate) use kubeapi::describe::exposition::Histogram;
use parking_lot::Mutex;

pub(crate) use self::operations::{Operation, Operations};

/// Histogram buckets of short operations, in seconds: the defaults of Prometheus' clients.
pub(crate) const SHORT_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];
/// Histogram buckets of pod starts, which may wait for the network, in seconds: the kubelet's.
const POD_START_BUCKETS: &[f64] = &[
    0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0,
    300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0,
];

/// Records metrics other than those of runtime calls. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Arc<Mutex<MetricValues>>);

/// Values of the metrics.
#[derive(Clone, Debug)]
pub(crate) struct MetricValues {
    /// Time from the first sight of a pod until it runs.
    pub(crate) pod_start: Histogram,
    /// Duration of pod syncs by operation type: `sync`, `kill`.
    pub(crate) pod_worker: BTreeMap<&'static str, Histogram>,
    /// Duration of comparisons of the runtime's lists.
    pub(crate) relist: Histogram,
    /// Time between two comparisons.
    pub(crate) relist_interval: Histogram,
    /// When the last comparison ended.
    pub(crate) last_relist: Option<(Instant, Timestamp)>,
}

impl Default for MetricValues {
    fn default() -> Self {
        Self {
            pod_start: Histogram::new(POD_START_BUCKETS),
            pod_worker: BTreeMap::new(),
            relist: Histogram::new(SHORT_BUCKETS),
            relist_interval: Histogram::new(SHORT_BUCKETS),
            last_relist: None,
        }
    }
}

impl Metrics {
    /// Records the time from the first sight of a pod until it runs.
    pub(crate) fn pod_started(&self, took: Duration) {
        self.0.lock().pod_start.observe(took);
    }

    /// Records the duration of a pod sync.
    pub(crate) fn pod_synced(&self, operation: &'static str, took: Duration) {
        let mut values = self.0.lock();
        values
            .pod_worker
            .entry(operation)
            .or_insert_with(|| Histogram::new(SHORT_BUCKETS))
            .observe(took);
    }

    /// Records the duration of a comparison of the runtime's lists.
    pub(crate) fn record_relist(&self, took: Duration) {
        let mut values = self.0.lock();
        let now = Instant::now();
        values.relist.observe(took);
        if let Some((last, _)) = values.last_relist {
            values
                .relist_interval
                .observe(now.saturating_duration_since(last));
        }
        values.last_relist = Some((now, clock::now()));
    }

    /// Returns the current values.
    pub(crate) fn read(&self) -> MetricValues {
        self.0.lock().clone()
    }
}
