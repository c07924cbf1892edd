//! PUBLISH: its properties on their way through the broker, and retained messages.

use super::*;
use crate::bytes::{ack, clean311, subscribe};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = properties();
    rows.extend(aliases());
    rows.extend(retained_rows());
    rows
}

/// Subscribes A to `t` at QoS 0 and connects B, before the steps.
fn after_subscription(steps: Vec<Step>) -> Vec<Step> {
    let mut all = vec![Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0))];
    all.extend(steps);
    with_both(all)
}

fn properties() -> Vec<Row> {
    let all = [
        &[1, 1, 3, 0, 1, b'c', 8, 0, 1, b'r', 9, 0, 2, 0, 0xFF, 38, 0, 1, b'k', 0, 1, b'v'][..],
        &[38, 0, 1, b'k', 0, 1, b'w'],
    ]
    .concat();
    vec![
        ("MQTT-3.3.2-4", "as they came go on the payload format, 3.3.2-15: response topic, 3.3.2-16: correlation data, 3.3.2-20: content type, 3.3.2-17: user properties, 3.3.2-18: in their order", after_subscription(vec![
            Send(B, message(&all, b"x")), Gets(A, message(&all, b"x")),
        ])),
        ("3.3.2.3", "a 3.1.1 subscriber gets the message without them", vec![
            Send(A, clean311("a")), Gets(A, vec![0x20, 2, 0, 0]), Send(A, subscribe(1, None, "t", 0)), Gets(A, vec![0x90, 3, 0, 1, 0]),
            Send(B, clean5("b")), Gets(B, connack(0)), Send(B, message(&all, b"x")), Gets(A, publish(0, "t", 0, None, b"x")),
        ]),
        ("3.3.2.3.3", "the expiry is sent on", after_subscription(vec![
            Send(B, message(&[2, 0, 0, 1, 0], b"x")), Gets(A, message(&[2, 0, 0, 1, 0], b"x")),
        ])),
        ("MQTT-3.3.2-6", "less the time that the message has waited", vec![
            Send(A, connect5(2, &[33, 0, 1], &[&text("a")])), Gets(A, connack(0)), Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)),
            Send(B, connect5(6, &[17, 0, 0, 0, 60], &[&text("b"), &[5, 24, 0, 0, 0, 1], &text("t"), &text("later")])), Gets(B, connack(0)),
            Send(B, publish(2, "t", 1, Some(&[]), b"1")), Gets(B, ack(0x40, 1)), Gets(A, publish(2, "t", 1, Some(&[]), b"1")),
            Send(B, publish(2, "t", 2, Some(&[2, 0, 0, 1, 0]), b"2")), Gets(B, ack(0x40, 2)),
            // a second passes: of 256 seconds at most 255 are left
            Leaves(B), Gets(A, message(&[], b"later")),
            Send(A, ack(0x40, 1)), GetsLike(A, vec![0x32, 0, 0, 1, b't', 0, 2, 5, 2, 0, 0, 0]),
        ]),
    ]
}

fn aliases() -> Vec<Row> {
    vec![
        ("MQTT-3.3.2-12", "a client's alias stands for a topic; 3.1.2-27: none is sent to a client that takes none", after_subscription(vec![
            Send(B, message(&[35, 0, 32], b"1")), Gets(A, message(&[], b"1")),
            Send(B, publish(0, "", 0, Some(&[35, 0, 32]), b"2")), Gets(A, message(&[], b"2")),
            Send(B, publish(0, "u", 0, Some(&[35, 0, 32]), b"3")), Send(B, publish(2, "", 1, Some(&[35, 0, 32]), b"4")),
            Gets(B, reason(0x40, 1, 0x10)), Pings(A),
        ])),
        ("MQTT-3.1.2-26", "the broker's aliases; 3.3.2-11: as many as the client takes", vec![
            Send(A, connect5(2, &[34, 0, 1], &[&text("a")])), Gets(A, connack(0)), Send(A, subscribe(1, Some(&[]), "#", 0)), Gets(A, suback(1, 0)),
            Send(A, message(&[], b"1")), Gets(A, message(&[35, 0, 1], b"1")),
            Send(A, message(&[], b"2")), Gets(A, publish(0, "", 0, Some(&[35, 0, 1]), b"2")),
            Send(A, publish(0, "u", 0, Some(&[]), b"3")), Gets(A, publish(0, "u", 0, Some(&[]), b"3")),
        ]),
    ]
}

fn retained_rows() -> Vec<Row> {
    let kept = |payload| publish(1, "t", 0, Some(&[]), payload);
    let found = |mut steps: Vec<Step>, payload| {
        steps.extend([Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)), Gets(A, kept(payload)), Pings(A)]);
        with_a(steps)
    };
    vec![
        ("MQTT-3.3.1-5", "a retained message is kept in place of an earlier one", found(vec![
            Send(A, publish(3, "t", 1, Some(&[]), b"old")), Gets(A, reason(0x40, 1, 0x10)), Send(A, kept(b"new")),
        ], b"new")),
        ("MQTT-3.3.1-6", "an empty one deletes, and is delivered; 3.3.1-7: it is not kept", after_subscription(vec![
            Send(B, kept(b"x")), Gets(A, message(&[], b"x")), Send(B, kept(b"")), Gets(A, message(&[], b"")),
            Send(B, subscribe(1, Some(&[]), "t", 0)), Gets(B, suback(1, 0)), Pings(B),
        ])),
        ("MQTT-3.3.1-8", "without the flag nothing is kept, and what is kept stays", found(vec![
            Send(A, kept(b"kept")), Send(A, message(&[], b"not")),
        ], b"kept")),
    ]
}
