//! Messages for the cloud that CloudCore never confirms: uploads of MQTT, and events. Each goes as soon as the connection takes it. What
//! waits because there is no connection is kept on disk, the oldest first to go, and is bounded: beyond it the oldest are dropped,
//! counted, and said to be.
//!
//! While the connection takes them nothing is written: a disk of flash is not worn by what is gone in a moment. What waits is
//! written together, [`FLUSH_AFTER`] after the first of it at the latest; that much a power cut may lose. A message leaves the disk
//! after it was written to the connection, with the others of its chunk: one may be sent twice, none is left out. What the hub
//! had written into a connection that was dead already is lost with it where the cloud says nothing of these; a cloud that answers
//! them is sent each again, under the same id, until it has ([`Deliver`]).
//!
//! | part | what |
//! |---|---|
//! | `waiting` | what waits in memory, pure |
//! | `backlog` | what waits on disk |
//! | `deliver` | how one is sent, and when it is done with |
//! | `length` | how much waits, for `/metrics` |
//! | `task` | the owner of both |

mod backlog;
mod deliver;
mod length;
mod task;
#[cfg(test)]
mod tests;
mod waiting;

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use kubeapi::store::Store;
use tokio::sync::mpsc;
use wire::Message;

pub(crate) use self::{deliver::Deliver, length::Length, task::Outbox};
use crate::edgehub::EdgeHub;

/// How long a message waits in memory before it is on disk.
const FLUSH_AFTER: Duration = Duration::from_secs(5);
/// Messages that wait in memory; with one more all of them go to the disk.
const IN_MEMORY: usize = 64;
/// The same for the bytes of their JSON.
const BYTES_IN_MEMORY: usize = 64 * 1024;

/// Where the chunks stand.
pub(crate) const GROUP: &str = "outbox.outrigger.dev";

/// What is kept at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Messages.
    pub(crate) messages: usize,
    /// Bytes of their JSON.
    pub(crate) bytes: usize,
}

/// What an outbox needs.
#[derive(Debug)]
pub(crate) struct Config {
    /// What it holds, in the plural: the collection, and the word in the log.
    pub(crate) what: &'static str,
    /// What it holds at most.
    pub(crate) limits: Limits,
    /// Where what waits is kept.
    pub(crate) store: Arc<dyn Store>,
    /// The way to the cloud.
    pub(crate) hub: EdgeHub,
    /// How one of them is sent.
    pub(crate) deliver: Deliver,
    /// How many of them are on their way at the same time; what is on its way stays in memory.
    pub(crate) at_once: usize,
    /// Told how many were dropped, whenever some are.
    pub(crate) dropped: Arc<AtomicU64>,
}

/// A message that is to be sent.
pub(crate) struct Item {
    /// The message.
    pub(crate) message: Message,
    /// A message with the same key that waits in memory goes, and this one takes its place.
    pub(crate) key: Option<String>,
    /// Called when the message is on disk, or was written to the connection; dropped otherwise.
    pub(crate) kept: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item").field("message", &self.message).field("key", &self.key).finish_non_exhaustive()
    }
}

/// An outbox for what comes over `items`.
pub(crate) fn new<T: Into<Item>>(config: Config, items: mpsc::Receiver<T>) -> Outbox<T> {
    Outbox::new(config, items)
}
