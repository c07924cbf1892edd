//! What is due when.

use std::collections::BTreeMap;

use super::Core;

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
    sweeping: bool,
    watching: bool,
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

    fn pop(&mut self, now: u64) -> Option<Due> {
        let entry = self.due.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}

impl Core {
    /// Does what is due.
    pub(super) fn fire(&mut self) {
        while let Some(due) = self.timers.pop(self.now) {
            match due {
                Due::Will(id, generation) => {
                    let away = self.away(id, generation);
                    if let Some(will) = away.then(|| self.sessions.get_mut(&id)?.will.take()).flatten() {
                        self.publish_will(will);
                    }
                }
                Due::Expiry(id, generation) => {
                    if self.away(id, generation) {
                        self.end_session(id);
                    }
                }
                Due::Patience => {
                    self.timers.watching = false;
                    self.room = true;
                    self.watch_held();
                }
                Due::Sweep => {
                    self.timers.sweeping = false;
                    self.sweep_retained();
                }
            }
        }
    }

    /// Whether the client has not been back since `generation`.
    fn away(&self, id: u64, generation: u64) -> bool {
        let session = self.sessions.get(&id);
        session.is_some_and(|session| session.connection.is_none() && session.generation == generation)
    }

    fn sweep_retained(&mut self) {
        for topic in self.retained.expired(self.now) {
            self.forget_retained(&topic);
        }
        self.timers.sweep(self.now);
    }
}
