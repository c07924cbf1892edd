//! Limits on the rate and size of nodes' events: events are not acknowledged, so nothing else slows a node down.
//!
//! Source: `EventSourceObjectSpamFilter` of client-go (a burst of 25 for each object, then one in five minutes); the limits of
//! `ValidateEventCreate` of Kubernetes.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::controllers::events::token_bucket::{PER_OBJECT, Rate, TokenBucket};

/// The rate of one node's events about all objects: each of a hundred pods may have some.
const NODE: Rate = Rate { burst: 1000.0, refill: Duration::from_secs(1) };
/// Objects and nodes whose events are counted; beyond it those without events for longest are forgotten.
const REMEMBERED: usize = 4096;
/// The longest message, bytes; that of the note in `events.k8s.io/v1`.
const MESSAGE_BYTES: usize = 1024;
/// The longest of the other texts, bytes.
const TEXT_BYTES: usize = 128;
/// The largest event with its annotations, bytes.
const EVENT_BYTES: usize = 8 * 1024;

/// The token buckets of all nodes and objects.
#[derive(Debug, Default)]
pub(super) struct EventLimits(HashMap<(String, Option<String>), (TokenBucket, Instant)>);

impl EventLimits {
    /// Reports whether `node` may send this event at `now`.
    pub(super) fn admit(&mut self, node: &str, event: &Value, now: Instant) -> bool {
        let about = event.get("involvedObject").map(Value::to_string).unwrap_or_default();
        // the node determines the names of objects, which must not fill the memory
        let about = about.chars().take(2 * EVENT_BYTES).collect();
        let may = self.take((node.to_owned(), Some(about)), PER_OBJECT, now);
        may && self.take((node.to_owned(), None), NODE, now)
    }

    fn take(&mut self, key: (String, Option<String>), rate: Rate, now: Instant) -> bool {
        if self.0.len() >= REMEMBERED && !self.0.contains_key(&key) {
            let oldest = self.0.iter().min_by_key(|(_, (_, last))| *last).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.0.remove(&oldest);
            }
        }
        let (bucket, last) = self.0.entry(key).or_insert_with(|| (TokenBucket::full(rate), now));
        let passed = now.saturating_duration_since(*last);
        *last = now;
        bucket.take(rate, passed)
    }
}

/// Truncates the texts of an event; returns `None` if it is still too large.
pub(super) fn cut(mut event: Value) -> Option<Value> {
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
        let told = (0..4000).filter(|_| limits.admit("edge-1", &about(1), now)).count();
        assert_eq!(told, 25);
        assert!(limits.admit("edge-2", &about(1), now) && limits.admit("edge-1", &about(2), now));
        assert!(limits.admit("edge-1", &about(1), now + Duration::from_secs(300)));
        let mut limits = EventLimits::default();
        let told = (0..4000).filter(|number| limits.admit("edge-1", &about(*number), now)).count();
        assert_eq!(told, 1000);
        assert!(limits.admit("edge-2", &about(1), now));
        assert!(limits.0.len() <= REMEMBERED);
    }

    #[test]
    fn texts_are_cut_and_what_is_too_large_is_left_out() {
        let event = json!({"message": "ä".repeat(10_000), "reason": "r".repeat(200), "count": 1});
        let cut_event = cut(event).unwrap();
        assert_eq!(
            (cut_event["message"].as_str().unwrap().len(), cut_event["count"].clone()),
            (1024, json!(1))
        );
        assert_eq!(cut_event["reason"].as_str().unwrap().len(), 128);
        assert_eq!(cut(json!({"metadata": {"annotations": {"a": "x".repeat(20_000)}}})), None);
    }
}
