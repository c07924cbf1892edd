//! The peer's half of a stream: what it sends, and how it has ended.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::StreamId;

/// What a new stream reads of.
#[derive(Debug)]
pub(super) struct ReceivingHalf {
    /// The number of the stream.
    pub(super) id: StreamId,
    /// What the peer sends.
    pub(super) chunks: mpsc::Receiver<Bytes>,
    /// How it has ended.
    pub(super) end: Arc<End>,
    /// Whether nothing is sent to the peer.
    pub(super) sends_nothing: bool,
}

/// How the peer's half has ended, if it has.
#[derive(Debug, Default)]
pub(super) struct End(AtomicU8);

/// It has not ended.
pub(super) const OPEN: u8 = 0;
/// The peer sends nothing more.
const FINISHED: u8 = 1;
/// Both halves have ended.
pub(super) const RESET: u8 = 2;
/// The connection broke.
pub(super) const LOST: u8 = 3;

impl End {
    /// It sends nothing more.
    pub(super) fn finish(&self) {
        self.first(FINISHED);
    }

    /// It has ended both halves.
    pub(super) fn reset(&self) {
        self.0.store(RESET, Ordering::Release);
    }

    /// The connection broke.
    pub(super) fn lose(&self) {
        self.first(LOST);
    }

    fn first(&self, end: u8) {
        // what was the end stays it
        let _ = self.0.compare_exchange(OPEN, end, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Whether it has ended so.
    pub(super) fn is(&self, end: u8) -> bool {
        self.0.load(Ordering::Acquire) == end
    }
}
