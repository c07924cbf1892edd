//! Correlates Kubernetes events: equal ones become one event with a count, many similar ones are combined, and too many of one object
//! are dropped. Numbers and rules are those of client-go's `EventCorrelator`. Pure: the time is an argument.

use clock::Instant;
use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher, Hash, RandomState},
    time::Duration,
};

use jiff::Timestamp;

use crate::Rate;

/// How many different messages of one kind within [`WINDOW`] are separate events. Further ones are combined.
const MAX_SIMILAR: usize = 10;
/// How long similar events are remembered.
const WINDOW: Duration = Duration::from_secs(600);
/// How many events of one object may come in a burst.
const EVENT_BURST: u32 = 25;
/// Time after which an object may have one more event.
const EVENT_REFILL: Duration = Duration::from_secs(300);
/// Maximum number of events, groups of similar events, and objects that are remembered.
const MAX_CACHE_ENTRIES: usize = 4096;
/// Maximum length of a message in the API, in bytes.
const MAX_MESSAGE: usize = 1024;

/// Hash of the properties that identify an event; saves memory where many objects come and go.
type EventHash = u64;

/// Returns the limit on the events of one source about one object.
pub fn object_event_rate(now: Instant) -> Rate {
    Rate::every(EVENT_REFILL, EVENT_BURST, now)
}

/// What tells events apart, besides their messages.
#[derive(Clone, Copy, Debug)]
pub struct EventIdentity<O, K> {
    /// The object, and the reporting component if there are several. The rate of its events is limited.
    pub object: O,
    /// The rest: the reason and the type, for example. Only events of the same kind about the same object are similar.
    pub kind: K,
}

/// An event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrelatedEvent {
    /// When it occurred first. Its name is made from this time.
    pub first: Timestamp,
    /// How often it has occurred. If more than once, it was recorded before.
    pub count: i32,
    /// The message, which says if it is combined from similar events.
    pub message: String,
    hash: EventHash,
}

/// Remembers recorded events.
#[derive(Debug, Default)]
pub struct EventCorrelator {
    hasher: RandomState,
    /// Events by hash of identity and message.
    recorded: HashMap<EventHash, RecordedEvent>,
    /// Similar events, by hash of the identity.
    similar: HashMap<EventHash, SimilarEvents>,
    /// The limits of objects by hash, with the time of the last event.
    rates: HashMap<EventHash, (Rate, Instant)>,
}

#[derive(Debug)]
struct RecordedEvent {
    first: Timestamp,
    count: i32,
    last: Instant,
}

/// Messages of similar events, and when the last one came.
#[derive(Debug)]
struct SimilarEvents {
    last: Instant,
    messages: BTreeSet<EventHash>,
}

impl EventCorrelator {
    /// Returns what to write for an event that occurred at `at`, or `None` if the event is dropped.
    pub fn correlate(
        &mut self,
        identity: &EventIdentity<impl Hash, impl Hash>,
        message: String,
        at: Timestamp,
        now: Instant,
    ) -> Option<CorrelatedEvent> {
        self.evict(now);
        let object = self.hasher.hash_one(&identity.object);
        let kind = self.hasher.hash_one((object, &identity.kind));
        let (hash, message) = self.aggregate(kind, truncate_message(message), now);
        let full = || (object_event_rate(now), now);
        let (rate, last) = self.rates.entry(object).or_insert_with(full);
        *last = now;
        if !rate.take(now) {
            return None;
        }
        let recorded = self.recorded.entry(hash).or_insert(RecordedEvent {
            first: at,
            count: 0,
            last: now,
        });
        recorded.count = recorded.count.saturating_add(1);
        recorded.last = now;
        Some(CorrelatedEvent {
            first: recorded.first,
            count: recorded.count,
            message,
            hash,
        })
    }

    /// Begins an event again, as one that occurs first at `at`: it has expired in the API.
    pub fn restart(&mut self, event: &mut CorrelatedEvent, at: Timestamp) {
        (event.first, event.count) = (at, 1);
        if let Some(recorded) = self.recorded.get_mut(&event.hash) {
            (recorded.first, recorded.count) = (at, 1);
        }
    }

    /// Returns the hash of the event, and its message. If there were too many similar ones, all further ones get the same hash and
    /// a message that says so.
    fn aggregate(&mut self, kind: EventHash, message: String, now: Instant) -> (EventHash, String) {
        let one = self.hasher.hash_one((kind, &*message));
        let similar = self.similar.entry(kind).or_insert(SimilarEvents {
            last: now,
            messages: BTreeSet::new(),
        });
        if !is_recent(similar.last, now) {
            similar.messages.clear();
        }
        similar.last = now;
        if similar.messages.len() < MAX_SIMILAR || similar.messages.contains(&one) {
            similar.messages.insert(one);
            return (one, message);
        }
        let combined = format!("(combined from similar events): {message}");
        (kind, truncate_message(combined))
    }

