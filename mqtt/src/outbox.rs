//! The bytes for one client, between the broker and the client's socket.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A queue of bytes that never blocks the broker; the broker limits its size by checking [`Outbox::waiting`].
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Mutex<BytesMut>,
    wake: Notify,
    waiting: AtomicUsize,
    hungry: AtomicBool,
    closed: CancellationToken,
}

impl Outbox {
    /// Appends `bytes` and leaves them empty.
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

    /// Closes the outbox: the connection ends when the bytes in it have been written.
    pub(crate) fn close(&self) {
        self.closed.cancel();
        self.wake.notify_one();
    }

    /// Reports whether [`Outbox::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits for [`Outbox::close`].
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Returns the number of bytes that the socket has not taken yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Requests a notification when all bytes are written, because more messages wait for room.
    pub(crate) fn ask(&self) {
        self.hungry.store(true, Ordering::Release);
        // All bytes may have been written just before the request.
        self.wake.notify_one();
    }

    /// Waits for bytes and returns all of them, possibly none; `None` if the outbox is closed and empty. Only one task may call it.
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

    /// Records that `count` bytes were written; returns true if the broker requested a notification and all bytes are written.
    pub(crate) fn record_written(&self, count: usize) -> bool {
        self.waiting.fetch_sub(count, Ordering::Relaxed) == count
            && self.hungry.swap(false, Ordering::AcqRel)
    }
}
