//! MQTT 5: what reaches a subscriber, and how.

use super::{
    A, B, Row, Step,
    Step::*,
    v5::{connack, suback, told, with_a, with_both},
};
use crate::bytes::{ack, clean311, connect5, packet, publish, subscribe, text};

/// PUBLISH of 5 at QoS 0.
fn message(properties: &[u8], payload: &[u8]) -> Vec<u8> {
    publish(0, "t", 0, Some(properties), payload)
}

pub(super) fn table() -> Vec<Row> {
    let mut rows = properties();
    rows.extend(options());
    rows.extend(shared());
    rows.extend(flow());
    rows.extend(wills());
    rows
}

fn properties() -> Vec<Row> {
    let all = [
        &[1, 1, 3, 0, 1, b'c', 8, 0, 1, b'r', 9, 0, 2, 0, 0xFF, 38, 0, 1, b'k', 0, 1, b'v'][..],
        &[38, 0, 1, b'k', 0, 1, b'w'],
    ]
    .concat();
    let kept = |steps: Vec<Step>| {
        let mut first = vec![
            Send(A, connect5(2, &[17, 0, 0, 0, 60], &[&text("a")])), Gets(A, connack(0)),
            Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)), Leaves(A),
            Send(B, connect5(2, &[], &[&text("b")])), Gets(B, connack(0)),
        ];
        first.extend(steps);
        first
    };
    vec![
        ("MQTT-3.3.2-4,-15,-16,-17,-18,-20", "payload format, response topic, correlation, user properties, content type go on as they came", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)),
            Send(B, message(&all, b"x")), Gets(A, message(&all, b"x")),
        ])),
        ("MQTT-3.3.2-18", "a 3.1.1 subscriber gets the message without them", vec![
            Send(A, clean311("a")), Gets(A, vec![0x20, 2, 0, 0]),
            Send(A, subscribe(1, None, "t", 0)), Gets(A, vec![0x90, 3, 0, 1, 0]),
            Send(B, connect5(2, &[], &[&text("b")])), Gets(B, connack(0)),
            Send(B, message(&all, b"x")), Gets(A, publish(0, "t", 0, None, b"x")),
        ]),
        ("MQTT-3.3.2-6", "the expiry is sent on", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)),
            Send(B, message(&[2, 0, 0, 1, 0], b"x")), Gets(A, message(&[2, 0, 0, 1, 0], b"x")),
        ])),
        ("MQTT-3.3.2-5", "a message whose time is over is not delivered", kept(vec![
            Send(B, publish(2, "t", 1, Some(&[2, 0, 0, 0, 0]), b"old")), Gets(B, ack(0x40, 1)),
            Send(B, publish(2, "t", 1, Some(&[]), b"new")), Gets(B, ack(0x40, 1)),
            Send(A, connect5(0, &[17, 0, 0, 0, 60], &[&text("a")])), Gets(A, connack(1)),
            Gets(A, publish(2, "t", 2, Some(&[]), b"new")),
        ])),
        ("MQTT-3.3.2-7", "a client's alias is resolved and not sent on", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)),
            Send(B, message(&[35, 0, 7], b"1")), Gets(A, message(&[], b"1")),
            Send(B, publish(0, "", 0, Some(&[35, 0, 7]), b"2")), Gets(A, message(&[], b"2")),
            Send(B, publish(0, "u", 0, Some(&[35, 0, 7]), b"3")), Send(B, publish(2, "", 1, Some(&[35, 0, 7]), b"4")),
            Gets(B, packet(0x40, &[&[0, 1, 0x10]])), Pings(A),
        ])),
        ("MQTT-3.1.2-26", "the broker's aliases, as many as the client takes", with_b_alias()),
        ("MQTT-3.3.4-3", "a subscription's identifier comes with its messages; 3.3.4-4: several with one copy", with_a(vec![
            Send(A, subscribe(1, Some(&[11, 5]), "t", 0)), Gets(A, suback(1, 0)),
            Send(A, message(&[], b"x")), Gets(A, message(&[11, 5], b"x")),
            Send(A, subscribe(2, Some(&[11, 0x80, 1]), "+", 0)), Gets(A, suback(2, 0)),
            Send(A, message(&[], b"y")), GetsLike(A, message(&[11, 5, 11, 0x80, 1], b"y")[..6].to_vec()),
        ])),
        ("MQTT-3.1.2-25", "what a client cannot take is not sent to it, and the rest is", vec![
            Send(A, connect5(2, &[39, 0, 0, 0, 20], &[&text("a")])), Gets(A, connack(0)),
            Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)),
            Send(B, connect5(2, &[], &[&text("b")])), Gets(B, connack(0)),
            Send(B, publish(2, "t", 1, Some(&[]), &[0; 40])), Gets(B, ack(0x40, 1)),
            Send(B, message(&[], &[0; 40])), Send(B, message(&[], b"y")), Gets(A, message(&[], b"y")),
        ]),
    ]
}

