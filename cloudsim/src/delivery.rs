//! What controllers hand to a node's session: answers that are sent at once, and deliveries, which the node acknowledges.

use std::sync::Arc;

use wire::Message;

use crate::mailbox::ObjectPath;

/// Identifies one object: its path and its UID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// The path of the object.
    pub path: ObjectPath,
    /// The UID of the object.
    pub uid: String,
}

/// The subject of a delivery; at most one delivery waits for each key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryKey {
    /// The state of the object with this UID.
    Object(String),
    /// The answer to one request; every answer is sent.
    Answer(String),
    /// The state of an object that a program on the node watches.
    Watched(String),
}

/// A message that the node acknowledges, with its key in the acknowledged lane.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The subject of the message.
    pub key: DeliveryKey,
    /// The object whose state the message carries, if its acknowledgement is to be recorded.
    pub object: Option<ObjectRef>,
    /// The object's revision in the message; `None` for deletions.
    pub revision: Option<u64>,
    /// The message itself, which may be sent several times.
    pub message: Arc<Message>,
}

impl Delivery {
    /// Reports whether the message announces the object's deletion.
    pub(crate) fn is_delete(&self) -> bool {
        self.revision.is_none()
    }
}

/// A message from a controller to the node.
#[derive(Debug)]
pub enum Reply {
    /// Sent at once, without acknowledgement.
    Direct(Message),
    /// Sent through the acknowledged lane.
    Acknowledged(Delivery),
}
