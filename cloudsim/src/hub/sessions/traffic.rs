//! What goes through sessions, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::metrics::HubMetrics;

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many.
    pub messages: u64,
    /// Their sizes together.
    pub bytes: u64,
}

/// Counts of one session, kept while it runs.
#[derive(Debug, Default)]
pub(in crate::hub) struct Traffic {
    /// Those of all sessions, which stay.
    pub(super) all: HubMetrics,
    pub(super) sent: [AtomicU64; 2],
    pub(super) received: [AtomicU64; 2],
    pub(super) queue: AtomicU64,
}

impl Traffic {
    /// A message went to the node.
    pub(in crate::hub) fn sent(&self, bytes: usize) {
        add(&self.sent, bytes);
        self.all.sent(bytes);
    }

    /// A message came from the node.
    pub(in crate::hub) fn received(&self, bytes: usize) {
        add(&self.received, bytes);
        self.all.received(bytes);
    }

    /// So much waits to go down.
    pub(in crate::hub) fn queue(&self, length: usize) {
        self.queue.store(length as u64, Ordering::Relaxed);
    }
}

fn add([messages, sum]: &[AtomicU64; 2], bytes: usize) {
    messages.fetch_add(1, Ordering::Relaxed);
    sum.fetch_add(bytes as u64, Ordering::Relaxed);
}

pub(super) fn read([messages, bytes]: &[AtomicU64; 2]) -> Count {
    Count { messages: messages.load(Ordering::Relaxed), bytes: bytes.load(Ordering::Relaxed) }
}
