//! Counters and recordings of sessions' traffic.

use std::sync::atomic::{AtomicU64, Ordering};

use record::{ConnectionRecorder, Side};
use wire::Message;

use super::{metrics::HubMetrics, node_session::Count};

/// The counters of one session, and its recording.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// The counters of all sessions, which outlive it.
    pub(super) all: HubMetrics,
    pub(super) sent: [AtomicU64; 2],
    pub(super) received: [AtomicU64; 2],
    pub(super) queue: AtomicU64,
    pub(super) recorder: ConnectionRecorder,
}

impl Traffic {
    /// Counts a message to the node, and records it.
    pub(crate) fn count_sent(&self, message: &Message, bytes: usize) {
        self.recorder.message(Side::Cloud, message, bytes);
        add(&self.sent, bytes);
        self.all.count_sent(bytes);
    }

    /// Counts a message from the node, and records it.
    pub(crate) fn count_received(&self, message: &Message, bytes: usize) {
        self.recorder.message(Side::Edge, message, bytes);
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
