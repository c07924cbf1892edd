//! Counters of the broker since its start.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters, written by the broker and read by any task.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) faults: AtomicU64,
    pub(crate) slow: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) sessions: AtomicU64,
    pub(crate) retained: AtomicU64,
    pub(crate) queued_bytes: AtomicU64,
}

/// The values of the counters at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages received from publishers, including those in this process.
    pub received: u64,
    /// Messages written to clients or delivered to receivers in this process.
    pub sent: u64,
    /// Messages that one subscriber did not get because of a full queue, an expiry or its maximum packet size.
    pub dropped: u64,
    /// Connections, publications and subscriptions that were refused.
    pub refused: u64,
    /// Connections ended for malformed or forbidden packets.
    pub faults: u64,
    /// Clients cut off because they did not keep up.
    pub slow: u64,
    /// Sessions without their client that ended to make room for new ones.
    pub evicted: u64,
    /// Connected clients now.
    pub connections: u64,
    /// Sessions now.
    pub sessions: u64,
    /// Retained messages now.
    pub retained: u64,
    /// Bytes kept for sessions now.
    pub queued_bytes: u64,
}

impl Counters {
    /// Increments a counter.
    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the current values.
    pub(crate) fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            received: read(&self.received),
            sent: read(&self.sent),
            dropped: read(&self.dropped),
            refused: read(&self.refused),
            faults: read(&self.faults),
            slow: read(&self.slow),
            evicted: read(&self.evicted),
            connections: read(&self.connections),
            sessions: read(&self.sessions),
            retained: read(&self.retained),
            queued_bytes: read(&self.queued_bytes),
        }
    }
}
