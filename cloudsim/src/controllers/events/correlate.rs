//! Decides which occurrences become new events, which increment an earlier event, and which are dropped. Pure.
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

/// Beyond this number of different messages of one kind about one object, further ones share an event.
const MAX_SIMILAR_EVENTS: usize = 10;
/// How long an occurrence increments an earlier event.
const CORRELATION_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// The number of remembered events.
const REMEMBERED: usize = 4096;

/// The decision about an occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Drop it: there are too many.
    Drop,
    /// Create an event.
    Create { message: String },
    /// Increment the count of this event.
    Again {
        name: String,
        count: i32,
        message: String,
    },
}

/// The component, the uid (or name) of the object, and the reason.
type Key = (&'static str, String, &'static str);

#[derive(Debug)]
struct Seen {
    name: String,
    count: i32,
    last: Timestamp,
}

/// The recent events.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    /// By key and message, which is empty for events that share one.
    seen: HashMap<(Key, String), Seen>,
    alike: HashMap<Key, (HashSet<String>, Timestamp)>,
    /// The token buckets, with the time of the last occurrence.
    budgets: HashMap<(&'static str, String), (TokenBucket, Timestamp)>,
}

fn identity(about: &ObjectReference) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    format!(
        "{}/{}/{}/{}",
        text(&about.kind),
        text(&about.namespace),
        text(&about.name),
        text(&about.uid)
    )
}

impl Correlator {
    /// Decides about an occurrence.
    pub(super) fn correlate(
        &mut self,
        about: &ObjectReference,
        new_event: &NewEvent,
        now: Timestamp,
    ) -> Verdict {
        self.forget(now);
        let object = identity(about);
        let key: Key = (new_event.by.name(), object.clone(), new_event.reason);
        let (slot, message) = self.merged(&key, new_event, now);
        if !self.may_write((new_event.by.name(), object), now) {
            return Verdict::Drop;
        }
        match self.seen.get_mut(&(key, slot)) {
            Some(seen) => {
                seen.count += 1;
                seen.last = now;
                Verdict::Again {
                    name: seen.name.clone(),
                    count: seen.count,
                    message,
                }
            }
            None => Verdict::Create { message },
        }
    }

    /// Records that the event of an occurrence was written under this name.
    pub(super) fn record_written(
        &mut self,
        about: &ObjectReference,
        new_event: &NewEvent,
        name: String,
        now: Timestamp,
    ) {
        let key: Key = (new_event.by.name(), identity(about), new_event.reason);
        let (slot, _) = self.merged(&key, new_event, now);
        self.seen.insert(
            (key, slot),
            Seen {
                name,
                count: 1,
                last: now,
            },
        );
    }

    /// Returns the message of the key, and the one to write.
    fn merged(&mut self, key: &Key, new_event: &NewEvent, now: Timestamp) -> (String, String) {
        let (messages, last) = self
            .alike
            .entry(key.clone())
            .or_insert_with(|| (HashSet::new(), now));
        *last = now;
        if messages.len() < MAX_SIMILAR_EVENTS || messages.contains(&new_event.message) {
            messages.insert(new_event.message.clone());
            return (new_event.message.clone(), new_event.message.clone());
        }
        (
            String::new(),
            format!("(combined from similar events): {}", new_event.message),
        )
    }

    fn may_write(&mut self, key: (&'static str, String), now: Timestamp) -> bool {
        let full = || (TokenBucket::full(PER_OBJECT), now);
        let (bucket, last) = self.budgets.entry(key).or_insert_with(full);
        // a clock that was set back neither adds nor removes tokens
        let passed = Duration::try_from(now.duration_since(*last)).unwrap_or_default();
        *last = now;
        bucket.take(PER_OBJECT, passed)
    }

    fn forget(&mut self, now: Timestamp) {
        if self
            .alike
            .len()
            .max(self.seen.len())
            .max(self.budgets.len())
            < REMEMBERED
        {
            return;
        }
        let recent = |last: Timestamp| now.duration_since(last) < CORRELATION_WINDOW;
        self.seen.retain(|_, seen| recent(seen.last));
        self.alike.retain(|_, (_, last)| recent(*last));
        self.budgets.retain(|_, (_, last)| recent(*last));
        // many objects with one or two events each: nothing is lost that would be incremented
        if self
            .alike
            .len()
            .max(self.seen.len())
            .max(self.budgets.len())
            >= REMEMBERED
        {
            *self = Self::default();
        }
    }
}
