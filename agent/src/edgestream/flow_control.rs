//! Flow control of a stream: the received bytes that it buffers, and the credit for what it may send.

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::tunnel::window::{Credit, Taken};

/// The most bytes that are passed on at a time.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

#[derive(Debug, Default)]
struct InboxState {
    /// The bytes that were not taken yet.
    bytes: BytesMut,
    /// The number of buffered bytes: these, and those that were taken but not passed on yet.
    all: usize,
    taken: Taken,
}

/// The bytes that the cloud has sent on one stream. One task adds bytes, another one takes them.
#[derive(Debug)]
pub(super) struct Inbox {
    bound: usize,
    state: Mutex<InboxState>,
    /// Bytes were added.
    has_data: Notify,
    /// Space is free again.
    has_space: Notify,
}

impl Inbox {
    /// Creates an empty inbox for at most `bound` bytes.
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            state: Mutex::default(),
            has_data: Notify::new(),
            has_space: Notify::new(),
        }
    }

    /// Copies as much as there is space for. A reference would keep the larger buffer alive.
    pub(super) fn put(&self, bytes: &mut &[u8]) {
        let mut state = self.state.lock();
        let part = bytes.len().min(self.bound.saturating_sub(state.all));
        state.bytes.extend_from_slice(&bytes[..part]);
        state.all += part;
        *bytes = &bytes[part..];
        self.has_data.notify_one();
    }

    /// Waits for space.
    pub(super) async fn has_space(&self) {
        self.has_space.notified().await;
    }

    /// Waits for bytes. They count as buffered until [`record_passed`](Self::record_passed) is called.
    pub(super) async fn take(&self) -> Bytes {
        loop {
            {
                let mut state = self.state.lock();
                if !state.bytes.is_empty() {
                    let part = state.bytes.len().min(MAX_CHUNK_BYTES);
                    let part = state.bytes.split_to(part).freeze();
                    if state.bytes.is_empty() {
                        // an idle stream holds no memory
                        state.bytes = BytesMut::new();
                    }
                    return part;
                }
            }
            self.has_data.notified().await;
        }
    }

    /// Records that bytes were passed on; returns the credit to give back to the cloud now.
    pub(super) fn record_passed(&self, bytes: usize) -> Option<usize> {
        let mut state = self.state.lock();
        state.all = state.all.saturating_sub(bytes);
        state.taken.add(bytes);
        self.has_space.notify_one();
        let due = state.taken.due()?;
        state.taken.reset();
        Some(due)
    }
}

/// The credit for sending to the cloud on one stream, used by one task.
#[derive(Debug)]
pub(super) struct SendCredit {
    credit: Mutex<Credit>,
    more: Notify,
}

impl SendCredit {
    /// Creates the credit of a new stream to a cloud with this window.
    pub(super) fn new(window: usize) -> Self {
        Self {
            credit: Mutex::new(Credit::new(window)),
            more: Notify::new(),
        }
    }

    /// Waits for credit, and returns how many of `bytes` may be sent.
    pub(super) async fn take(&self, bytes: usize) -> usize {
        loop {
            let part = self.credit.lock().take(bytes);
            if part > 0 {
                return part;
            }
            self.more.notified().await;
        }
    }

    /// Adds credit. Returns false if the cloud has given back more than was sent.
    pub(super) fn add(&self, bytes: usize) -> bool {
        let is_possible = self.credit.lock().add(bytes);
        self.more.notify_one();
        is_possible
    }
}
