//! Metrics of controllers' queues, with client-go's names.

use std::{collections::BTreeMap, hash::Hash, sync::Arc, time::Duration};

use clock::{HashMap, Instant};
use kubeapi::describe::exposition::{Histogram, Text, number};
use parking_lot::Mutex;

/// The bounds of histograms, seconds; client-go's.
const BOUNDS: &[f64] = &[1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0];

/// The queues by the names of their controllers. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkQueues(Arc<Mutex<BTreeMap<&'static str, SharedCounted>>>);

type SharedCounted = Arc<Mutex<Counted>>;

#[derive(Debug)]
struct Counted {
    depth: usize,
    adds: u64,
    retries: u64,
    waited: Histogram,
    worked: Histogram,
}

impl WorkQueues {
    /// Returns the queue of a controller.
    pub(crate) fn queue<K: Eq + Hash>(&self, name: &'static str) -> WorkQueue<K> {
        let counted = || {
            let (waited, worked) = (Histogram::new(BOUNDS), Histogram::new(BOUNDS));
            Arc::new(Mutex::new(Counted {
                depth: 0,
                adds: 0,
                retries: 0,
                waited,
                worked,
            }))
        };
        let counted = Arc::clone(self.0.lock().entry(name).or_insert_with(counted));
        WorkQueue(Arc::new(Queue {
            controller: name,
            waiting: Mutex::default(),
            counted,
        }))
    }

    pub(crate) fn write(&self, text: &mut Text) {
        let queues = self.0.lock();
        let mut depth = text.gauge(
            "workqueue_depth",
            "Objects that wait in a controller's queue, by the controller's name.",
        );
        for (name, queue) in queues.iter() {
            depth.sample(&[("name", name)], number(queue.lock().depth as u64));
        }
        let mut adds = text.counter(
            "workqueue_adds_total",
            "Objects added to a controller's queue.",
        );
        for (name, queue) in queues.iter() {
            adds.sample(&[("name", name)], number(queue.lock().adds));
        }
        let mut retries = text.counter(
            "workqueue_retries_total",
            "Failed syncs of a controller that are retried.",
        );
        for (name, queue) in queues.iter() {
            retries.sample(&[("name", name)], number(queue.lock().retries));
        }
        let mut waited = text.histogram(
            "workqueue_queue_duration_seconds",
            "Time that objects waited in a controller's queue.",
        );
        for (name, queue) in queues.iter() {
            waited.buckets(&[("name", name)], &queue.lock().waited);
        }
        let mut worked = text.histogram(
            "workqueue_work_duration_seconds",
            "Duration of a controller's syncs.",
        );
        for (name, queue) in queues.iter() {
            worked.buckets(&[("name", name)], &queue.lock().worked);
        }
    }
}

/// The counters of one queue; `K` identifies an object. Cheap to clone.
#[derive(Debug)]
pub(crate) struct WorkQueue<K>(Arc<Queue<K>>);

#[derive(Debug)]
struct Queue<K> {
    controller: &'static str,
    /// The time at which each waiting object was added; adding it again does not change that.
    waiting: Mutex<HashMap<K, Instant>>,
    counted: SharedCounted,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash> WorkQueue<K> {
    /// Returns the name of the controller.
    pub(crate) fn controller(&self) -> &'static str {
        self.0.controller
    }

    /// Counts an object that was added to the queue.
    pub(crate) fn count_added(&self, object: K) {
        let mut waiting = self.0.waiting.lock();
        let is_new = !waiting.contains_key(&object);
        if is_new {
            waiting.insert(object, Instant::now());
        }
        let mut counted = self.0.counted.lock();
        counted.adds += u64::from(is_new);
        counted.depth = waiting.len();
    }

    /// Counts an object that is taken from the queue.
    pub(crate) fn count_taken(&self, object: &K) {
        if let Some(since) = self.take_removed(object) {
            self.0.counted.lock().waited.observe(since.elapsed());
        }
    }

    /// Removes an object; returns since when it had waited.
    pub(crate) fn take_removed(&self, object: &K) -> Option<Instant> {
        let mut waiting = self.0.waiting.lock();
        let since = waiting.remove(object);
        self.0.counted.lock().depth = waiting.len();
        since
    }

    /// Records the duration of a reconciliation.
    pub(crate) fn record_duration(&self, took: Duration) {
        self.0.counted.lock().worked.observe(took);
    }

    /// Counts a failed reconciliation.
    pub(crate) fn count_retry(&self) {
        self.0.counted.lock().retries += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_added_twice_waits_once() {
        let queues = WorkQueues::default();
        let queue = queues.queue::<u8>("job");
        queue.count_added(1);
        queue.count_added(1);
        queue.count_added(2);
        let figures = |of: &WorkQueues| {
            let mut text = Text::default();
            of.write(&mut text);
            text.into_string()
        };
        let text = figures(&queues);
        assert!(text.contains("workqueue_depth{name=\"job\"} 2\n"), "{text}");
        assert!(
            text.contains("workqueue_adds_total{name=\"job\"} 2\n"),
            "{text}"
        );
        queue.count_taken(&1);
        queue.record_duration(Duration::from_millis(5));
        queue.count_retry();
        queue.count_added(1);
        queue.count_added(3);
        queue.take_removed(&3);
        let text = figures(&queues);
        for line in [
            "workqueue_depth{name=\"job\"} 2",
            "workqueue_adds_total{name=\"job\"} 4",
            "workqueue_retries_total{name=\"job\"} 1",
            "workqueue_queue_duration_seconds_count{name=\"job\"} 1",
            "workqueue_work_duration_seconds_bucket{name=\"job\",le=\"0.001\"} 0",
            "workqueue_work_duration_seconds_bucket{name=\"job\",le=\"0.01\"} 1",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
        }
    }
}
