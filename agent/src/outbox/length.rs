//! The length of an outbox, for metrics.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use componentbase::Queue;

/// The number of messages in memory and on disk. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Length {
    name: &'static str,
    waiting: Arc<AtomicUsize>,
    bound: usize,
}

impl Length {
    /// Creates the length of an empty outbox. `what` is its name in the configuration.
    pub(super) fn new(what: &'static str, bound: usize) -> Self {
        let name = match what {
            "events" => "outbox/events",
            "uploads" => "outbox/uploads",
            other => other,
        };
        Self {
            name,
            waiting: Arc::default(),
            bound,
        }
    }

    pub(super) fn set(&self, waiting: usize) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// Returns the length as a queue of the agent.
    pub(crate) fn queue(&self) -> Queue {
        Queue {
            name: self.name,
            waiting: self.waiting.load(Ordering::Relaxed),
            bound: self.bound,
        }
    }
}