fn with_b_alias() -> Vec<Step> {
    vec![
        Send(A, connect5(2, &[34, 0, 1], &[&text("a")])), Gets(A, connack(0)),
        Send(A, subscribe(1, Some(&[]), "#", 0)), Gets(A, suback(1, 0)),
        Send(A, message(&[], b"1")), Gets(A, message(&[35, 0, 1], b"1")),
        Send(A, message(&[], b"2")), Gets(A, publish(0, "", 0, Some(&[35, 0, 1]), b"2")),
        Send(A, publish(0, "u", 0, Some(&[]), b"3")), Gets(A, publish(0, "u", 0, Some(&[]), b"3")),
    ]
}

fn options() -> Vec<Row> {
    let kept = publish(1, "t", 0, Some(&[]), b"k");
    vec![
        ("MQTT-3.8.3-3", "no local: not to oneself", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 4)), Gets(A, suback(1, 0)),
            Send(A, message(&[], b"own")), Pings(A),
            Send(B, message(&[], b"other")), Gets(A, message(&[], b"other")),
        ])),
        ("MQTT-3.3.1-12", "without retain as published the flag is cleared; 3.3.1-13: with it, it stands", with_a(vec![
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)),
            Send(A, publish(1, "t", 0, Some(&[]), b"x")), Gets(A, message(&[], b"x")),
            Send(A, subscribe(2, Some(&[]), "t", 0x28)), Gets(A, suback(2, 0)),
            Send(A, publish(1, "t", 0, Some(&[]), b"y")), Gets(A, publish(1, "t", 0, Some(&[]), b"y")),
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

fn shared() -> Vec<Row> {
    let both = |steps: Vec<Step>| {
        let mut first = vec![
            Send(A, subscribe(1, Some(&[]), "$share/g/t", 0)), Gets(A, suback(1, 0)),
            Send(B, subscribe(1, Some(&[]), "$share/g/t", 0)), Gets(B, suback(1, 0)),
        ];
        first.extend(steps);
        with_both(first)
    };
    vec![
        ("4.8.2", "of a share, each message goes to one", both(vec![
            Send(A, message(&[], b"1")), Gets(B, message(&[], b"1")), Pings(A),
            Send(A, message(&[], b"2")), Gets(A, message(&[], b"2")), Pings(B),
            Send(A, message(&[], b"3")), Gets(B, message(&[], b"3")), Pings(A),
        ])),
        ("4.8.2", "and to whoever is left", both(vec![
            Send(B, vec![0xE0, 0]), Closed(B),
            Send(A, message(&[], b"1")), Gets(A, message(&[], b"1")),
            Send(A, message(&[], b"2")), Gets(A, message(&[], b"2")),
        ])),
        ("3.8.4", "a shared subscription is sent no retained message", with_a(vec![
            Send(A, publish(1, "t", 0, Some(&[]), b"k")),
            Send(A, subscribe(1, Some(&[]), "$share/g/t", 0)), Gets(A, suback(1, 0)), Pings(A),
        ])),
        ("MQTT-4.8.2-2", "a share's name has no wildcard", with_a(vec![
            Send(A, subscribe(1, Some(&[]), "$share/+/t", 0)), Gets(A, suback(1, 0x8F)),
        ])),
    ]
}

fn flow() -> Vec<Row> {
    let open: Vec<u8> = (1..=257_u16).flat_map(|id| publish(4, "t", id, Some(&[]), b"")).collect();
    let mut too_many = vec![Send(A, open)];
    too_many.extend((1..=256_u16).map(|id| Gets(A, packet(0x50, &[&id.to_be_bytes(), &[0x10]]))));
    too_many.extend([GetsLike(A, told(0x93)), Closed(A)]);
    vec![
        ("MQTT-3.3.4-9", "no more in flight than the client's receive maximum", vec![
            Send(A, connect5(2, &[33, 0, 1], &[&text("a")])), Gets(A, connack(0)),
            Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)),
            Send(B, connect5(2, &[], &[&text("b")])), Gets(B, connack(0)),
            Send(B, publish(2, "t", 1, Some(&[]), b"1")), Gets(B, ack(0x40, 1)),
            Send(B, publish(2, "t", 2, Some(&[]), b"2")), Gets(B, ack(0x40, 2)),
            Gets(A, publish(2, "t", 1, Some(&[]), b"1")), Pings(A),
            Send(A, ack(0x40, 1)), Gets(A, publish(2, "t", 2, Some(&[]), b"2")),
        ]),
        ("MQTT-3.3.4-8", "a client beyond the broker's receive maximum is cut off", with_a(too_many)),
    ]
}

