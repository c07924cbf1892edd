//! What is due when.

use std::collections::BTreeMap;

/// How long what a subscriber acknowledged may wait for a commit.
const LAZY_COMMIT: u64 = 100;

/// How often retained messages are looked through for those whose time is over.
const SWEEP: u64 = 60_000;

/// Something that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// A lost client's will, unless it connected again: session and generation.
    Will(u64, u64),
    /// The end of a session without its client.
    Expiry(u64, u64),
    /// Publishers that wait may have waited long enough.
    Patience,
    /// Retained messages whose time is over.
    Sweep,
}

/// A deadline that can be taken back.
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

    /// Takes a deadline back.
    pub(super) fn remove(&mut self, deadline: Deadline) {
        self.due.remove(&deadline);
    }

    /// Publishers wait: how long they have is looked at every `interval`.
    pub(super) fn watch(&mut self, now: u64, interval: u64) {
        if !self.watching {
            self.watching = true;
            self.add(now + interval.max(1), Due::Patience);
        }
    }

    /// Retained messages are to be looked through, sooner or later.
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

    pub(super) fn committed(&mut self) {
        self.commit = None;
    }

    /// The first deadline.
    pub(super) fn next(&self) -> Option<u64> {
        let first = self.due.first_key_value().map(|((when, _), _)| *when);
        first.into_iter().chain(self.commit).min()
    }

    /// The first deadline that has come, which is gone then.
    pub(super) fn pop(&mut self, now: u64) -> Option<Due> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}
