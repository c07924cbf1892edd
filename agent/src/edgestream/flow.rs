//! What a stream holds of the cloud's bytes, and what it may send.

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::Notify;
use wire::tunnel::window::{Credit, Taken};

/// Bytes that are passed on at a time.
const CHUNK: usize = 16 * 1024;

#[derive(Debug, Default)]
struct Held {
    /// Bytes that nobody has taken yet.
    bytes: BytesMut,
    /// How many bytes are held: these, and those that were taken and are not passed on yet.
    all: usize,
    taken: Taken,
}

/// What the cloud has sent on one stream. One task puts bytes in, another one takes them.
#[derive(Debug)]
pub(super) struct Inbox {
    bound: usize,
    held: Mutex<Held>,
    /// Something waits.
    came: Notify,
    /// There is room again.
    room: Notify,
}

impl Inbox {
    /// An empty one that takes so many bytes.
    pub(super) fn new(bound: usize) -> Self {
        Self { bound, held: Mutex::default(), came: Notify::new(), room: Notify::new() }
    }

    /// Takes as much as there is room for. A copy: the bytes are part of a larger buffer, which they would keep.
    pub(super) fn put(&self, bytes: &mut &[u8]) {
        let mut held = self.held.lock();
        let part = bytes.len().min(self.bound.saturating_sub(held.all));
        held.bytes.extend_from_slice(&bytes[..part]);
        held.all += part;
        *bytes = &bytes[part..];
        self.came.notify_one();
    }

    /// Waits for room.
    pub(super) async fn room(&self) {
        self.room.notified().await;
    }

    /// Waits for bytes. They count as held until they were [`passed`](Self::passed).
    pub(super) async fn take(&self) -> Bytes {
        loop {
            {
                let mut held = self.held.lock();
                if !held.bytes.is_empty() {
                    let part = held.bytes.len().min(CHUNK);
                    let part = held.bytes.split_to(part).freeze();
                    if held.bytes.is_empty() {
                        // a stream that is idle holds no memory
                        held.bytes = BytesMut::new();
                    }
                    return part;
                }
            }
            self.came.notified().await;
        }
    }

    /// So many bytes were passed on; what is to be given back to the cloud now.
    pub(super) fn passed(&self, bytes: usize) -> Option<usize> {
        let mut held = self.held.lock();
        held.all = held.all.saturating_sub(bytes);
        held.taken.add(bytes);
        self.room.notify_one();
        let due = held.taken.due()?;
        held.taken.given();
        Some(due)
    }
}

/// What may be sent to the cloud on one stream, by the one task that sends.
#[derive(Debug)]
pub(super) struct Allowance {
    credit: Mutex<Credit>,
    more: Notify,
}

impl Allowance {
    /// Of a new stream to a cloud with this window.
    pub(super) fn new(window: usize) -> Self {
        Self { credit: Mutex::new(Credit::new(window)), more: Notify::new() }
    }

    /// Waits until some of so many bytes may be sent: how many.
    pub(super) async fn take(&self, bytes: usize) -> usize {
        loop {
            let part = self.credit.lock().take(bytes);
            if part > 0 {
                return part;
            }
            self.more.notified().await;
        }
    }

    /// The cloud has taken so many. False: that is more than there can be.
    pub(super) fn add(&self, bytes: usize) -> bool {
        let is_possible = self.credit.lock().add(bytes);
        self.more.notify_one();
        is_possible
    }
}
