//! The order of lanes, and what replaces what.

use serde_json::{Value, json};
use wire::{Change, ResourceType, Route, Upstream};

use super::*;

fn put(kind: ResourceType, name: &str) -> Message {
    Upstream::put(Change::Update, "ns", &kind, name, json!({})).into_message(1)
}

fn insert(kind: ResourceType, name: &str) -> Message {
    Upstream::put(Change::Insert, "ns", &kind, name, json!({})).into_message(1)
}

fn patch(name: &str, text: &str) -> Message {
    Upstream::pod_patch("ns", name, text.to_owned()).into_message(1)
}

fn contents(lanes: &mut Lanes) -> Vec<Value> {
    std::iter::from_fn(|| lanes.take())
        .map(|(_, message)| message.content)
        .collect()
}

#[test]
fn leases_go_first_and_events_last() {
    let mut lanes = Lanes::default();
    let answer = Message::new(Route::default(), Value::Null, 1).answering("x");
    let in_reverse = [
        (insert(ResourceType::Event, "e"), SendCondition::LowPriority),
        (
            insert(ResourceType::RuleStatus, "r"),
            SendCondition::RateLimited,
        ),
        (patch("p", "{}"), SendCondition::RateLimited),
        (
            Upstream::query("ns", &ResourceType::Secret, "s").into_message(1),
            SendCondition::RateLimited,
        ),
        (
            Upstream::node_patch("n", "{}".into()).into_message(1),
            SendCondition::RateLimited,
        ),
        (put(ResourceType::Lease, "n"), SendCondition::RateLimited),
        (answer, SendCondition::Exempt),
    ];
    for (message, _) in &in_reverse {
        assert_eq!(lanes.offer(message.clone()), Offered::Queued);
    }
    for (message, due) in in_reverse.into_iter().rev() {
        assert_eq!(lanes.due(), Some(due));
        assert_eq!(lanes.take(), Some((due, message)));
    }
    assert_eq!((lanes.due(), lanes.take()), (None, None));
}

#[test]
fn the_newest_report_on_an_object_takes_the_place_of_older_ones() {
    let mut lanes = Lanes::default();
    let first = patch("a", "1");
    lanes.offer(first.clone());
    lanes.offer(patch("b", "2"));
    assert_eq!(
        lanes.offer(patch("a", "3")),
        Offered::Replaced(first.header.msg_id)
    );
    assert_eq!(contents(&mut lanes), [json!("3"), json!("2")]);
}

#[test]
fn steps_of_their_own_are_all_sent_in_order() {
    let mut lanes = Lanes::default();
    let query = || Upstream::query("ns", &ResourceType::Secret, "s").into_message(1);
    let twin = || {
        Upstream::Device {
            path: "device/ns/d/twin/edge_updated".into(),
            update: json!({}),
        }
        .into_message(1)
    };
    let all = [
        query(),
        query(),
        insert(ResourceType::Pod, "p"),
        Upstream::pod_delete("ns", "p", "u").into_message(1),
        insert(ResourceType::Pod, "p"),
        twin(),
        twin(),
    ];
    for message in &all {
        assert_eq!(lanes.offer(message.clone()), Offered::Queued);
    }
    let sent: Vec<Message> = std::iter::from_fn(|| lanes.take())
        .map(|(_, message)| message)
        .collect();
    assert_eq!(sent, all);
}

#[test]
fn a_full_lane_gives_messages_back_and_the_others_go_on() {
    let mut lanes = Lanes::default();
    for number in 0..LANE_CAPACITY {
        lanes.offer(patch(&number.to_string(), "x"));
    }
    let more = patch("one more", "x");
    assert_eq!(lanes.offer(more.clone()), Offered::Full(Box::new(more)));
    assert!(
        matches!(lanes.offer(patch("7", "newer")), Offered::Replaced(_)),
        "what replaces needs no room"
    );
    assert_eq!(lanes.offer(put(ResourceType::Lease, "n")), Offered::Queued);
    lanes.clear();
    assert_eq!(lanes.due(), None);
}
