//! The messages that wait in memory, the oldest first. Pure.

use std::{collections::VecDeque, time::Duration};

use clock::Instant;

use super::{FLUSH_AFTER, Item, MAX_BYTES_IN_MEMORY, MAX_MESSAGES_IN_MEMORY, RECEIPT_TIMEOUT};

/// A message with its form on disk.
#[derive(Debug)]
pub(super) struct QueuedMessage {
    pub(super) item: Item,
    pub(super) json: String,
    /// When it came.
    since: Instant,
}

impl QueuedMessage {
    /// Reports whether its publisher waits until it is stored.
    pub(super) fn has_receipt(&self) -> bool {
        self.item.is_awaited
    }

    /// Returns the time until it has to be on disk if it was not sent.
    pub(super) fn receipt_due(&self, now: Instant) -> Option<Duration> {
        self.has_receipt()
            .then(|| (self.since + RECEIPT_TIMEOUT).saturating_duration_since(now))
    }
}

/// The messages that wait in memory.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<QueuedMessage>,
    bytes: usize,
    /// When the oldest message that is not being sent came.
    since: Option<Instant>,
}

impl Queue {
    /// Adds a message. The first `fixed` are being sent and are not replaced.
    pub(super) fn push(&mut self, item: Item, fixed: usize, now: Instant) {
        let json = wire::json::encode(&item.message);
        self.bytes += json.len();
        let waiting = QueuedMessage {
            item,
            json,
            since: now,
        };
        let key = waiting.item.key.as_ref();
        let older = self
            .waiting
            .iter_mut()
            .skip(fixed)
            .find(|older| key.is_some() && older.item.key.as_ref() == key);
        match older {
            Some(older) => {
                self.bytes -= older.json.len();
                *older = waiting;
            }
            None => self.waiting.push_back(waiting),
        }
        self.since.get_or_insert(now);
    }

    /// Returns the message at this position.
    pub(super) fn nth(&self, number: usize) -> Option<&QueuedMessage> {
        self.waiting.get(number)
    }

    /// Removes the oldest message.
    pub(super) fn pop(&mut self, now: Instant) -> Option<QueuedMessage> {
        let popped = self.waiting.pop_front()?;
        self.bytes -= popped.json.len();
        // the next message came later than that; the exact time is not kept
        self.since = (!self.waiting.is_empty()).then_some(now);
        Some(popped)
    }

    /// Returns the time until the messages have to be written; `None` if nothing waits.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        let since = self.since?;
        Some(if self.is_full() {
            Duration::ZERO
        } else {
            (since + FLUSH_AFTER).saturating_duration_since(now)
        })
    }

    /// Reports whether more messages wait than may be in memory.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() > MAX_MESSAGES_IN_MEMORY || self.bytes > MAX_BYTES_IN_MEMORY
    }

    /// Returns the messages from this position on, as they are written.
    pub(super) fn texts(&self, from: usize) -> Vec<String> {
        self.waiting
            .iter()
            .skip(from)
            .map(|waiting| waiting.json.clone())
            .collect()
    }

    /// Removes and returns the messages from this position on.
    pub(super) fn take(&mut self, from: usize, now: Instant) -> VecDeque<QueuedMessage> {
        let taken = self.waiting.split_off(from.min(self.waiting.len()));
        self.bytes = self.waiting.iter().map(|waiting| waiting.json.len()).sum();
        self.since = (!self.waiting.is_empty()).then_some(now);
        taken
    }

    /// Reports whether the publisher of any message from this position on waits until it is stored.
    pub(super) fn has_receipts(&self, from: usize) -> bool {
        self.waiting
            .iter()
            .skip(from)
            .any(QueuedMessage::has_receipt)
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
