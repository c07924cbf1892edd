//! Which occurrences become an event of their own, which count another one up, and which are too many. Pure.
//!
//! Source: client-go's `EventCorrelator` and its limits.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;

use super::{
    NewEvent,
    token_bucket::{PER_OBJECT, TokenBucket},
};

/// After so many different messages of one kind about one object, the rest share an event.
const ALIKE: usize = 10;
/// For how long an occurrence counts an earlier event up.
const WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// How much is remembered.
const REMEMBERED: usize = 4096;

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: too many.
    Drop,
    /// A new event.
    Create { message: String },
    /// This event of the namespace happened again.
    Again { name: String, count: i32, message: String },
}

/// Component, uid (or name) of the object, reason.
type Key = (&'static str, String, &'static str);

#[derive(Debug)]
struct Seen {
    name: String,
    count: i32,
    last: Timestamp,
}

/// What was told lately.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    /// By the message too; those that share an event have an empty one.
    seen: HashMap<(Key, String), Seen>,
    alike: HashMap<Key, (HashSet<String>, Timestamp)>,
    /// With the time of the last occurrence.
    budgets: HashMap<(&'static str, String), (TokenBucket, Timestamp)>,
}

fn identity(about: &ObjectReference) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    format!("{}/{}/{}/{}", text(&about.kind), text(&about.namespace), text(&about.name), text(&about.uid))
}

impl Correlator {
    /// What to write of an occurrence.
    pub(super) fn judge(&mut self, about: &ObjectReference, told: &NewEvent, now: Timestamp) -> Verdict {
        self.forget(now);
        let object = identity(about);
        let key: Key = (told.by.name(), object.clone(), told.reason);
        let (slot, message) = self.merged(&key, told, now);
        if !self.may_write((told.by.name(), object), now) {
            return Verdict::Drop;
        }
        match self.seen.get_mut(&(key, slot)) {
            Some(seen) => {
                seen.count += 1;
                seen.last = now;
                Verdict::Again { name: seen.name.clone(), count: seen.count, message }
            }
            None => Verdict::Create { message },
        }
    }

    /// The event of an occurrence was written under this name.
    pub(super) fn wrote(&mut self, about: &ObjectReference, told: &NewEvent, name: String, now: Timestamp) {
        let key: Key = (told.by.name(), identity(about), told.reason);
        let (slot, _) = self.merged(&key, told, now);
        self.seen.insert((key, slot), Seen { name, count: 1, last: now });
    }

    /// The message by which the occurrence is known, and the one that it has.
    fn merged(&mut self, key: &Key, told: &NewEvent, now: Timestamp) -> (String, String) {
        let (messages, last) = self.alike.entry(key.clone()).or_insert_with(|| (HashSet::new(), now));
        *last = now;
        if messages.len() < ALIKE || messages.contains(&told.message) {
            messages.insert(told.message.clone());
            return (told.message.clone(), told.message.clone());
        }
        (String::new(), format!("(combined from similar events): {}", told.message))
    }

    fn may_write(&mut self, key: (&'static str, String), now: Timestamp) -> bool {
        let full = || (TokenBucket::full(PER_OBJECT), now);
        let (bucket, last) = self.budgets.entry(key).or_insert_with(full);
        // a clock that was set back gives nothing and takes nothing
        let passed = Duration::try_from(now.duration_since(*last)).unwrap_or_default();
        *last = now;
        bucket.take(PER_OBJECT, passed)
    }

    fn forget(&mut self, now: Timestamp) {
        if self.alike.len().max(self.seen.len()).max(self.budgets.len()) < REMEMBERED {
            return;
        }
        let recent = |last: Timestamp| now.duration_since(last) < WINDOW;
        self.seen.retain(|_, seen| recent(seen.last));
        self.alike.retain(|_, (_, last)| recent(*last));
        self.budgets.retain(|_, (_, last)| recent(*last));
        // many objects at once, each told of once or twice: nothing is lost that would be counted up
        if self.alike.len().max(self.seen.len()).max(self.budgets.len()) >= REMEMBERED {
            *self = Self::default();
        }
    }
}
