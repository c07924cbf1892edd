//! Correlates events: equal ones become one event with a count, many similar ones are combined, and too many of one object are
//! dropped. Numbers and rules are those of client-go's `EventCorrelator`. Pure.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::PendingEvent;
use crate::timestamps;

/// How many different messages with one reason within [`AGGREGATION_WINDOW`] are separate events. Further ones are combined.
const MAX_SIMILAR: usize = 10;
/// How long similar events are remembered.
const AGGREGATION_WINDOW: Duration = Duration::from_secs(600);
/// How many events of one object may come in a burst.
const BURST: f64 = 25.0;
/// Time after which an object may have one more event.
const REFILL_INTERVAL: Duration = Duration::from_secs(300);
/// Maximum number of events, groups of similar events, and objects that are remembered.
const MAX_CACHE_ENTRIES: usize = 4096;
/// Maximum length of a message in the API, in bytes.
const MAX_MESSAGE: usize = 1024;
/// The component that reports the events. Programs look for the kubelet's.
const COMPONENT: &str = "kubelet";

/// A write of an event to the API.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EventWrite {
    /// A new event.
    Create(Event),
    /// An event that was recorded before and has occurred again.
    Patch(Event),
}

/// Hash of the properties that identify an event; saves memory on a node that starts and ends many pods.
type Key = u64;

/// Remembers recorded events.
pub(super) struct EventCorrelator {
    node_name: String,
    hasher: RandomState,
    /// Events by hash of object, field path, reason, type and message.
    recorded: HashMap<Key, RecordedEvent>,
    /// Similar events, by hash of the same without the message.
    similar: HashMap<Key, SimilarEvents>,
    /// Events that each object may still have, with the time of the last update, by hash of the object's uid.
    budgets: HashMap<Key, (f64, Timestamp)>,
}

/// A recorded event. Its name is made from the time at which it was recorded first.
struct RecordedEvent {
    first: Timestamp,
    count: i32,
}

/// Messages of similar events, and when the last one came.
struct SimilarEvents {
    last: Timestamp,
    messages: BTreeSet<Key>,
}

impl EventCorrelator {
    /// Returns a correlator that remembers nothing.
    pub(super) fn new(node_name: String) -> Self {
        Self {
            node_name,
            hasher: RandomState::new(),
            recorded: HashMap::new(),
            similar: HashMap::new(),
            budgets: HashMap::new(),
        }
    }

    /// Returns the write for an event, or `None` if the event is dropped.
    pub(super) fn correlate(&mut self, mut event: PendingEvent) -> Option<EventWrite> {
        let now = event.at;
        self.evict(now);
        event.message = truncate_message(event.message);
        let key = self.aggregate(&mut event, now);
        if !self.take_token(self.hasher.hash_one(&event.object.uid), now) {
            return None;
        }
        let recorded = self.recorded.entry(key).or_insert(RecordedEvent {
            first: now,
            count: 0,
        });
        recorded.count = recorded.count.saturating_add(1);
        let (first, count) = (recorded.first, recorded.count);
        let event = self.event(event, (first, now), count);
        Some(if count == 1 {
            EventWrite::Create(event)
        } else {
            EventWrite::Patch(event)
        })
    }

    /// Returns the key of the event. If there were too many similar ones, all further ones get the same key and a message that
    /// says so.
    fn aggregate(&mut self, event: &mut PendingEvent, now: Timestamp) -> Key {
        let PendingEvent {
            object,
            event_type,
            reason,
            message,
            ..
        } = event;
        let key = self.hasher.hash_one((
            &object.uid,
            &object.name,
            &object.field_path,
            reason,
            event_type,
        ));
        let one = self.hasher.hash_one((key, &*message));
        let similar = self.similar.entry(key).or_insert(SimilarEvents {
            last: now,
            messages: BTreeSet::new(),
        });
        if is_expired(similar.last, now) {
            similar.messages.clear();
        }
        similar.last = now;
        if similar.messages.len() < MAX_SIMILAR || similar.messages.contains(&one) {
            similar.messages.insert(one);
            return one;
        }
        *message = truncate_message(format!("(combined from similar events): {message}"));
        key
    }

    /// Takes a token from the object's budget and reports whether there was one.
    fn take_token(&mut self, object: Key, now: Timestamp) -> bool {
        let (left, since) = self.budgets.entry(object).or_insert((BURST, now));
        let earned = timestamps::until(now, *since).as_secs_f64() / REFILL_INTERVAL.as_secs_f64();
        (*left, *since) = ((*left + earned).min(BURST), now);
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }

