//! A receiver of messages in this process.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::message::Message;

/// Where a receiver's messages go.
pub(crate) type Delivery = mpsc::Sender<Arc<Message>>;

/// A receiver in this process.
#[derive(Debug)]
pub(super) struct LocalReceiver {
    /// What it hears.
    pub(super) filters: Vec<String>,
    /// Where its messages go.
    pub(super) receiver: Delivery,
}

impl LocalReceiver {
    /// Whether it has no room. Nobody else sends: room that is seen is there.
    pub(super) fn is_full(&self) -> bool {
        self.receiver.capacity() == 0 && !self.receiver.is_closed()
    }
}
