//! What waits in memory, the oldest first. Pure.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{BYTES_IN_MEMORY, FLUSH_AFTER, IN_MEMORY, Item};

/// A message with the form in which it is written to the disk.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) item: Item,
    pub(super) json: String,
}

/// The messages that wait in memory.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// When the oldest of them came that is not on its way.
    since: Option<Instant>,
}

impl Queue {
    /// One more. The first `fixed` are on their way and are not replaced.
    pub(super) fn push(&mut self, item: Item, fixed: usize, now: Instant) {
        let json = wire::json::encode(&item.message);
        self.bytes += json.len();
        let waiting = Waiting { item, json };
        let key = waiting.item.key.as_ref();
        let older =
            self.waiting.iter_mut().skip(fixed).find(|older| key.is_some() && older.item.key.as_ref() == key);
        match older {
            Some(older) => {
                self.bytes -= older.json.len();
                *older = waiting;
            }
            None => self.waiting.push_back(waiting),
        }
        self.since.get_or_insert(now);
    }

    /// One that comes so many after the oldest.
    pub(super) fn nth(&self, number: usize) -> Option<&Waiting> {
        self.waiting.get(number)
    }

    /// The oldest is done with.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Waiting> {
        let popped = self.waiting.pop_front()?;
        self.bytes -= popped.json.len();
        // the next one came later than that; how much is not worth remembering
        self.since = (!self.waiting.is_empty()).then_some(now);
        Some(popped)
    }

    /// When what waits is to be written; `None` where nothing does.
    pub(super) fn due(&self, now: Instant) -> Option<Duration> {
        let since = self.since?;
        Some(if self.is_full() {
            Duration::ZERO
        } else {
            (since + FLUSH_AFTER).saturating_duration_since(now)
        })
    }

    /// Whether it holds more than may wait in memory.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() > IN_MEMORY || self.bytes > BYTES_IN_MEMORY
    }

    /// The messages from this one on, as they are written.
    pub(super) fn texts(&self, from: usize) -> Vec<String> {
        self.waiting.iter().skip(from).map(|waiting| waiting.json.clone()).collect()
    }

    /// Takes the messages from this one on.
    pub(super) fn take(&mut self, from: usize, now: Instant) -> VecDeque<Waiting> {
        let taken = self.waiting.split_off(from.min(self.waiting.len()));
        self.bytes = self.waiting.iter().map(|waiting| waiting.json.len()).sum();
        self.since = (!self.waiting.is_empty()).then_some(now);
        taken
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}
