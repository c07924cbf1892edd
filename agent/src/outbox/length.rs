//! How much waits in an outbox, for whoever shows it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::rt::Queue;

/// The length of an outbox: what waits in memory and on disk. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Length {
    name: &'static str,
    waiting: Arc<AtomicUsize>,
    bound: usize,
}

impl Length {
    /// Of an outbox that holds nothing yet. `what` it holds, as in its configuration.
    pub(super) fn new(what: &'static str, bound: usize) -> Self {
        let name = match what {
            "events" => "outbox/events",
            "uploads" => "outbox/uploads",
            other => other,
        };
        Self { name, waiting: Arc::default(), bound }
    }

    pub(super) fn set(&self, waiting: usize) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// As a queue of the agent.
    pub(crate) fn queue(&self) -> Queue {
        Queue { name: self.name, waiting: self.waiting.load(Ordering::Relaxed), bound: self.bound }
    }
}