    /// Forgets expired events, and everything if too many are left.
    fn evict(&mut self, now: Timestamp) {
        if self.similar.len() >= MAX_CACHE_ENTRIES {
            self.similar
                .retain(|_, similar| !is_expired(similar.last, now));
        }
        let sizes = [self.recorded.len(), self.similar.len(), self.budgets.len()];
        if sizes.into_iter().any(|size| size >= MAX_CACHE_ENTRIES) {
            self.recorded.clear();
            self.similar.clear();
            self.budgets.clear();
        }
    }

    fn event(
        &self,
        event: PendingEvent,
        (first, last): (Timestamp, Timestamp),
        count: i32,
    ) -> Event {
        let PendingEvent {
            object,
            event_type,
            reason,
            message,
            ..
        } = event;
        let name = object.name.clone().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                // As in client-go: the object's name and the time in nanoseconds.
                name: Some(format!("{name}.{:x}", first.as_nanosecond())),
                // Events of objects without a namespace, such as a node, are in `default`.
                namespace: object.namespace.clone().or_else(|| Some("default".into())),
                ..Default::default()
            },
            involved_object: object,
            reason: Some(reason.into_owned()),
            message: Some(message),
            type_: Some(event_type.to_string()),
            source: Some(EventSource {
                component: Some(COMPONENT.into()),
                host: Some(self.node_name.clone()),
            }),
            reporting_component: Some(COMPONENT.into()),
            reporting_instance: Some(self.node_name.clone()),
            count: Some(count),
            first_timestamp: Some(timestamps::to_api(first)),
            last_timestamp: Some(timestamps::to_api(last)),
            ..Default::default()
        }
    }
}

fn is_expired(at: Timestamp, now: Timestamp) -> bool {
    timestamps::since(at, now) >= AGGREGATION_WINDOW
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
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;
    use crate::events::EventType;

    fn event(uid: &str, message: &str, second: i64) -> PendingEvent {
        let object = ObjectReference {
            name: Some("web".into()),
            namespace: Some("shop".into()),
            uid: Some(uid.into()),
            ..Default::default()
        };
        PendingEvent {
            object,
            event_type: EventType::Warning,
            reason: "Unhealthy".into(),
            message: message.into(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    fn line(write: Option<EventWrite>) -> String {
        let of = |verb: &str, event: Event| {
            format!(
                "{verb} {} x{}",
                event.message.unwrap_or_default(),
                event.count.unwrap_or_default()
            )
        };
        match write {
            Some(EventWrite::Create(event)) => of("create", event),
            Some(EventWrite::Patch(event)) => of("patch", event),
            None => "nothing".into(),
        }
    }

    #[test]
    fn equal_events_are_counted() {
        let mut correlator = EventCorrelator::new("edge-1".into());
        let mut take =
            |uid: &str, message: &str| line(correlator.correlate(event(uid, message, 0)));
        assert_eq!(take("a", "no"), "create no x1");
        assert_eq!(take("a", "no"), "patch no x2");
        assert_eq!(take("b", "no"), "create no x1", "another pod");
        assert_eq!(take("a", "never"), "create never x1");
    }

    #[test]
    fn similar_events_are_combined_until_the_window_ends() {
        let mut correlator = EventCorrelator::new("edge-1".into());
        let mut take =
            |message: &str, second| line(correlator.correlate(event("a", message, second)));
        for number in 0..10 {
            assert_eq!(
                take(&format!("m{number}"), 0),
                format!("create m{number} x1")
            );
        }
        assert_eq!(
            take("m10", 0),
            "create (combined from similar events): m10 x1"
        );
        assert_eq!(
            take("m11", 1),
            "patch (combined from similar events): m11 x2"
        );
        assert_eq!(take("m3", 1), "patch m3 x2");
        assert_eq!(take("m12", 700), "create m12 x1");
    }

    #[test]
    fn events_of_one_object_are_rate_limited() {
        let mut correlator = EventCorrelator::new("edge-1".into());
        let mut take = |second| correlator.correlate(event("a", "no", second)).is_some();
        assert_eq!((0..30).filter(|_| take(0)).count(), 25);
        assert!(!take(299));
        assert!(take(300) && !take(301));
    }

    #[test]
    fn an_event_is_as_the_kubelets() {
        let mut correlator = EventCorrelator::new("edge-1".into());
        let long = "é".repeat(1000);
        let write = correlator.correlate(event("a", &long, 0));
        let Some(EventWrite::Create(event)) = write else {
            panic!("{write:?}")
        };
        assert!(
            event
                .message
                .as_ref()
                .is_some_and(|message| message.len() <= 1024 && message.ends_with("é..."))
        );
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        assert_eq!(
            (text(&event.metadata.name), text(&event.type_)),
            ("web.0".into(), "Warning".into())
        );
        assert_eq!(event.source.unwrap().host.as_deref(), Some("edge-1"));
    }
}
