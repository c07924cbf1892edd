//! Many equal events are one that counts, many similar ones are one that says so, and too many are none: by the numbers of
//! Kubernetes' own client. Pure.

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

use super::Occurrence;
use crate::edged::moment;

/// So many different messages of one reason within [`WINDOW`] are events of their own; more are one event.
const MAX_SIMILAR: usize = 10;
/// What happened longer ago is history.
const WINDOW: Duration = Duration::from_secs(600);
/// Events of one object that may come at once.
const BURST: f64 = 25.0;
/// Time after which one object may have one event more.
const REFILL: Duration = Duration::from_secs(300);
/// Series, reasons and objects that are remembered.
const MAX_REMEMBERED: usize = 4096;
/// The longest message that the API takes.
const MAX_MESSAGE: usize = 1024;
/// What speaks: pods' events are the kubelet's, whoever plays it.
const COMPONENT: &str = "kubelet";

/// What to write to the API.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Something new.
    Create(Event),
    /// Something that was recorded before has happened again.
    Patch(Event),
}

/// Stands for what an event is about: a node that starts and ends pods all day remembers thousands.
type Key = u64;

/// Remembers what was recorded.
pub(super) struct Series {
    node_name: String,
    hasher: RandomState,
    /// By what makes events equal: object, part, reason, message.
    recorded: HashMap<Key, Recorded>,
    /// By what makes them similar: the same without the message.
    similar: HashMap<Key, Similar>,
    /// By object.
    budgets: HashMap<Key, (f64, Timestamp)>,
}

/// An event that was recorded: it has its name from when it was recorded first.
struct Recorded {
    first: Timestamp,
    count: i32,
}

/// Messages of similar events.
struct Similar {
    last: Timestamp,
    messages: BTreeSet<Key>,
}

impl Series {
    /// Nothing was recorded yet.
    pub(super) fn new(node_name: String) -> Self {
        Self {
            node_name,
            hasher: RandomState::new(),
            recorded: HashMap::new(),
            similar: HashMap::new(),
            budgets: HashMap::new(),
        }
    }

    /// What to write of this, if anything.
    pub(super) fn take(&mut self, mut occurrence: Occurrence) -> Option<Write> {
        let now = occurrence.at;
        self.tidy(now);
        occurrence.message = cut(occurrence.message);
        let key = self.aggregate(&mut occurrence, now);
        if !self.spend(self.hasher.hash_one(&occurrence.object.uid), now) {
            return None;
        }
        let recorded = self.recorded.entry(key).or_insert(Recorded { first: now, count: 0 });
        recorded.count = recorded.count.saturating_add(1);
        let (first, count) = (recorded.first, recorded.count);
        let event = self.event(occurrence, (first, now), count);
        Some(if count == 1 { Write::Create(event) } else { Write::Patch(event) })
    }

    /// What makes it equal to others. When there were too many similar ones, all further ones are one series, and say so.
    fn aggregate(&mut self, occurrence: &mut Occurrence, now: Timestamp) -> Key {
        let Occurrence { object, severity, reason, message, .. } = occurrence;
        let key = self.hasher.hash_one((&object.uid, &object.name, &object.field_path, reason, severity));
        let one = self.hasher.hash_one((key, &*message));
        let similar = self.similar.entry(key).or_insert(Similar { last: now, messages: BTreeSet::new() });
        if is_history(similar.last, now) {
            similar.messages.clear();
        }
        similar.last = now;
        if similar.messages.len() < MAX_SIMILAR || similar.messages.contains(&one) {
            similar.messages.insert(one);
            return one;
        }
        *message = cut(format!("(combined from similar events): {message}"));
        key
    }

    /// Takes one from the object's budget.
    fn spend(&mut self, object: Key, now: Timestamp) -> bool {
        let (left, since) = self.budgets.entry(object).or_insert((BURST, now));
        let earned = moment::until(now, *since).as_secs_f64() / REFILL.as_secs_f64();
        (*left, *since) = ((*left + earned).min(BURST), now);
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }

    /// Forgets history, and everything when even that is too much.
    fn tidy(&mut self, now: Timestamp) {
        if self.similar.len() >= MAX_REMEMBERED {
            self.similar.retain(|_, similar| !is_history(similar.last, now));
        }
        let sizes = [self.recorded.len(), self.similar.len(), self.budgets.len()];
        if sizes.into_iter().any(|size| size >= MAX_REMEMBERED) {
            self.recorded.clear();
            self.similar.clear();
            self.budgets.clear();
        }
    }

