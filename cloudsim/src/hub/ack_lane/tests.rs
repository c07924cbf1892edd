//! The rules of the lane, one by one.

use super::*;
use crate::{
    delivery::ObjectRef,
    mailbox::{ObjectKind, ObjectPath},
};

const ACK_TIMEOUT: Duration = Duration::from_secs(5);

fn delivery(uid: &str, revision: Option<u64>) -> Delivery {
    let mut message = Message::default();
    message.header.msg_id = format!("{uid}@{revision:?}");
    let path = ObjectPath::new(ObjectKind::Pod, "default", uid);
    Delivery {
        key: DeliveryKey::Object(uid.into()),
        object: Some(ObjectRef {
            path,
            uid: uid.into(),
        }),
        revision,
        message: Arc::new(message),
    }
}

fn send(lane: &mut AckLane, now: Instant) -> Option<String> {
    match lane.step(now) {
        Step::Send(message) => Some(message.header.msg_id.clone()),
        Step::Wait(_) | Step::Idle => None,
    }
}

#[test]
fn one_message_is_on_the_wire_and_the_next_follows_its_acknowledgement() {
    let now = Instant::now();
    let mut lane = AckLane::new(ACK_TIMEOUT);
    lane.offer(delivery("a", Some(1)));
    lane.offer(delivery("b", Some(2)));
    assert_eq!(send(&mut lane, now).as_deref(), Some("a@Some(1)"));
    assert_eq!(send(&mut lane, now), None);
    assert!(lane.acknowledge("b@Some(2)").is_none());
    assert!(lane.acknowledge("a@Some(1)").is_some());
    assert!(
        lane.acknowledge("a@Some(1)").is_none(),
        "a duplicate acknowledgement is nothing"
    );
    assert_eq!(send(&mut lane, now).as_deref(), Some("b@Some(2)"));
}

#[test]
fn the_newest_revision_replaces_and_older_ones_are_dropped() {
    let now = Instant::now();
    let mut lane = AckLane::new(ACK_TIMEOUT);
    lane.offer(delivery("a", Some(5)));
    lane.offer(delivery("a", Some(7)));
    lane.offer(delivery("a", Some(6)));
    assert_eq!(lane.len(), 1);
    assert_eq!(send(&mut lane, now).as_deref(), Some("a@Some(7)"));
    lane.offer(delivery("a", Some(7)));
    assert_eq!(lane.len(), 1, "what flies is not queued again");
}

#[test]
fn a_pending_delete_wins() {
    let now = Instant::now();
    let mut lane = AckLane::new(ACK_TIMEOUT);
    lane.offer(delivery("a", Some(1)));
    lane.offer(delivery("a", None));
    lane.offer(delivery("a", Some(9)));
    assert_eq!(send(&mut lane, now).as_deref(), Some("a@None"));
}

#[test]
fn answers_are_all_sent() {
    let mut lane = AckLane::new(ACK_TIMEOUT);
    for request in ["r1", "r2"] {
        lane.offer(Delivery {
            key: DeliveryKey::Answer(request.into()),
            ..delivery("cm", Some(3))
        });
    }
    assert_eq!(lane.len(), 2);
}

#[test]
fn the_same_message_is_sent_five_times_and_then_others_get_their_turn() {
    let start = Instant::now();
    let mut lane = AckLane::new(ACK_TIMEOUT);
    lane.offer(delivery("a", Some(1)));
    lane.offer(delivery("b", Some(2)));
    for attempt in 0..ATTEMPTS {
        assert_eq!(
            send(&mut lane, start + ACK_TIMEOUT * attempt).as_deref(),
            Some("a@Some(1)"),
            "attempt {attempt}"
        );
    }
    assert_eq!(
        send(&mut lane, start + ACK_TIMEOUT * ATTEMPTS).as_deref(),
        Some("b@Some(2)")
    );
    assert!(lane.acknowledge("b@Some(2)").is_some());
    assert_eq!(
        send(&mut lane, start + ACK_TIMEOUT * ATTEMPTS).as_deref(),
        Some("a@Some(1)"),
        "and comes back"
    );
}

#[test]
fn what_is_never_acknowledged_keeps_nobody_from_his_turn() {
    let mut now = Instant::now();
    let mut lane = AckLane::new(ACK_TIMEOUT);
    for uid in ["a", "b", "c"] {
        lane.offer(delivery(uid, Some(1)));
    }
    assert!(!lane.is_repeating());
    // every message has used up its attempts
    let mut tried = Vec::new();
    for _ in 0..4 * ATTEMPTS {
        tried.extend(send(&mut lane, now));
        now += ACK_TIMEOUT;
    }
    assert!(lane.is_repeating());
    assert_eq!(tried.len(), 20);
    assert!(tried[15..].iter().all(|id| id == "a@Some(1)"), "{tried:?}");
    // a new one waits for at most one attempt of an old one
    lane.offer(delivery("new", Some(1)));
    assert_eq!(send(&mut lane, now).as_deref(), Some("new@Some(1)"));
    assert!(lane.acknowledge("new@Some(1)").is_some());
    assert_eq!(send(&mut lane, now).as_deref(), Some("b@Some(1)"));
    lane.offer(delivery("newer", Some(1)));
    assert_eq!(
        send(&mut lane, now + ACK_TIMEOUT).as_deref(),
        Some("newer@Some(1)")
    );
}