    /// Forgets what has not occurred recently if there is too much, and everything if too much is left.
    fn evict(&mut self, now: Instant) {
        if !self.is_full() {
            return;
        }
        self.recorded.retain(|_, event| is_recent(event.last, now));
        self.similar.retain(|_, event| is_recent(event.last, now));
        self.rates.retain(|_, (_, last)| is_recent(*last, now));
        if self.is_full() {
            self.recorded.clear();
            self.similar.clear();
            self.rates.clear();
        }
    }

    fn is_full(&self) -> bool {
        let sizes = [self.recorded.len(), self.similar.len(), self.rates.len()];
        sizes.into_iter().any(|size| size >= MAX_CACHE_ENTRIES)
    }
}

fn is_recent(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) < WINDOW
}

/// Truncates a message to the API's maximum.
fn truncate_message(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE - 3));
        message.push_str("...");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A correlator, and the time at which it begins.
    struct World {
        correlator: EventCorrelator,
        start: Instant,
    }

    impl World {
        fn new() -> Self {
            Self {
                correlator: EventCorrelator::default(),
                start: Instant::now(),
            }
        }

        fn correlate(
            &mut self,
            object: &str,
            message: &str,
            second: u64,
        ) -> Option<CorrelatedEvent> {
            let identity = EventIdentity {
                object,
                kind: ("Unhealthy", "Warning"),
            };
            let at = Timestamp::from_second(i64::try_from(second).unwrap()).unwrap();
            let now = self.start + Duration::from_secs(second);
            self.correlator
                .correlate(&identity, message.into(), at, now)
        }

        /// Returns an event as its message and its count.
        fn line(&mut self, object: &str, message: &str, second: u64) -> String {
            let event = self.correlate(object, message, second);
            event.map_or("nothing".into(), |event| {
                format!("{} x{}", event.message, event.count)
            })
        }
    }

    #[test]
    fn equal_events_are_counted() {
        let mut world = World::new();
        assert_eq!(world.line("a", "no", 0), "no x1");
        assert_eq!(world.line("a", "no", 7), "no x2");
        assert_eq!(world.line("b", "no", 7), "no x1", "another pod");
        assert_eq!(world.line("a", "never", 7), "never x1");
        let event = world.correlate("a", "no", 9).unwrap();
        assert_eq!((event.first, event.count), (Timestamp::UNIX_EPOCH, 3));
    }

    #[test]
    fn similar_events_are_combined_until_the_window_ends() {
        let mut world = World::new();
        for number in 0..10 {
            let message = format!("m{number}");
            assert_eq!(world.line("a", &message, 0), format!("{message} x1"));
        }
        let combined = "(combined from similar events): ";
        assert_eq!(world.line("a", "m10", 0), format!("{combined}m10 x1"));
        assert_eq!(world.line("a", "m11", 1), format!("{combined}m11 x2"));
        assert_eq!(world.line("a", "m3", 1), "m3 x2");
        assert_eq!(world.line("a", "m12", 700), "m12 x1");
    }

    #[test]
    fn events_of_one_object_are_rate_limited() {
        let mut world = World::new();
        let mut take = |second| world.correlate("a", "no", second).is_some();
        assert_eq!((0..1000).filter(|_| take(0)).count(), 25);
        assert!(!take(299));
        assert!(take(300) && !take(301));
        assert!(world.correlate("b", "no", 301).is_some());
    }

    #[test]
    fn an_event_that_has_expired_begins_again() {
        let mut world = World::new();
        for second in 0..3 {
            world.correlate("a", "no", second);
        }
        let mut event = world.correlate("a", "no", 3).unwrap();
        let at = Timestamp::from_second(4).unwrap();
        world.correlator.restart(&mut event, at);
        assert_eq!((event.first, event.count), (at, 1));
        let next = world.correlate("a", "no", 5).unwrap();
        assert_eq!((next.first, next.count), (at, 2));
    }

    #[test]
    fn messages_are_truncated_between_characters() {
        let event = World::new().correlate("a", &"é".repeat(1000), 0).unwrap();
        assert!(event.message.len() <= MAX_MESSAGE && event.message.ends_with("é..."));
    }

    /// A flood of objects is bounded, and what has occurred recently is kept as long as it fits.
    #[test]
    fn the_number_of_remembered_events_is_bounded() {
        let mut world = World::new();
        for number in 0..MAX_CACHE_ENTRIES - 1 {
            world.correlate(&number.to_string(), "no", 0);
        }
        world.correlate("new", "no", 700);
        assert_eq!(world.line("new", "no", 701), "no x2");
        assert!(world.correlator.recorded.len() < MAX_CACHE_ENTRIES);
        for number in 0..2 * MAX_CACHE_ENTRIES {
            world.correlate(&number.to_string(), "no", 701);
            assert!(world.correlator.rates.len() <= MAX_CACHE_ENTRIES);
        }
    }
}
