//! Which subscribers a message reaches, and in which form.

use super::*;
use crate::bytes::{ack, subscribe};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = subscribers();
    rows.extend(options());
    rows
}

fn subscribers() -> Vec<Row> {
    vec![
        ("MQTT-4.5.0-1", "a message goes to every subscriber", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)), Send(B, subscribe(1, Some(&[]), "+", 0)), Gets(B, suback(1, 0)),
            Send(B, message(&[], b"x")), Gets(A, message(&[], b"x")), Gets(B, message(&[], b"x")),
        ])),
        ("MQTT-4.6.0-5", "a topic's messages come in their order; 2.2.1-4: each with an identifier of its own", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)),
            Send(B, [9, 3, 5].map(|id| publish(2, "t", id, Some(&[]), &[id as u8])).concat()),
            Gets(A, publish(2, "t", 1, Some(&[]), &[9])), Gets(A, publish(2, "t", 2, Some(&[]), &[3])), Gets(A, publish(2, "t", 3, Some(&[]), &[5])),
        ])),
        ("MQTT-3.3.4-2", "overlapping subscriptions: one copy of the highest QoS", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)), Send(A, subscribe(2, Some(&[]), "#", 1)), Gets(A, suback(2, 1)),
            Send(B, publish(2, "t", 3, Some(&[]), b"x")), Gets(B, ack(0x40, 3)), Gets(A, publish(2, "t", 1, Some(&[]), b"x")), Pings(A),
        ])),
        ("MQTT-3.3.4-3", "a subscription's identifier comes with its messages; 3.3.4-4: several with one copy", with_a(vec![
            Send(A, subscribe(1, Some(&[11, 5]), "t", 0)), Gets(A, suback(1, 0)),
            Send(A, message(&[], b"x")), Gets(A, message(&[11, 5], b"x")),
            Send(A, subscribe(2, Some(&[11, 0x80, 1]), "+", 0)), Gets(A, suback(2, 0)),
            Send(A, message(&[], b"y")), Gets(A, message(&[11, 5, 11, 0x80, 1], b"y")),
        ])),
        ("MQTT-3.8.4-8", "the lower QoS of message and subscription", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)),
            Send(B, publish(4, "t", 3, Some(&[]), b"x")), Gets(B, ack(0x50, 3)), Gets(A, publish(2, "t", 1, Some(&[]), b"x")),
            Send(A, ack(0x40, 1)), Send(B, message(&[], b"y")), Gets(A, message(&[], b"y")),
        ])),
        ("MQTT-1.5.4-3", "U+FEFF is a character as any other", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "\u{FEFF}t", 0)), Gets(A, suback(1, 0)),
            Send(B, message(&[], b"x")), Send(B, publish(0, "\u{FEFF}t", 0, Some(&[]), b"y")), Gets(A, publish(0, "\u{FEFF}t", 0, Some(&[]), b"y")),
        ])),
        ("MQTT-4.7.2-1", "a wildcard does not stand for topics of the system", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "#", 0)), Gets(A, suback(1, 0)), Send(A, subscribe(2, Some(&[]), "+/b", 0)), Gets(A, suback(2, 0)),
            Send(B, publish(2, "$a/b", 1, Some(&[]), b"x")), Gets(B, reason(0x40, 1, 0x10)), Pings(A),
            Send(A, subscribe(3, Some(&[]), "$a/#", 0)), Gets(A, suback(3, 0)),
            Send(B, publish(0, "$a/b", 0, Some(&[]), b"y")), Gets(A, publish(0, "$a/b", 0, Some(&[]), b"y")),
        ])),
        ("MQTT-4.7.3-4", "topics are not normalised", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "/a", 0)), Gets(A, suback(1, 0)),
            Send(B, publish(2, "a", 1, Some(&[]), b"x")), Gets(B, reason(0x40, 1, 0x10)), Pings(A),
        ])),
    ]
}

fn options() -> Vec<Row> {
    let kept = publish(1, "t", 0, Some(&[]), b"k");
    vec![
        ("MQTT-3.8.3-3", "no local: not to oneself", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 4)), Gets(A, suback(1, 0)),
            Send(A, message(&[], b"own")), Pings(A), Send(B, message(&[], b"other")), Gets(A, message(&[], b"other")),
        ])),
        ("MQTT-3.3.1-12", "without retain as published the flag is cleared; 3.3.1-13: with it, it stands", with_a(vec![
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)),
            Send(A, publish(1, "t", 0, Some(&[]), b"x")), Gets(A, message(&[], b"x")),
            Send(A, subscribe(2, Some(&[]), "t", 0x28)), Gets(A, suback(2, 0)),
            Send(A, publish(1, "t", 0, Some(&[]), b"y")), Gets(A, publish(1, "t", 0, Some(&[]), b"y")),
            Send(A, message(&[], b"z")), Gets(A, message(&[], b"z")),
        ])),
        ("MQTT-3.3.1-9", "retain handling 0: each time", with_a(vec![
            Send(A, kept.clone()),
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)), Gets(A, kept.clone()),
            Send(A, subscribe(2, Some(&[]), "t", 0)), Gets(A, suback(2, 0)), Gets(A, kept.clone()),
        ])),
        ("MQTT-3.3.1-10", "retain handling 1: if the subscription is new", with_a(vec![
            Send(A, kept.clone()),
            Send(A, subscribe(1, Some(&[]), "t", 0x10)), Gets(A, suback(1, 0)), Gets(A, kept.clone()),
            Send(A, subscribe(2, Some(&[]), "t", 0x10)), Gets(A, suback(2, 0)), Pings(A),
        ])),
        ("MQTT-3.3.1-11", "retain handling 2: never", with_a(vec![
            Send(A, kept), Send(A, subscribe(1, Some(&[]), "t", 0x20)), Gets(A, suback(1, 0)), Pings(A),
        ])),
    ]
}
