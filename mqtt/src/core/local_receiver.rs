//! A receiver of messages in this process.

use tokio::sync::mpsc;

use crate::confirmation::Delivered;

/// The channel to which a receiver's messages are sent.
pub(crate) type Delivery = mpsc::Sender<Delivered>;

/// A receiver in this process.
#[derive(Debug)]
pub(super) struct LocalReceiver {
    /// The filters that it subscribes to.
    pub(super) filters: Vec<String>,
    /// The channel to which its messages are sent.
    pub(super) receiver: Delivery,
    /// Whether publishers wait until it has confirmed their messages.
    pub(super) confirms: bool,
}

impl LocalReceiver {
    /// Reports whether its channel is full. Nobody else sends to it, so seen room stays free.
    pub(super) fn is_full(&self) -> bool {
        self.receiver.capacity() == 0 && !self.receiver.is_closed()
    }
}
