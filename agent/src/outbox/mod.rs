//! Messages for the cloud that CloudCore never confirms: uploads of MQTT, and events. Each is sent as soon as the connection
//! takes it. Messages that wait for a connection are stored on disk, in order, and limited: beyond the limit the oldest are
//! dropped, counted and logged.
//!
//! While the connection takes them nothing is written, so that flash memory is not worn by short-lived messages. Waiting
//! messages are written together, [`FLUSH_AFTER`] after the first of them at the latest; a power cut may lose that much. A message
//! with a receipt, whose publisher waits, is written at once unless it can be sent, and [`RECEIPT_TIMEOUT`] after it came if the
//! cloud has not confirmed it: publishers wait for the disk, not for the cloud. While the disk fails, no more of them are accepted.
//! A message leaves the disk after it was written to the connection, with the others of its chunk: one may be sent twice, none is
//! left out. A message that was written into a dead connection is lost if the cloud does not answer; to a cloud that answers it
//! is sent again, under the same id, until it has ([`Delivery`]).
//!
//! | part | what |
//! |---|---|
//! | `memory_queue` | the messages in memory, pure |
//! | `backlog` | the messages on disk |
//! | `delivery` | how one is sent, and when its delivery is complete |
//! | `length` | the number of messages, for `/metrics` |
//! | `task` | the owner of both |

mod backlog;
mod delivery;
mod length;
mod memory_queue;
mod task;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use objectstore::Store;
use tokio::sync::mpsc;
use wire::Message;

pub(crate) use self::{delivery::Delivery, length::Length, task::Outbox};
use crate::edgehub::EdgeHub;

/// How long a message waits in memory before it is written to disk.
const FLUSH_AFTER: Duration = Duration::from_secs(5);
/// How long a message with a receipt may wait for the cloud's answer before it is written to disk.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(2);
/// The most messages with receipts that are sent before they are on disk. Few, as brokers limit a client's unacknowledged messages
/// (20 at Mosquitto), and requests about devices have to be among them: a burst goes by way of the disk.
const MAX_UNSTORED: usize = 10;
/// The most messages that wait in memory; one more writes all of them to disk.
const MAX_MESSAGES_IN_MEMORY: usize = 64;
/// The most bytes of their JSON.
const MAX_BYTES_IN_MEMORY: usize = 64 * 1024;

/// The group of the chunks' collections.
pub(crate) const GROUP: &str = "outbox.outrigger.dev";

/// The limits of an outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of messages.
    pub(crate) messages: usize,
    /// Their bytes as they are stored.
    pub(crate) bytes: usize,
}

/// What an outbox needs.
#[derive(Debug)]
pub(crate) struct Config {
    /// The name of its messages, in the plural: the collection, and the word in the log.
    pub(crate) what: &'static str,
    /// The limits of what it stores.
    pub(crate) limits: Limits,
    /// The store of waiting messages.
    pub(crate) store: Arc<dyn Store>,
    /// The connection to the cloud.
    pub(crate) hub: EdgeHub,
    /// How a message is sent.
    pub(crate) deliver: Delivery,
    /// The most messages that are being sent at the same time; these stay in memory.
    pub(crate) max_concurrent: usize,
    /// Counts dropped messages.
    pub(crate) dropped: Arc<AtomicU64>,
}

/// A message to be sent.
pub(crate) struct Item {
    /// The message.
    pub(crate) message: Message,
    /// A message with the same key that waits in memory is replaced by this one.
    pub(crate) key: Option<String>,
    /// Called when the message is on disk, or was written to the connection; dropped otherwise.
    pub(crate) on_stored: Option<Box<dyn FnOnce() + Send>>,
    /// Whether its publisher waits for that.
    pub(crate) is_awaited: bool,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("message", &self.message)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl From<Box<Item>> for Item {
    fn from(item: Box<Item>) -> Self {
        *item
    }
}

/// Creates an outbox for the messages from `items`.
pub(crate) fn new<T: Into<Item>>(config: Config, items: mpsc::Receiver<T>) -> Outbox<T> {
    Outbox::new(config, items)
}
