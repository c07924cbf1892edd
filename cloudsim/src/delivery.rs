//! What controllers hand to a node's session: answers that are sent at once, and deliveries, which the node acknowledges.

use wire::Message;

use crate::mailbox::ObjectPath;

/// One object: where it is, and which one of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// Its place.
    pub path: ObjectPath,
    /// Its UID.
    pub uid: String,
}

/// What a delivery is about; at most one waits for each key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryKey {
    /// The state of the object with this UID.
    Object(String),
    /// The answer to one request (every answer is sent).
    Answer(String),
    /// The state of an object that something on the node watches.
    Watched(String),
}

/// A message that the node acknowledges, with what decides its place in the acknowledged lane.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What it is about.
    pub key: DeliveryKey,
    /// The object whose state it carries, where the bookkeeping is to know that the node has it.
    pub object: Option<ObjectRef>,
    /// The revision that it carries; `None` for deletes.
    pub revision: Option<u64>,
    /// What is sent.
    pub message: Message,
}

impl Delivery {
    /// Whether it tells of the object's end.
    pub(crate) fn is_delete(&self) -> bool {
        self.revision.is_none()
    }
}

/// What goes to the node.
#[derive(Debug)]
pub enum Reply {
    /// At once, without acknowledgement.
    Direct(Message),
    /// In the acknowledged lane.
    Acknowledged(Delivery),
}
