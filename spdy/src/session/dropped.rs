//! Streams whose owners have gone.

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::StreamId;

/// Streams whose owners have gone; no more than there are streams.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    ids: Mutex<Vec<StreamId>>,
    added: Notify,
}

impl Dropped {
    /// The owner of this stream has gone.
    pub(super) fn add(&self, id: StreamId) {
        self.ids.lock().push(id);
        self.added.notify_one();
    }

    /// Waits for some. Cancel-safe: they stay where they are.
    pub(super) async fn added(&self) {
        self.added.notified().await;
    }

    /// Those that were added since the last call.
    pub(super) fn take(&self) -> Vec<StreamId> {
        std::mem::take(&mut self.ids.lock())
    }
}
