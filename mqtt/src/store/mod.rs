//! Durable state: sessions, their subscriptions and queues, and retained messages.
//!
//! Each round of the broker collects [`Changes`]. They are committed together, and only then is anything sent that depends on them.

mod damage;
pub(crate) mod sqlite;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    codec::Options,
    message::{Message, QoS},
};

/// A session without its subscriptions and queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedSession {
    /// The user that it belongs to.
    pub(crate) user: Option<Arc<str>>,
    /// How long it is kept without its client, seconds; `u32::MAX` means for ever.
    pub(crate) expiry: u32,
}

/// A subscription without its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) options: Options,
    pub(crate) id: Option<u32>,
}

/// A queued message of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queued {
    /// Its position among all queued messages; never reused.
    pub(crate) sequence: u64,
    pub(crate) message: Arc<Message>,
    /// The QoS of the delivery: the lower one of the publisher's and the subscriber's.
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) subscription_ids: Box<[u32]>,
}

/// A queued message as stored on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedMessage {
    pub(crate) client: Arc<str>,
    pub(crate) queued: Queued,
    /// The packet identifier that it was sent with; 0 if it was not sent.
    pub(crate) id: u16,
    /// Whether the client has the message (PUBREC) and PUBREL is due.
    pub(crate) released: bool,
}

/// The changes to write. Only the last change of each key counts, so their order does not matter.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) sessions: HashMap<Arc<str>, Option<SavedSession>>,
    pub(crate) subscriptions: HashMap<(Arc<str>, Arc<str>), Option<Subscription>>,
    pub(crate) inserted: BTreeMap<u64, SavedMessage>,
    pub(crate) updated: BTreeMap<u64, (u16, bool)>,
    pub(crate) deleted: Vec<u64>,
    /// Packet identifiers of QoS 2 messages that were received and not yet released.
    pub(crate) incoming: HashMap<(Arc<str>, u16), bool>,
    pub(crate) retained: HashMap<Arc<str>, Option<Arc<Message>>>,
    /// Whether an answer waits for the commit. A subscriber's acknowledgement can be written later: otherwise the message would only be
    /// sent again.
    pub(crate) urgent: bool,
}

impl Changes {
    /// Reports whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
            && self.subscriptions.is_empty()
            && self.inserted.is_empty()
            && self.updated.is_empty()
            && self.deleted.is_empty()
            && self.incoming.is_empty()
            && self.retained.is_empty()
    }

    /// Records that a message was queued.
    pub(crate) fn insert(&mut self, message: SavedMessage) {
        self.urgent = true;
        self.inserted.insert(message.queued.sequence, message);
    }

    /// Records that a queued message was sent as `id`, or is `released`.
    pub(crate) fn update(&mut self, sequence: u64, id: u16, released: bool) {
        self.urgent = true;
        match self.inserted.get_mut(&sequence) {
            Some(saved) => (saved.id, saved.released) = (id, released),
            None => drop(self.updated.insert(sequence, (id, released))),
        }
    }

    /// Records that a queued message is finished.
    pub(crate) fn delete(&mut self, sequence: u64) {
        self.updated.remove(&sequence);
        if self.inserted.remove(&sequence).is_none() {
            self.deleted.push(sequence);
        }
    }
}

/// What was stored at the start.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    pub(crate) sessions: HashMap<Arc<str>, SavedSession>,
    pub(crate) subscriptions: Vec<(Arc<str>, Arc<str>, Subscription)>,
    /// The messages in the order of their sequence numbers.
    pub(crate) messages: Vec<SavedMessage>,
    pub(crate) incoming: Vec<(Arc<str>, u16)>,
    pub(crate) retained: Vec<Arc<Message>>,
}

/// A database error.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} in the database of MQTT sessions; check the disk's space and health")]
pub struct StoreError {
    pub(crate) step: &'static str,
    #[source]
    pub(crate) source: sqlx::Error,
}

impl StoreError {
    /// Returns a conversion for `map_err`, with the step that failed.
    pub(crate) fn at(step: &'static str) -> impl Fn(sqlx::Error) -> Self {
        move |source| Self { step, source }
    }
}
