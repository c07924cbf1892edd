//! What survives the process: sessions, their subscriptions and queues, and retained messages.
//!
//! A turn of the broker gathers [`Changes`]; they are committed at once, and only then does anything that rests on them leave.

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
    /// Whose it is.
    pub(crate) user: Option<Arc<str>>,
    /// Seconds that it lives without its client; `u32::MAX` for ever.
    pub(crate) expiry: u32,
}

/// A subscription without its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) options: Options,
    pub(crate) id: Option<u32>,
}

/// A message on its way to one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queued {
    /// Its place among all queued messages; never used again.
    pub(crate) sequence: u64,
    pub(crate) message: Arc<Message>,
    /// As it is delivered: the lower of the publisher's and the subscriber's.
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) subscription_ids: Box<[u32]>,
}

/// A queued message as it stands on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SavedMessage {
    pub(crate) client: Arc<str>,
    pub(crate) queued: Queued,
    /// The packet identifier it was sent with; 0 if it was not.
    pub(crate) id: u16,
    /// Whether the client has it and PUBREL is due.
    pub(crate) released: bool,
}

/// What is to be written. The last word about each key counts, so that order does not matter.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) sessions: HashMap<Arc<str>, Option<SavedSession>>,
    pub(crate) subscriptions: HashMap<(Arc<str>, Arc<str>), Option<Subscription>>,
    pub(crate) inserted: BTreeMap<u64, SavedMessage>,
    pub(crate) updated: BTreeMap<u64, (u16, bool)>,
    pub(crate) deleted: Vec<u64>,
    /// Packet identifiers of QoS 2 messages that were taken and not yet released.
    pub(crate) incoming: HashMap<(Arc<str>, u16), bool>,
    pub(crate) retained: HashMap<Arc<str>, Option<Arc<Message>>>,
    /// Whether an answer waits for them. What a subscriber acknowledged may be written later: it would only be sent again.
    pub(crate) urgent: bool,
}

impl Changes {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
            && self.subscriptions.is_empty()
            && self.inserted.is_empty()
            && self.updated.is_empty()
            && self.deleted.is_empty()
            && self.incoming.is_empty()
            && self.retained.is_empty()
    }

    /// A message was queued.
    pub(crate) fn insert(&mut self, message: SavedMessage) {
        self.urgent = true;
        self.inserted.insert(message.queued.sequence, message);
    }

    /// A queued message was sent under `id`, or is `released`.
    pub(crate) fn update(&mut self, sequence: u64, id: u16, released: bool) {
        self.urgent = true;
        match self.inserted.get_mut(&sequence) {
            Some(saved) => (saved.id, saved.released) = (id, released),
            None => drop(self.updated.insert(sequence, (id, released))),
        }
    }

    /// A queued message is done with.
    pub(crate) fn delete(&mut self, sequence: u64) {
        self.updated.remove(&sequence);
        if self.inserted.remove(&sequence).is_none() {
            self.deleted.push(sequence);
        }
    }
}

/// What was on disk at the start.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    pub(crate) sessions: HashMap<Arc<str>, SavedSession>,
    pub(crate) subscriptions: Vec<(Arc<str>, Arc<str>, Subscription)>,
    /// In the order of their sequence.
    pub(crate) messages: Vec<SavedMessage>,
    pub(crate) incoming: Vec<(Arc<str>, u16)>,
    pub(crate) retained: Vec<Arc<Message>>,
}

/// The database failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {step} in the database of MQTT sessions; check the disk's space and health")]
pub struct StoreError {
    pub(crate) step: &'static str,
    #[source]
    pub(crate) source: sqlx::Error,
}

impl StoreError {
    /// For `map_err`.
    pub(crate) fn at(step: &'static str) -> impl Fn(sqlx::Error) -> Self {
        move |source| Self { step, source }
    }
}
