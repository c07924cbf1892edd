//! What is kept while a client is away, and for how long.

use super::*;
use crate::bytes::{ack, subscribe};

/// Gives A a persistent session that subscribes to `t`, before the steps.
fn after_session(qos: u8, steps: Vec<Step>) -> Vec<Step> {
    let mut all = vec![
        Send(A, keeping("a", 2, 60)), Gets(A, connack(0)), Send(A, subscribe(1, Some(&[]), "t", qos)), Gets(A, suback(1, qos)),
    ];
    all.extend(steps);
    all
}

/// Disconnects A and connects B, before the steps that happen while A is away.
fn away(qos: u8, steps: Vec<Step>) -> Vec<Step> {
    let mut all = vec![Send(A, vec![0xE0, 0]), Closed(A), Send(B, clean5("b")), Gets(B, connack(0))];
    all.extend(steps);
    after_session(qos, all)
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = keeping_them();
    rows.extend(sending_again());
    rows
}

fn keeping_them() -> Vec<Row> {
    let back = |present| vec![Send(A, keeping("a", 0, 60)), Gets(A, connack(present))];
    let then = |mut steps: Vec<Step>, last: Vec<Step>| {
        steps.extend(last);
        steps
    };
    vec![
        ("MQTT-3.1.2-4", "clean start forgets", vec![
            Send(A, keeping("a", 2, 60)), Gets(A, connack(0)), Send(A, vec![0xE0, 0]), Closed(A),
            Send(A, keeping("a", 2, 60)), Gets(A, connack(0)),
        ]),
        ("MQTT-3.1.2-5", "without it the session is found again", then(vec![
            Send(A, keeping("a", 2, 60)), Gets(A, connack(0)), Leaves(A),
        ], back(1))),
        ("MQTT-3.1.2-6", "and one that is not there begins", back(0)),
        ("MQTT-3.1.2-23", "a session is kept with its subscriptions and messages", away(1, vec![
            Send(B, publish(2, "t", 7, Some(&[]), b"x")), Gets(B, ack(0x40, 7)),
            Send(A, keeping("a", 0, 60)), Gets(A, connack(1)), Gets(A, publish(2, "t", 1, Some(&[]), b"x")), Send(A, ack(0x40, 1)), Pings(A),
        ])),
        ("MQTT-4.1.0-1", "a session does not end while its client is connected", vec![
            Send(A, keeping("a", 2, 1)), Gets(A, connack(0)), Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)),
            // two seconds pass
            Send(B, connect5(6, &[17, 0, 0, 0, 60], &[&text("b"), &[5, 24, 0, 0, 0, 2], &text("t"), &text("later")])), Gets(B, connack(0)),
            Leaves(B), Gets(A, message(&[], b"later")),
        ]),
        ("MQTT-4.1.0-2", "a session without an expiry ends with its connection", then(with_a(vec![
            Send(A, vec![0xE0, 0]), Closed(A),
        ]), back(0))),
        ("3.14.2.2.2", "DISCONNECT may end a session that was to be kept", then(vec![
            Send(A, keeping("a", 2, 60)), Gets(A, connack(0)), Send(A, packet(0xE0, &[&[0, 5, 17, 0, 0, 0, 0]])), Closed(A),
        ], back(0))),
        ("MQTT-3.3.2-5", "a message whose time is over is not delivered", away(1, vec![
            Send(B, publish(2, "t", 1, Some(&[2, 0, 0, 0, 0]), b"old")), Gets(B, ack(0x40, 1)),
            Send(B, publish(2, "t", 1, Some(&[]), b"new")), Gets(B, ack(0x40, 1)),
            Send(A, keeping("a", 0, 60)), Gets(A, connack(1)), Gets(A, publish(2, "t", 2, Some(&[]), b"new")),
        ])),
        ("MQTT-3.3.2-7", "a topic alias does not outlive its connection", vec![
            Send(A, keeping("a", 2, 60)), Gets(A, connack(0)), Send(A, message(&[35, 0, 7], b"1")), Pings(A), Leaves(A),
            Send(A, keeping("a", 0, 60)), Gets(A, connack(1)),
            Send(A, publish(0, "", 0, Some(&[35, 0, 7]), b"2")), GetsLike(A, disconnect(0x82)), Closed(A),
        ]),
    ]
}

