//! Confirmations of receivers in this process: the acknowledgement of a publication waits for them, so that its publisher keeps the
//! message until somebody else has it.

use std::{mem, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::message::Message;

/// A message with what its publisher waits for.
#[derive(Debug)]
pub struct Delivered {
    /// The message.
    pub message: Arc<Message>,
    /// Acknowledges the message to its publisher; `None` if its publisher does not wait.
    pub confirmation: Option<Confirmation>,
}

/// Acknowledges a message above QoS 0 to its publisher. If it is dropped, the publisher's connection ends without the acknowledgement,
/// and the publisher sends the message again.
#[derive(Debug)]
#[must_use = "the publisher's connection ends if this is dropped"]
pub struct Confirmation {
    token: u64,
    is_confirmed: bool,
    confirmations: Arc<Confirmations>,
}

impl Confirmation {
    /// Acknowledges the message.
    pub fn confirm(mut self) {
        self.is_confirmed = true;
    }
}

impl Drop for Confirmation {
    fn drop(&mut self) {
        self.confirmations
            .given
            .lock()
            .push((self.token, self.is_confirmed));
        self.confirmations.room.notify_one();
    }
}

/// The confirmations for the broker: at most one for each message that a receiver holds.
#[derive(Debug)]
pub(crate) struct Confirmations {
    given: Mutex<Vec<(u64, bool)>>,
    room: Arc<Notify>,
}

impl Confirmations {
    /// Creates an empty collection; `room` wakes the broker.
    pub(crate) fn new(room: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            given: Mutex::default(),
            room,
        })
    }

    /// Creates the confirmation of a message.
    pub(crate) fn of(self: &Arc<Self>, token: u64) -> Confirmation {
        Confirmation {
            token,
            is_confirmed: false,
            confirmations: Arc::clone(self),
        }
    }

    /// Takes what was given: tokens, and whether they were confirmed.
    pub(crate) fn take(&self) -> Vec<(u64, bool)> {
        mem::take(&mut *self.given.lock())
    }
}