fn wills() -> Vec<Row> {
    let will = |expiry: u8, delay: u8, clean: u8| {
        connect5(4 | clean, &[17, 0, 0, 0, expiry], &[&text("b"), &[5, 24, 0, 0, 0, delay], &text("w"), &text("gone")])
    };
    let watching = |connect: Vec<u8>, last: Vec<Step>| {
        let mut steps = with_a(vec![
            Send(A, subscribe(1, Some(&[]), "w", 0)), Gets(A, suback(1, 0)), Send(B, connect), Gets(B, connack(0)),
        ]);
        steps.extend(last);
        steps
    };
    let gone = publish(0, "w", 0, Some(&[]), b"gone");
    vec![
        ("MQTT-3.1.2-8", "a will waits for its delay", watching(will(60, 1, 2), vec![Leaves(B), Pings(A), Gets(A, gone.clone())])),
        ("MQTT-3.1.3-9", "a client that is back in time has none published", watching(will(60, 1, 2), vec![
            Leaves(B), Send(B, connect5(0, &[17, 0, 0, 0, 60], &[&text("b")])), Gets(B, connack(1)),
            // Another client's will of the same delay, set later, comes first: the earlier one would have come before it.
            Send(B, vec![0xE0, 0]), Closed(B),
            Send(B, connect5(6, &[17, 0, 0, 0, 60], &[&text("c"), &[5, 24, 0, 0, 0, 1], &text("w"), &text("later")])),
            Gets(B, connack(0)), Leaves(B), Gets(A, publish(0, "w", 0, Some(&[]), b"later")),
        ])),
        ("MQTT-3.1.2-8", "the end of the session does not wait for the delay", watching(will(1, 60, 2), vec![Leaves(B), Gets(A, gone.clone())])),
        ("3.1.3.2.2", "nor does a clean start", watching(will(60, 50, 2), vec![
            Leaves(B), Send(B, connect5(2, &[], &[&text("b")])), Gets(B, connack(0)), Gets(A, gone.clone()),
        ])),
        ("3.14.2.1", "DISCONNECT 0x04 asks for the will", watching(will(60, 0, 2), vec![Send(B, vec![0xE0, 1, 4]), Closed(B), Gets(A, gone)])),
        ("MQTT-3.14.4-3", "DISCONNECT 0x00 drops it", watching(will(60, 0, 2), vec![Send(B, vec![0xE0, 1, 0]), Closed(B), Pings(A)])),
        ("3.1.3.2", "a will's message has properties too", watching(
            connect5(6, &[], &[&text("b"), &[6, 1, 1, 3, 0, 1, b'c'], &text("w"), &text("gone")]),
            vec![Leaves(B), Gets(A, publish(0, "w", 0, Some(&[1, 1, 3, 0, 1, b'c']), b"gone"))],
        )),
    ]
}
