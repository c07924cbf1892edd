//! Limits on the rate and size of nodes' events: events are not acknowledged, so nothing else slows a node down.
//!
//! Source: `EventSourceObjectSpamFilter` of client-go (a burst of 25 for each object, then one in five minutes); the limits of
//! `ValidateEventCreate` of Kubernetes.

use std::{
    hash::{BuildHasher, Hash, RandomState},
    time::Duration,
};

use clock::{HashMap, Instant};
use limits::{Rate, object_event_rate};
use serde_json::Value;

/// How many events of one node about all objects may come in a burst: each of a hundred pods may have some.
const NODE_BURST: u32 = 1000;
/// Time after which a node may send one more event.
const NODE_REFILL: Duration = Duration::from_secs(1);
/// Nodes whose events are counted; beyond it the one without events for longest is forgotten.
const MAX_NODES: usize = 4096;
/// Objects of one node whose events are counted; beyond it the one of this node without events for longest is forgotten.
const MAX_OBJECTS: usize = 256;
/// The longest message, bytes; that of the note in `events.k8s.io/v1`.
const MESSAGE_BYTES: usize = 1024;
/// The longest of the other texts, bytes.
const TEXT_BYTES: usize = 128;
/// The largest event with its annotations, bytes.
const EVENT_BYTES: usize = 8 * 1024;

/// The limits of all nodes, and of the objects of each.
#[derive(Debug, Default)]
pub(super) struct EventLimits {
    nodes: HashMap<String, NodeEvents>,
    hasher: RandomState,
}

/// The limits of one node.
#[derive(Debug)]
struct NodeEvents {
    all: Bucket,
    /// By the hash of the object: the node determines how long an object's name is.
    objects: HashMap<u64, Bucket>,
}

/// A limit, and when it was last asked.
#[derive(Debug)]
struct Bucket {
    rate: Rate,
    last: Instant,
}

impl Bucket {
    fn new(rate: Rate, now: Instant) -> Self {
        Self { rate, last: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        self.last = now;
        self.rate.take(now)
    }
}

impl EventLimits {
    /// Reports whether `node` may send this event at `now`.
    pub(super) fn admit(&mut self, node: &str, event: &Value, now: Instant) -> bool {
        if !self.nodes.contains_key(node) {
            make_room(&mut self.nodes, MAX_NODES, |events| events.all.last);
            let events = NodeEvents {
                all: Bucket::new(Rate::every(NODE_REFILL, NODE_BURST, now), now),
                objects: HashMap::default(),
            };
            self.nodes.insert(node.to_owned(), events);
        }
        let Some(events) = self.nodes.get_mut(node) else {
            return false;
        };
        // asked first: a node that has sent too much has nothing more remembered
        if !events.all.rate.is_ready(now) {
            return false;
        }
        let about = self.hasher.hash_one(event.get("involvedObject"));
        if !events.objects.contains_key(&about) {
            make_room(&mut events.objects, MAX_OBJECTS, |bucket| bucket.last);
        }
        let object = events
            .objects
            .entry(about)
            .or_insert_with(|| Bucket::new(object_event_rate(now), now));
        object.take(now) && events.all.take(now)
    }
}

/// Removes the entry that was used least recently if there are `limit` already.
fn make_room<K: Clone + Eq + Hash, V>(
    map: &mut HashMap<K, V>,
    limit: usize,
    last: impl Fn(&V) -> Instant,
) {
    if map.len() < limit {
        return;
    }
    let oldest = map
        .iter()
        .min_by_key(|(_, value)| last(value))
        .map(|(key, _)| key.clone());
    if let Some(oldest) = oldest {
        map.remove(&oldest);
    }
}

/// Truncates the texts of an event; returns `None` if it is still too large.
pub(super) fn truncate(mut event: Value) -> Option<Value> {
    let fields = event.as_object_mut()?;
    let limits = [
        ("message", MESSAGE_BYTES),
        ("reason", TEXT_BYTES),
        ("action", TEXT_BYTES),
        ("reportingComponent", TEXT_BYTES),
        ("reportingInstance", TEXT_BYTES),
    ];
    for (name, limit) in limits {
        if let Some(Value::String(text)) = fields.get_mut(name)
            && text.len() > limit
        {
            text.truncate(text.floor_char_boundary(limit));
        }
    }
    (event.to_string().len() <= EVENT_BYTES).then_some(event)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn about(name: usize) -> Value {
        json!({"involvedObject": {"kind": "Pod", "name": name.to_string()}})
    }

    #[test]
    fn a_flood_of_one_node_is_held_back_and_no_other_node_with_it() {
        let (mut limits, now) = (EventLimits::default(), Instant::now());
        let told = (0..4000)
            .filter(|_| limits.admit("edge-1", &about(1), now))
            .count();
        assert_eq!(told, 25);
        assert!(limits.admit("edge-2", &about(1), now) && limits.admit("edge-1", &about(2), now));
        assert!(limits.admit("edge-1", &about(1), now + Duration::from_secs(300)));
        let mut limits = EventLimits::default();
        let told = (0..4000)
            .filter(|number| limits.admit("edge-1", &about(*number), now))
            .count();
        assert_eq!(told, 1000);
        assert!(limits.admit("edge-2", &about(1), now));
    }

    /// However long the names are that a node invents, and however many, what is kept of it is small, and of others nothing is forgotten.
    #[test]
    fn what_a_node_invents_fills_no_memory_and_pushes_no_other_node_out() {
        let (mut limits, now) = (EventLimits::default(), Instant::now());
        assert_eq!(
            (0..30)
                .filter(|_| limits.admit("edge-1", &about(1), now))
                .count(),
            25
        );
        for number in 0..5000_u64 {
            let uid = format!("{number}{}", "\u{1f600}".repeat(100));
            let event = json!({"involvedObject": {"kind": "Node", "name": "edge-2", "uid": uid}});
            limits.admit("edge-2", &event, now + Duration::from_secs(1 + number));
        }
        assert!(limits.nodes["edge-2"].objects.len() <= MAX_OBJECTS);
        assert!(
            !limits.admit("edge-1", &about(1), now),
            "its bucket is still there, and empty"
        );
        for number in 0..2 * MAX_NODES {
            limits.admit(&format!("node-{number}"), &about(1), now);
        }
        assert!(limits.nodes.len() <= MAX_NODES);
    }

    #[test]
    fn texts_are_cut_and_what_is_too_large_is_left_out() {
        let event = json!({"message": "ä".repeat(10_000), "reason": "r".repeat(200), "count": 1});
        let cut_event = truncate(event).unwrap();
        assert_eq!(
            (
                cut_event["message"].as_str().unwrap().len(),
                cut_event["count"].clone()
            ),
            (1024, json!(1))
        );
        assert_eq!(cut_event["reason"].as_str().unwrap().len(), 128);
        assert_eq!(
            truncate(json!({"metadata": {"annotations": {"a": "x".repeat(20_000)}}})),
            None
        );
    }
}
