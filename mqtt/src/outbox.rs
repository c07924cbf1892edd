//! Bytes for one client, between the broker and the client's socket.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Where the broker leaves bytes without ever waiting for the client; the broker keeps to a bound by asking [`Outbox::waiting`].
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Mutex<BytesMut>,
    wake: Notify,
    waiting: AtomicUsize,
    hungry: AtomicBool,
    closed: CancellationToken,
}

impl Outbox {
    /// Leaves `bytes`, and empties them.
    pub(crate) fn push(&self, bytes: &mut BytesMut) {
        self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        let mut left = self.bytes.lock();
        if left.is_empty() {
            std::mem::swap(&mut *left, bytes);
        } else {
            left.extend_from_slice(bytes);
        }
        bytes.clear();
        drop(left);
        self.wake.notify_one();
    }

    /// Nothing more comes: the connection ends when what is here has been written.
    pub(crate) fn close(&self) {
        self.closed.cancel();
        self.wake.notify_one();
    }

    /// Whether [`Outbox::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits for [`Outbox::close`].
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Bytes left and not yet taken by the socket.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Asks to be told when all is written: more waits for room.
    pub(crate) fn ask(&self) {
        self.hungry.store(true, Ordering::Release);
        // What was here may have been written just before the question.
        self.wake.notify_one();
    }

    /// All bytes there are, possibly none; no value when closed and empty. Only one task may ask.
    pub(crate) async fn next(&self) -> Option<BytesMut> {
        loop {
            {
                let mut left = self.bytes.lock();
                if !left.is_empty() {
                    return Some(std::mem::take(&mut *left));
                }
                if self.is_closed() {
                    return None;
                }
                if self.hungry.load(Ordering::Acquire) {
                    return Some(BytesMut::new());
                }
            }
            self.wake.notified().await;
        }
    }

    /// `count` bytes were written; true if the broker wants to know that all are.
    pub(crate) fn written(&self, count: usize) -> bool {
        self.waiting.fetch_sub(count, Ordering::Relaxed) == count && self.hungry.swap(false, Ordering::AcqRel)
    }
}
