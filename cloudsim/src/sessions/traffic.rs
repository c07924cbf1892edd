//! Counters of sessions' traffic.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{metrics::HubMetrics, node_session::Count};

/// The counters of one session.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// The counters of all sessions, which outlive it.
    pub(super) all: HubMetrics,
    pub(super) sent: [AtomicU64; 2],
    pub(super) received: [AtomicU64; 2],
    pub(super) queue: AtomicU64,
}

impl Traffic {
    /// Counts a message to the node.
    pub(crate) fn count_sent(&self, bytes: usize) {
        add(&self.sent, bytes);
        self.all.count_sent(bytes);
    }

    /// Counts a message from the node.
    pub(crate) fn count_received(&self, bytes: usize) {
        add(&self.received, bytes);
        self.all.count_received(bytes);
    }

    /// Sets how much waits to be sent.
    pub(crate) fn queue(&self, length: usize) {
        self.queue.store(length as u64, Ordering::Relaxed);
    }
}

fn add([messages, sum]: &[AtomicU64; 2], bytes: usize) {
    messages.fetch_add(1, Ordering::Relaxed);
    sum.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Returns the present values.
pub(super) fn read([messages, bytes]: &[AtomicU64; 2]) -> Count {
    Count {
        messages: messages.load(Ordering::Relaxed),
        bytes: bytes.load(Ordering::Relaxed),
    }
}
