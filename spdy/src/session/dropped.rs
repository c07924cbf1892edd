//! Streams that were dropped by their owners.

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::StreamId;

/// The dropped streams that the driver has not handled yet; never more than there are streams.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    ids: Mutex<Vec<StreamId>>,
    added: Notify,
}

impl Dropped {
    /// Records that the owner of this stream has gone.
    pub(super) fn add(&self, id: StreamId) {
        self.ids.lock().push(id);
        self.added.notify_one();
    }

    /// Waits until there are some. Cancel-safe: they stay where they are.
    pub(super) async fn wait_for_some(&self) {
        self.added.notified().await;
    }

    /// Returns those that were added since the last call.
    pub(super) fn take(&self) -> Vec<StreamId> {
        std::mem::take(&mut self.ids.lock())
    }
}