    fn event(&self, occurrence: Occurrence, (first, last): (Timestamp, Timestamp), count: i32) -> Event {
        let Occurrence { object, severity, reason, message, .. } = occurrence;
        let name = object.name.clone().unwrap_or_default();
        Event {
            metadata: ObjectMeta {
                // The form that everyone knows: the object's name and the nanosecond.
                name: Some(format!("{name}.{:x}", first.as_nanosecond())),
                // Of what has none, as a node, the event has to have one all the same.
                namespace: object.namespace.clone().or_else(|| Some("default".into())),
                ..Default::default()
            },
            involved_object: object,
            reason: Some(reason.into_owned()),
            message: Some(message),
            type_: Some(severity.to_string()),
            source: Some(EventSource {
                component: Some(COMPONENT.into()),
                host: Some(self.node_name.clone()),
            }),
            reporting_component: Some(COMPONENT.into()),
            reporting_instance: Some(self.node_name.clone()),
            count: Some(count),
            first_timestamp: Some(moment::to_api(first)),
            last_timestamp: Some(moment::to_api(last)),
            ..Default::default()
        }
    }
}

fn is_history(at: Timestamp, now: Timestamp) -> bool {
    moment::since(at, now) >= WINDOW
}

/// At most as long as the API takes.
fn cut(mut message: String) -> String {
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
    use crate::edged::events::Severity;

    fn occurrence(uid: &str, message: &str, second: i64) -> Occurrence {
        let object = ObjectReference {
            name: Some("web".into()),
            namespace: Some("shop".into()),
            uid: Some(uid.into()),
            ..Default::default()
        };
        Occurrence {
            object,
            severity: Severity::Warning,
            reason: "Unhealthy".into(),
            message: message.into(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    fn line(write: Option<Write>) -> String {
        let of = |verb: &str, event: Event| {
            format!("{verb} {} x{}", event.message.unwrap_or_default(), event.count.unwrap_or_default())
        };
        match write {
            Some(Write::Create(event)) => of("create", event),
            Some(Write::Patch(event)) => of("patch", event),
            None => "nothing".into(),
        }
    }

    #[test]
    fn equal_events_are_one_that_counts() {
        let mut series = Series::new("edge-1".into());
        let mut take = |uid: &str, message: &str| line(series.take(occurrence(uid, message, 0)));
        assert_eq!(take("a", "no"), "create no x1");
        assert_eq!(take("a", "no"), "patch no x2");
        assert_eq!(take("b", "no"), "create no x1", "another pod");
        assert_eq!(take("a", "never"), "create never x1");
    }

    #[test]
    fn too_many_different_ones_are_combined_until_it_is_quiet() {
        let mut series = Series::new("edge-1".into());
        let mut take = |message: &str, second| line(series.take(occurrence("a", message, second)));
        for number in 0..10 {
            assert_eq!(take(&format!("m{number}"), 0), format!("create m{number} x1"));
        }
        assert_eq!(take("m10", 0), "create (combined from similar events): m10 x1");
        assert_eq!(take("m11", 1), "patch (combined from similar events): m11 x2");
        assert_eq!(take("m3", 1), "patch m3 x2");
        assert_eq!(take("m12", 700), "create m12 x1");
    }

    #[test]
    fn an_object_that_says_too_much_is_not_listened_to_for_a_while() {
        let mut series = Series::new("edge-1".into());
        let mut take = |second| series.take(occurrence("a", "no", second)).is_some();
        assert_eq!((0..30).filter(|_| take(0)).count(), 25);
        assert!(!take(299));
        assert!(take(300) && !take(301));
    }

    #[test]
    fn an_event_is_as_the_kubelets() {
        let mut series = Series::new("edge-1".into());
        let long = "é".repeat(1000);
        let write = series.take(occurrence("a", &long, 0));
        let Some(Write::Create(event)) = write else { panic!("{write:?}") };
        assert!(
            event.message.as_ref().is_some_and(|message| message.len() <= 1024 && message.ends_with("é..."))
        );
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        assert_eq!((text(&event.metadata.name), text(&event.type_)), ("web.0".into(), "Warning".into()));
        assert_eq!(event.source.unwrap().host.as_deref(), Some("edge-1"));
    }
}
