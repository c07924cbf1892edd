//! The receiving half of a stream: the peer's bytes, and how they end.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::StreamId;

/// The receiving half of a new stream.
#[derive(Debug)]
pub(super) struct ReceivingHalf {
    /// The stream's id.
    pub(super) id: StreamId,
    /// The channel with the peer's bytes.
    pub(super) chunks: mpsc::Receiver<Bytes>,
    /// How the half has ended.
    pub(super) end: Arc<End>,
    /// Whether this end sends nothing on the stream.
    pub(super) sends_nothing: bool,
}

/// How the receiving half has ended, if it has.
#[derive(Debug, Default)]
pub(super) struct End(AtomicU8);

/// The half has not ended.
pub(super) const OPEN: u8 = 0;
/// The peer sends nothing more.
const FINISHED: u8 = 1;
/// Both halves have ended.
pub(super) const RESET: u8 = 2;
/// The connection broke.
pub(super) const LOST: u8 = 3;

impl End {
    /// Records that the peer sends nothing more.
    pub(super) fn finish(&self) {
        self.first(FINISHED);
    }

    /// Records that both halves have ended.
    pub(super) fn reset(&self) {
        self.0.store(RESET, Ordering::Release);
    }

    /// Records that the connection broke.
    pub(super) fn lose(&self) {
        self.first(LOST);
    }

    fn first(&self, end: u8) {
        // the first end is kept
        let _ = self
            .0
            .compare_exchange(OPEN, end, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Reports whether the half has ended in this way.
    pub(super) fn is(&self, end: u8) -> bool {
        self.0.load(Ordering::Acquire) == end
    }
}
