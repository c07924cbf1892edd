//! Where a message from a broker goes. Pure, but for the sending.

use bytes::Bytes;
use tokio::sync::mpsc::error::TrySendError;
use wire::topic::Topic;

use super::{
    Sinks,
    handle::{Receipt, Received},
    upload::Upload,
};

/// What became of a message.
#[derive(Debug)]
pub(super) enum Routed {
    /// It is on its way; or there was no room for it on the way to the cloud, and it was counted.
    Gone,
    /// DeviceTwin has no room for it now.
    Full(Received),
}

impl Sinks {
    /// Sends a message where it belongs, if there is room.
    pub(super) fn route(&self, topic: &str, payload: Bytes, receipt: Receipt) -> Routed {
        match Topic::parse(topic) {
            topic @ (Topic::Device(..) | Topic::Node(..)) => {
                match self.requests.try_send(Received::Message { topic, payload, receipt }) {
                    // nobody looks after devices on this node
                    Ok(()) | Err(TrySendError::Closed(_)) => Routed::Gone,
                    Err(TrySendError::Full(received)) => Routed::Full(received),
                }
            }
            Topic::Upload(topic) | Topic::Other(topic) => {
                self.upload(Upload { topic, payload, receipt });
                Routed::Gone
            }
        }
    }

    fn upload(&self, upload: Upload) {
        if let Err(TrySendError::Full(upload)) = self.uploads.try_send(upload) {
            super::upload::dropped(&upload.topic);
            // kept back, it would keep requests about devices from coming
            upload.receipt.give();
        }
    }
}
