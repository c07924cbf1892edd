//! The items of a publisher that wait for a subscriber's room.

use std::collections::VecDeque;

use super::command::{Batch, Done};
use crate::{message::Message, reason::Fault};

/// A waiting item.
#[derive(Debug)]
pub(super) enum Held {
    /// Packets of a connection, with the time since which they wait and their weight on arrival.
    Batch(Batch, u64, usize),
    /// The end of a connection, with an optional fault.
    Closed(Option<Fault>),
    /// A message of this process, with the time since which it waits.
    Local(Message, Done, u64),
}

/// The waiting items of one publisher, oldest first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) held: VecDeque<Held>,
    /// The weight of its batches.
    pub(super) weight: usize,
}

impl Queue {
    /// Reports whether its connection has ended, after which nothing more arrives, not even acknowledgements.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.held.back(), Some(Held::Closed(_)))
    }
}