fn sending_again() -> Vec<Row> {
    vec![
        ("MQTT-4.4.0-1", "what was not acknowledged comes again with its identifier; 3.3.1-1: as a duplicate", after_session(2, vec![
            Send(A, publish(2, "t", 9, Some(&[]), b"1")), Gets(A, publish(2, "t", 1, Some(&[]), b"1")), Gets(A, ack(0x40, 9)),
            Send(A, publish(4, "t", 9, Some(&[]), b"2")), Gets(A, publish(4, "t", 2, Some(&[]), b"2")), Gets(A, ack(0x50, 9)),
            Leaves(A), Send(A, keeping("a", 0, 60)), Gets(A, connack(1)),
            Gets(A, publish(10, "t", 1, Some(&[]), b"1")), Gets(A, publish(12, "t", 2, Some(&[]), b"2")), Pings(A),
        ])),
        ("MQTT-4.3.3-5", "so does PUBREL; 4.3.3-6: the message does not", after_session(2, vec![
            Send(A, publish(4, "t", 9, Some(&[]), b"2")), Gets(A, publish(4, "t", 1, Some(&[]), b"2")), Gets(A, ack(0x50, 9)),
            Send(A, ack(0x50, 1)), Gets(A, ack(0x62, 1)), Leaves(A),
            Send(A, keeping("a", 0, 60)), Gets(A, connack(1)), Gets(A, ack(0x62, 1)), Send(A, ack(0x70, 1)), Pings(A),
        ])),
        ("MQTT-4.4.0-2", "what was refused does not come again", after_session(2, vec![
            Send(A, publish(2, "t", 9, Some(&[]), b"1")), Gets(A, publish(2, "t", 1, Some(&[]), b"1")), Gets(A, ack(0x40, 9)),
            Send(A, publish(4, "t", 9, Some(&[]), b"2")), Gets(A, publish(4, "t", 2, Some(&[]), b"2")), Gets(A, ack(0x50, 9)),
            Send(A, reason(0x40, 1, 0x80)), Send(A, reason(0x50, 2, 0x80)), Pings(A),
            Leaves(A), Send(A, keeping("a", 0, 60)), Gets(A, connack(1)), Pings(A),
        ])),
        ("MQTT-4.3.3-7", "what was sent once comes again when it has expired, too", after_session(2, vec![
            Send(B, connect5(6, &[17, 0, 0, 0, 60], &[&text("b"), &[5, 24, 0, 0, 0, 1], &text("t"), &text("later")])), Gets(B, connack(0)),
            Send(B, publish(4, "t", 1, Some(&[2, 0, 0, 0, 1]), b"x")), Gets(B, ack(0x50, 1)), Gets(A, publish(4, "t", 1, Some(&[2, 0, 0, 0, 1]), b"x")),
            // a second passes
            Leaves(B), Gets(A, message(&[], b"later")),
            Leaves(A), Send(A, keeping("a", 0, 60)), Gets(A, connack(1)), Gets(A, publish(12, "t", 1, Some(&[2, 0, 0, 0, 0]), b"x")),
            Send(A, ack(0x50, 1)), Gets(A, ack(0x62, 1)), Send(A, ack(0x70, 1)), Pings(A),
        ])),
        ("MQTT-4.3.3-10", "a QoS 2 message that comes again is not delivered again", vec![
            Send(B, clean5("b")), Gets(B, connack(0)), Send(B, subscribe(1, Some(&[]), "t", 0)), Gets(B, suback(1, 0)),
            Send(A, keeping("a", 2, 60)), Gets(A, connack(0)),
            Send(A, publish(4, "t", 5, Some(&[]), b"x")), Gets(A, ack(0x50, 5)), Gets(B, message(&[], b"x")), Leaves(A),
            Send(A, keeping("a", 0, 60)), Gets(A, connack(1)),
            Send(A, publish(12, "t", 5, Some(&[]), b"x")), Gets(A, ack(0x50, 5)), Send(A, ack(0x62, 5)), Gets(A, ack(0x70, 5)), Pings(B),
        ]),
    ]
}
