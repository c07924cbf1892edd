//! What publishers have waiting for a subscriber.

use std::collections::VecDeque;

use super::command::{Batch, Done};
use crate::{message::Message, reason::Fault};

/// What waits for its turn.
#[derive(Debug)]
pub(super) enum Held {
    /// Packets of a connection, since when, and what they weighed when they came.
    Batch(Batch, u64, usize),
    /// The end of a connection.
    Closed(Option<Fault>),
    /// A message of this process.
    Local(Message, Done, u64),
}

/// What one publisher has waiting, oldest first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) held: VecDeque<Held>,
    /// Weight of its batches.
    pub(super) weight: usize,
}

impl Queue {
    /// Whether its connection has ended: nothing more comes from it, acknowledgements included.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.held.back(), Some(Held::Closed(_)))
    }
}
