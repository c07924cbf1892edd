//! Metrics of modules for `/metrics`.

use std::{fmt, sync::Arc};

use tokio::sync::mpsc;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only increases.
    Counter,
    /// It increases and decreases.
    Gauge,
}

/// A metric with its samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name, without labels.
    pub name: &'static str,
    /// The type.
    pub kind: MetricKind,
    /// The help text.
    pub help: &'static str,
    /// The labels and the value of each sample.
    pub samples: Vec<(Vec<(&'static str, String)>, u64)>,
}

impl Metric {
    /// Creates a counter without samples.
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind: MetricKind::Counter,
            help,
            samples: Vec::new(),
        }
    }

    /// Creates a gauge without samples.
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind: MetricKind::Gauge,
            help,
            samples: Vec::new(),
        }
    }

    /// Adds a sample.
    pub fn with(mut self, labels: &[(&'static str, &str)], figure: u64) -> Self {
        let labels = labels
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()))
            .collect();
        self.samples.push((labels, figure));
        self
    }

    /// Adds the only sample, without labels.
    pub fn of(self, figure: u64) -> Self {
        self.with(&[], figure)
    }
}

/// The fill level of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The name, as the label `queue` has it.
    pub name: &'static str,
    /// The number of waiting items.
    pub waiting: usize,
    /// The most items that may wait.
    pub bound: usize,
}

impl Queue {
    /// Returns the level of a channel, as long as it has a sender.
    pub fn of<T>(name: &'static str, sender: &mpsc::WeakSender<T>) -> Option<Self> {
        let sender = sender.upgrade()?;
        let bound = sender.max_capacity();
        Some(Self {
            name,
            waiting: bound - sender.capacity(),
            bound,
        })
    }
}

/// Collects the metrics of all modules but EdgeD; its argument are the queues of the caller. Cheap to clone.
#[derive(Clone)]
pub struct Collector(Arc<dyn Fn(Vec<Queue>) -> Vec<Metric> + Send + Sync>);

impl Collector {
    /// Creates a collector from a function, whose argument are the queues of the caller.
    pub fn new(collect: impl Fn(Vec<Queue>) -> Vec<Metric> + Send + Sync + 'static) -> Self {
        Self(Arc::new(collect))
    }

    /// Returns the current metrics.
    pub fn collect(&self, queues: Vec<Queue>) -> Vec<Metric> {
        (self.0)(queues)
    }
}

impl Default for Collector {
    /// Creates a collector without metrics.
    fn default() -> Self {
        Self::new(|_| Vec::new())
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_reports_its_level_and_keeps_no_channel_open() {
        let (sender, mut receiver) = mpsc::channel(3);
        let weak = sender.downgrade();
        sender.try_send(()).unwrap();
        assert_eq!(
            Queue::of("a", &weak),
            Some(Queue {
                name: "a",
                waiting: 1,
                bound: 3
            })
        );
        drop(sender);
        assert_eq!(Queue::of("a", &weak), None);
        receiver.try_recv().unwrap();
        assert_eq!(
            receiver.try_recv(),
            Err(mpsc::error::TryRecvError::Disconnected)
        );
    }
}
