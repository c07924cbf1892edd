//! The deadlines of the broker.

use std::collections::BTreeMap;

/// The longest delay of the commit of a subscriber's acknowledgements, milliseconds.
const LAZY_COMMIT: u64 = 100;

/// The interval between searches for expired retained messages, milliseconds.
const SWEEP: u64 = 60_000;

/// What is due at a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The delayed will of a lost client, unless it reconnected: session and generation.
    Will(u64, u64),
    /// The expiry of a session without its client: session and generation.
    Expiry(u64, u64),
    /// A check whether publishers have waited too long.
    Patience,
    /// A search for expired retained messages.
    Sweep,
}

/// A handle with which a deadline can be cancelled.
pub(super) type Deadline = (u64, u64);

/// The deadlines, milliseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<(u64, u64), Due>,
    count: u64,
    commit: Option<u64>,
    pub(super) sweeping: bool,
    pub(super) watching: bool,
}

impl Timers {
    /// Adds a deadline.
    pub(super) fn add(&mut self, when: u64, due: Due) -> Deadline {
        self.count += 1;
        self.due.insert((when, self.count), due);
        (when, self.count)
    }

    /// Cancels a deadline.
    pub(super) fn remove(&mut self, deadline: Deadline) {
        self.due.remove(&deadline);
    }

    /// Schedules checks of waiting publishers every `interval`.
    pub(super) fn watch(&mut self, now: u64, interval: u64) {
        if !self.watching {
            self.watching = true;
            self.add(now + interval.max(1), Due::Patience);
        }
    }

    /// Schedules the next search for expired retained messages.
    pub(super) fn sweep(&mut self, now: u64) {
        if !self.sweeping {
            self.sweeping = true;
            self.add(now + SWEEP, Due::Sweep);
        }
    }

    pub(super) fn commit_later(&mut self, now: u64) {
        self.commit.get_or_insert(now + LAZY_COMMIT);
    }

    pub(super) fn commit_due(&self, now: u64) -> bool {
        self.commit.is_some_and(|when| when <= now)
    }

    pub(super) fn handle_commit(&mut self) {
        self.commit = None;
    }

    /// Returns the time of the first deadline.
    pub(super) fn next(&self) -> Option<u64> {
        let first = self.due.first_key_value().map(|((when, _), _)| *when);
        first.into_iter().chain(self.commit).min()
    }

    /// Removes and returns the first deadline that has passed.
    pub(super) fn pop(&mut self, now: u64) -> Option<Due> {
        let entry = self
            .due
            .first_entry()
            .filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}
