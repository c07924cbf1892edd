//! MQTT 3.1.1.

use super::{A, B, Row, Step::*};
use crate::bytes::{ack, clean311, connect311, lasting311, packet, publish, subscribe, text};

fn connack(present: u8, code: u8) -> Vec<u8> {
    vec![0x20, 2, present, code]
}

fn suback(id: u8, code: u8) -> Vec<u8> {
    vec![0x90, 3, 0, id, code]
}

/// Connects A with a clean session before the steps.
fn with_a(mut steps: Vec<super::Step>) -> Vec<super::Step> {
    let mut all = vec![Send(A, clean311("a")), Gets(A, connack(0, 0))];
    all.append(&mut steps);
    all
}

/// Subscribes A to `filter` and connects B, before the steps.
fn with_both(filter: &str, qos: u8, mut steps: Vec<super::Step>) -> Vec<super::Step> {
    let mut all = with_a(vec![
        Send(A, subscribe(1, None, filter, qos)),
        Gets(A, suback(1, qos)),
        Send(B, clean311("b")),
        Gets(B, connack(0, 0)),
    ]);
    all.append(&mut steps);
    all
}

fn will(flags: u8, topic: &str, payload: &str) -> Vec<u8> {
    connect311(flags, 0, &[&text("b"), &text(topic), &text(payload)])
}

pub(super) fn table() -> Vec<Row> {
    let mut rows = connecting();
    rows.extend(malformed_rows());
    rows.extend(sessions());
    rows.extend(publishing());
    rows.extend(subscribing());
    rows.extend(wills());
    rows
}

fn connecting() -> Vec<Row> {
    let level = |name: &[u8], level| packet(0x10, &[name, &[level, 2, 0, 0], &text("a")]);
    let old = |id: &str| packet(0x10, &[b"\0\x06MQIsdp", &[3, 0, 0, 0], &text(id)]);
    vec![
        ("MQTT-3.1.0-1", "the first packet is CONNECT", vec![Send(A, vec![0xC0, 0]), Closed(A)]),
        ("MQTT-3.1.0-2", "a second CONNECT ends the connection", with_a(vec![Send(A, clean311("a")), Closed(A)])),
        ("MQTT-3.1.2-1", "another protocol name is refused", vec![Send(A, level(b"\0\x04MQTX", 4)), Closed(A)]),
        ("MQTT-3.1.2-2", "another level is answered 0x01", vec![Send(A, level(b"\0\x06MQIsdp", 2)), Gets(A, connack(0, 1)), Closed(A)]),
        ("MQTT-3.1.2-2", "MQTT 3.1 is supported as well", vec![Send(A, level(b"\0\x06MQIsdp", 3)), Gets(A, connack(0, 0)), Pings(A)]),
        ("MQTT-3.1.2-2", "without a flag for the session", vec![
            Send(B, lasting311("a")), Gets(B, connack(0, 0)), Send(B, vec![0xE0, 0]), Closed(B),
            Send(A, old("a")), Gets(A, connack(0, 0)), Pings(A),
        ]),
        ("MQTT-3.1.2-2", "and without an empty identifier", vec![Send(A, old("")), Gets(A, connack(0, 2)), Closed(A)]),
        ("MQTT-3.1.2-3", "the reserved connect flag is 0", vec![Send(A, connect311(3, 0, &[&text("a")])), Closed(A)]),
        ("MQTT-3.1.2-11", "without a will its QoS is 0", vec![Send(A, connect311(0x0A, 0, &[&text("a")])), Closed(A)]),
        ("MQTT-3.1.2-14", "a will's QoS is not 3", vec![Send(A, will(0x1E, "w", "x")), Closed(A)]),
        ("MQTT-3.1.2-15", "without a will, no will retain", vec![Send(A, connect311(0x22, 0, &[&text("a")])), Closed(A)]),
        ("MQTT-3.1.2-22", "no password without a user", vec![Send(A, connect311(0x42, 0, &[&text("a"), &text("p")])), Closed(A)]),
        ("MQTT-3.1.3-3", "the client identifier is there", vec![Send(A, connect311(2, 0, &[])), Closed(A)]),
        ("MQTT-3.1.3-4", "it is UTF-8", vec![Send(A, connect311(2, 0, &[&[0, 1, 0xFF]])), Closed(A)]),
        ("MQTT-3.1.3-6", "an empty one is given another", vec![Send(A, clean311("")), Gets(A, connack(0, 0)), Pings(A)]),
        ("MQTT-3.1.3-8", "an empty one cannot last", vec![Send(A, lasting311("")), Gets(A, connack(0, 2)), Closed(A)]),
        ("MQTT-3.1.4-2", "the same identifier ends the older connection", with_a(vec![
            Send(B, clean311("a")), Gets(B, connack(0, 0)), Closed(A), Pings(B),
        ])),
        ("MQTT-3.1.4-5", "packets behind CONNECT need not wait for CONNACK", vec![
            Send(A, [clean311("a"), vec![0xC0, 0]].concat()), Gets(A, connack(0, 0)), Gets(A, vec![0xD0, 0]),
        ]),
        ("MQTT-3.1.2-9", "a will has a topic and a message", vec![Send(A, connect311(6, 0, &[&text("a")])), Closed(A)]),
        ("MQTT-3.1.2-18", "no user without its flag", vec![Send(A, connect311(2, 0, &[&text("a"), &text("u")])), Closed(A)]),
        ("MQTT-3.1.2-19", "a user where its flag is", vec![Send(A, connect311(0x82, 0, &[&text("a")])), Closed(A)]),
        ("MQTT-3.1.2-20", "no password without its flag", vec![Send(A, connect311(0x82, 0, &[&text("a"), &text("u"), &text("p")])), Closed(A)]),
        ("MQTT-3.1.2-21", "a password where its flag is", vec![Send(A, connect311(0xC2, 0, &[&text("a"), &text("u")])), Closed(A)]),
        ("MQTT-3.1.3-5", "23 letters and digits are an identifier", vec![
            Send(A, clean311("0123456789abcdefghijXYZ")), Gets(A, connack(0, 0)),
        ]),
        ("MQTT-3.1.3-11", "a user is UTF-8", vec![Send(A, connect311(0x82, 0, &[&text("a"), &[0, 1, 0xFF]])), Closed(A)]),
        ("MQTT-3.12.4-1", "PINGREQ is answered", with_a(vec![Pings(A)])),
        ("MQTT-3.14.4-3", "DISCONNECT ends the connection", with_a(vec![Send(A, vec![0xE0, 0]), Closed(A)])),
    ]
}

fn malformed_rows() -> Vec<Row> {
    let bad = |bytes: &[u8]| with_a(vec![Send(A, bytes.to_vec()), Closed(A)]);
    vec![
        ("MQTT-1.5.3-1", "a topic is UTF-8", bad(&packet(0x30, &[&[0, 1, 0xFF]]))),
        ("MQTT-1.5.3-2", "without U+0000", bad(&packet(0x30, &[&[0, 1, 0]]))),
        ("MQTT-3.8.3-1", "a filter is UTF-8", bad(&packet(0x82, &[&[0, 1], &[0, 1, 0xFF], &[0]]))),
        ("MQTT-3.10.3-1", "a filter is UTF-8", bad(&packet(0xA2, &[&[0, 1], &[0, 1, 0xFF]]))),
        ("MQTT-2.2.2-2", "reserved bits: PINGREQ", bad(&[0xC1, 0])),
        ("MQTT-3.6.1-1", "reserved bits: PUBREL", bad(&ack(0x60, 1))),
        ("MQTT-3.8.1-1", "reserved bits: SUBSCRIBE", bad(&packet(0x80, &[&[0, 1], &text("a"), &[0]]))),
        ("MQTT-3.10.1-1", "reserved bits: UNSUBSCRIBE", bad(&packet(0xA0, &[&[0, 1], &text("a")]))),
        ("MQTT-3.14.1-1", "reserved bits: DISCONNECT", bad(&[0xE1, 0])),
        ("MQTT-2.3.1-1", "a packet identifier is not 0", bad(&packet(0x82, &[&[0, 0], &text("a"), &[0]]))),
        ("MQTT-3.3.1-2", "no duplicate at QoS 0", bad(&publish(8, "a", 0, None, b""))),
        ("MQTT-3.3.1-4", "no QoS 3", bad(&publish(6, "a", 1, None, b""))),
        ("MQTT-3.3.2-2", "a topic name has no wildcard", bad(&publish(0, "a/+", 0, None, b""))),
        ("MQTT-4.7.3-1", "a topic name is not empty", bad(&publish(0, "", 0, None, b""))),
        ("MQTT-3.8.3-3", "a SUBSCRIBE has a filter", bad(&packet(0x82, &[&[0, 1]]))),
        ("MQTT-3.8.3-4", "reserved bits of the QoS", bad(&subscribe(1, None, "a", 0x80))),
        ("MQTT-3.8.3-4", "a subscription has no QoS 3", bad(&subscribe(1, None, "a", 3))),
        ("MQTT-3.10.3-2", "an UNSUBSCRIBE has a filter", bad(&packet(0xA2, &[&[0, 1]]))),
        ("2.2.3", "a length has four bytes at most", bad(&[0x30, 0xFF, 0xFF, 0xFF, 0xFF, 1])),
        ("2.2.1", "packet type 0 does not exist", bad(&[0, 0])),
        ("2.2.1", "packet type 15 does not exist", bad(&[0xF0, 0])),
        ("2.2.1", "CONNACK is the server's", bad(&[0x20, 2, 0, 0])),
        ("4.8", "a packet has no bytes behind its end", bad(&[0x40, 3, 0, 1, 0])),
        ("4.8", "a field does not end behind its packet", bad(&[0x30, 3, 0, 9, b'a'])),
    ]
}

fn sessions() -> Vec<Row> {
    vec![
        ("MQTT-3.1.2-7", "what is retained outlives the session", vec![
            Send(A, clean311("a")), Gets(A, connack(0, 0)), Send(A, publish(3, "t", 1, None, b"x")), Gets(A, ack(0x40, 1)),
            Send(A, vec![0xE0, 0]), Closed(A),
            Send(B, clean311("b")), Gets(B, connack(0, 0)),
            Send(B, subscribe(1, None, "t", 0)), Gets(B, suback(1, 0)), Gets(B, publish(1, "t", 0, None, b"x")),
        ]),
        ("MQTT-3.10.4-3", "a delivery that has begun is completed after UNSUBSCRIBE", vec![
            Send(A, lasting311("a")), Gets(A, connack(0, 0)), Send(A, subscribe(1, None, "t", 1)), Gets(A, suback(1, 1)),
            Send(B, clean311("b")), Gets(B, connack(0, 0)), Send(B, publish(2, "t", 1, None, b"x")), Gets(B, ack(0x40, 1)),
            Gets(A, publish(2, "t", 1, None, b"x")),
            Send(A, packet(0xA2, &[&[0, 2], &text("t")])), Gets(A, vec![0xB0, 2, 0, 2]), Send(A, vec![0xE0, 0]), Closed(A),
            Send(A, lasting311("a")), Gets(A, connack(1, 0)), Gets(A, publish(10, "t", 1, None, b"x")), Send(A, ack(0x40, 1)), Pings(A),
        ]),
        ("MQTT-3.1.2-4", "a session that lasts is found again, with its subscriptions", vec![
            Send(A, lasting311("a")), Gets(A, connack(0, 0)),
            Send(A, subscribe(1, None, "t", 1)), Gets(A, suback(1, 1)),
            Send(A, vec![0xE0, 0]), Closed(A),
            Send(B, clean311("b")), Gets(B, connack(0, 0)),
            Send(B, publish(2, "t", 7, None, b"x")), Gets(B, ack(0x40, 7)),
            Send(A, lasting311("a")), Gets(A, connack(1, 0)), Gets(A, publish(2, "t", 1, None, b"x")),
            Send(A, ack(0x40, 1)), Pings(A),
        ]),
        ("MQTT-3.1.2-5", "QoS 1 and 2 are kept for it, in their order", vec![
            Send(A, lasting311("a")), Gets(A, connack(0, 0)),
            Send(A, subscribe(1, None, "t", 2)), Gets(A, suback(1, 2)), Leaves(A),
            Send(B, clean311("b")), Gets(B, connack(0, 0)),
            Send(B, publish(2, "t", 1, None, b"1")), Gets(B, ack(0x40, 1)),
            Send(B, publish(4, "t", 2, None, b"2")), Gets(B, ack(0x50, 2)),
            Send(A, lasting311("a")), Gets(A, connack(1, 0)),
            Gets(A, publish(2, "t", 1, None, b"1")), Gets(A, publish(4, "t", 2, None, b"2")),
        ]),
        ("MQTT-3.1.2-6", "a clean session forgets the earlier one", vec![
            Send(A, lasting311("a")), Gets(A, connack(0, 0)),
            Send(A, subscribe(1, None, "t", 1)), Gets(A, suback(1, 1)), Send(A, vec![0xE0, 0]), Closed(A),
            Send(A, clean311("a")), Gets(A, connack(0, 0)), Send(A, vec![0xE0, 0]), Closed(A),
            Send(A, lasting311("a")), Gets(A, connack(0, 0)),
        ]),
        ("MQTT-4.4.0-1", "what was not acknowledged comes again, a duplicate with its identifier", vec![
            Send(A, lasting311("a")), Gets(A, connack(0, 0)),
            Send(A, subscribe(1, None, "t", 2)), Gets(A, suback(1, 2)),
            Send(A, publish(2, "t", 9, None, b"1")), Gets(A, publish(2, "t", 1, None, b"1")), Gets(A, ack(0x40, 9)),
            Send(A, publish(4, "t", 9, None, b"2")), Gets(A, publish(4, "t", 2, None, b"2")), Gets(A, ack(0x50, 9)),
            Leaves(A),
            Send(A, lasting311("a")), Gets(A, connack(1, 0)),
            Gets(A, publish(10, "t", 1, None, b"1")), Gets(A, publish(12, "t", 2, None, b"2")),
        ]),
        ("MQTT-4.4.0-1", "PUBREL comes again too", vec![
            Send(A, lasting311("a")), Gets(A, connack(0, 0)),
            Send(A, subscribe(1, None, "t", 2)), Gets(A, suback(1, 2)),
            Send(A, publish(4, "t", 9, None, b"2")), Gets(A, publish(4, "t", 1, None, b"2")), Gets(A, ack(0x50, 9)),
            Send(A, ack(0x50, 1)), Gets(A, ack(0x62, 1)), Leaves(A),
            Send(A, lasting311("a")), Gets(A, connack(1, 0)), Gets(A, ack(0x62, 1)),
            Send(A, ack(0x70, 1)), Pings(A),
        ]),
        ("MQTT-4.3.3-2", "a QoS 2 message that comes again after a reconnect is not delivered again", vec![
            Send(B, clean311("b")), Gets(B, connack(0, 0)), Send(B, subscribe(1, None, "t", 0)), Gets(B, suback(1, 0)),
            Send(A, lasting311("a")), Gets(A, connack(0, 0)),
            Send(A, publish(4, "t", 5, None, b"x")), Gets(A, ack(0x50, 5)), Gets(B, publish(0, "t", 0, None, b"x")), Leaves(A),
            Send(A, lasting311("a")), Gets(A, connack(1, 0)),
            Send(A, publish(12, "t", 5, None, b"x")), Gets(A, ack(0x50, 5)),
            Send(A, ack(0x62, 5)), Gets(A, ack(0x70, 5)), Pings(B),
        ]),
    ]
}

fn publishing() -> Vec<Row> {
    vec![
        ("MQTT-3.3.4-1", "QoS 0 is not answered", with_a(vec![Send(A, publish(0, "t", 0, None, b"x")), Pings(A)])),
        ("MQTT-4.3.2-2", "QoS 1 is answered with PUBACK", with_a(vec![Send(A, publish(2, "t", 10, None, b"x")), Gets(A, ack(0x40, 10))])),
        ("MQTT-4.3.3-2", "QoS 2 is answered with PUBREC, then PUBCOMP", with_a(vec![
            Send(A, publish(4, "t", 10, None, b"x")), Gets(A, ack(0x50, 10)),
            Send(A, ack(0x62, 10)), Gets(A, ack(0x70, 10)),
        ])),
        ("MQTT-4.3.3-2", "until PUBREL it is the same message, after it a new one", with_both("t", 0, vec![
            Send(B, publish(4, "t", 3, None, b"1")), Gets(B, ack(0x50, 3)), Gets(A, publish(0, "t", 0, None, b"1")),
            Send(B, publish(12, "t", 3, None, b"1")), Gets(B, ack(0x50, 3)),
            Send(B, ack(0x62, 3)), Gets(B, ack(0x70, 3)),
            Send(B, publish(4, "t", 3, None, b"2")), Gets(B, ack(0x50, 3)), Gets(A, publish(0, "t", 0, None, b"2")),
        ])),
        ("MQTT-4.3.3-1", "PUBREC is answered with PUBREL", with_both("t", 2, vec![
            Send(B, publish(4, "t", 3, None, b"1")), Gets(B, ack(0x50, 3)), Gets(A, publish(4, "t", 1, None, b"1")),
            Send(A, ack(0x50, 1)), Gets(A, ack(0x62, 1)), Send(A, ack(0x70, 1)), Pings(A),
        ])),
        ("MQTT-3.3.1-3", "the duplicate flag is not passed on", with_both("t", 1, vec![
            Send(B, publish(10, "t", 3, None, b"1")), Gets(B, ack(0x40, 3)), Gets(A, publish(2, "t", 1, None, b"1")),
        ])),
        ("MQTT-3.3.1-5", "a retained message is kept; 3.3.1-8: and marked for a new subscription", with_a(vec![
            Send(A, publish(1, "t", 0, None, b"kept")),
            Send(A, subscribe(1, None, "t", 0)), Gets(A, suback(1, 0)), Gets(A, publish(1, "t", 0, None, b"kept")),
        ])),
        ("MQTT-3.3.1-7", "one of QoS 0 replaces it", with_a(vec![
            Send(A, publish(3, "t", 1, None, b"old")), Gets(A, ack(0x40, 1)), Send(A, publish(1, "t", 0, None, b"new")),
            Send(A, subscribe(1, None, "t", 1)), Gets(A, suback(1, 1)), Gets(A, publish(1, "t", 0, None, b"new")), Pings(A),
        ])),
        ("MQTT-3.3.1-9", "it is not marked for one that was there", with_both("t", 0, vec![
            Send(B, publish(1, "t", 0, None, b"x")), Gets(A, publish(0, "t", 0, None, b"x")),
        ])),
        ("MQTT-3.3.1-10", "an empty one deletes, and is delivered; 3.3.1-11: it is not kept", with_both("t", 0, vec![
            Send(B, publish(1, "t", 0, None, b"x")), Gets(A, publish(0, "t", 0, None, b"x")),
            Send(B, publish(1, "t", 0, None, b"")), Gets(A, publish(0, "t", 0, None, b"")),
            Send(B, subscribe(1, None, "t", 0)), Gets(B, suback(1, 0)), Pings(B),
        ])),
        ("MQTT-3.3.1-12", "without the flag nothing is kept, and what is kept stays", with_a(vec![
            Send(A, publish(1, "t", 0, None, b"kept")), Send(A, publish(0, "t", 0, None, b"not")),
            Send(A, subscribe(1, None, "t", 0)), Gets(A, suback(1, 0)), Gets(A, publish(1, "t", 0, None, b"kept")), Pings(A),
        ])),
        ("MQTT-4.6.0-2", "acknowledgements come in the messages' order", with_a(vec![
            Send(A, [publish(2, "t", 9, None, b""), publish(4, "t", 3, None, b""), publish(2, "t", 5, None, b"")].concat()),
            Gets(A, ack(0x40, 9)), Gets(A, ack(0x50, 3)), Gets(A, ack(0x40, 5)),
        ])),
        ("MQTT-4.6.0-5", "a topic's messages come in their order", with_both("t", 1, vec![
            Send(B, [publish(2, "t", 9, None, b"1"), publish(2, "t", 3, None, b"2"), publish(2, "t", 5, None, b"3")].concat()),
            Gets(A, publish(2, "t", 1, None, b"1")), Gets(A, publish(2, "t", 2, None, b"2")), Gets(A, publish(2, "t", 3, None, b"3")),
        ])),
        ("MQTT-1.5.3-3", "U+FEFF is a character as any other", with_both("\u{FEFF}t", 0, vec![
            Send(B, publish(0, "t", 0, None, b"x")), Send(B, publish(0, "\u{FEFF}t", 0, None, b"y")),
            Gets(A, publish(0, "\u{FEFF}t", 0, None, b"y")),
        ])),
        ("MQTT-4.5.0-1", "a message goes to every subscriber", with_both("t", 0, vec![
            Send(B, subscribe(1, None, "+", 0)), Gets(B, suback(1, 0)),
            Send(B, publish(0, "t", 0, None, b"x")),
            Gets(A, publish(0, "t", 0, None, b"x")), Gets(B, publish(0, "t", 0, None, b"x")),
        ])),
    ]
}

fn subscribing() -> Vec<Row> {
    let both = packet(0x82, &[&[0, 4], &text("a"), &[2], &text("b/#/c"), &[1], &text("#"), &[1]]);
    let unsubscribe = packet(0xA2, &[&[0, 6], &text("t"), &text("u")]);
    vec![
        ("MQTT-3.8.4-1", "SUBSCRIBE is answered; 3.8.4-2: with its identifier", with_a(vec![
            Send(A, subscribe(5, None, "t", 2)), Gets(A, suback(5, 2)),
        ])),
        ("MQTT-3.8.4-5", "with a code for each filter; 3.9.3-2: 0x80 for one that is none", with_a(vec![
            Send(A, both), Gets(A, vec![0x90, 5, 0, 4, 2, 0x80, 1]),
        ])),
        ("MQTT-3.8.4-3", "an identical filter replaces, and the retained message comes again", with_a(vec![
            Send(A, publish(1, "t", 0, None, b"x")),
            Send(A, subscribe(1, None, "t", 0)), Gets(A, suback(1, 0)), Gets(A, publish(1, "t", 0, None, b"x")),
            Send(A, subscribe(2, None, "t", 1)), Gets(A, suback(2, 1)), Gets(A, publish(1, "t", 0, None, b"x")),
            Send(A, publish(2, "t", 3, None, b"y")), Gets(A, publish(2, "t", 1, None, b"y")), Gets(A, ack(0x40, 3)), Pings(A),
        ])),
        ("MQTT-3.8.4-6", "the lower QoS of message and subscription", with_both("t", 1, vec![
            Send(B, publish(4, "t", 3, None, b"x")), Gets(B, ack(0x50, 3)), Gets(A, publish(2, "t", 1, None, b"x")),
            Send(A, ack(0x40, 1)), Send(B, publish(0, "t", 0, None, b"y")), Gets(A, publish(0, "t", 0, None, b"y")),
        ])),
        ("MQTT-3.3.5-1", "overlapping subscriptions: one copy of the highest QoS", with_both("t", 0, vec![
            Send(A, subscribe(2, None, "#", 1)), Gets(A, suback(2, 1)),
            Send(B, publish(2, "t", 3, None, b"x")), Gets(B, ack(0x40, 3)), Gets(A, publish(2, "t", 1, None, b"x")), Pings(A),
        ])),
        ("MQTT-3.10.4-1", "UNSUBSCRIBE compares filters letter by letter; 3.10.4-4: UNSUBACK has its identifier", with_both("t", 0, vec![
            Send(A, packet(0xA2, &[&[0, 5], &text("+")])), Gets(A, vec![0xB0, 2, 0, 5]),
            Send(B, publish(0, "t", 0, None, b"x")), Gets(A, publish(0, "t", 0, None, b"x")),
            Send(A, unsubscribe), Gets(A, vec![0xB0, 2, 0, 6]),
            Send(B, publish(2, "t", 1, None, b"y")), Gets(B, ack(0x40, 1)), Pings(A),
        ])),
        ("MQTT-4.7.2-1", "a wildcard does not stand for topics of the system", with_both("#", 0, vec![
            Send(A, subscribe(2, None, "+/b", 0)), Gets(A, suback(2, 0)),
            Send(B, publish(2, "$a/b", 1, None, b"x")), Gets(B, ack(0x40, 1)), Pings(A),
            Send(A, subscribe(3, None, "$a/#", 0)), Gets(A, suback(3, 0)),
            Send(B, publish(0, "$a/b", 0, None, b"y")), Gets(A, publish(0, "$a/b", 0, None, b"y")),
        ])),
        ("MQTT-4.7.3-4", "topics are not normalised", with_both("/a", 0, vec![
            Send(B, publish(2, "a", 1, None, b"x")), Gets(B, ack(0x40, 1)), Pings(A),
        ])),
    ]
}

fn wills() -> Vec<Row> {
    let gone = |flags, last: Vec<super::Step>| {
        let mut steps = with_a(vec![
            Send(A, subscribe(1, None, "w", 2)), Gets(A, suback(1, 2)),
            Send(B, will(flags, "w", "gone")), Gets(B, connack(0, 0)),
        ]);
        steps.extend(last);
        steps
    };
    vec![
        ("MQTT-3.1.2-8", "a lost client's will is published", gone(6, vec![Leaves(B), Gets(A, publish(0, "w", 0, None, b"gone"))])),
        ("MQTT-3.1.2-8", "so is that of one that breaks the protocol", gone(0x0E, vec![
            Send(B, vec![0, 0]), Closed(B), Gets(A, publish(2, "w", 1, None, b"gone")),
        ])),
        ("MQTT-3.1.2-12", "no will, nothing is published", with_a(vec![
            Send(A, subscribe(1, None, "#", 2)), Gets(A, suback(1, 2)),
            Send(B, clean311("b")), Gets(B, connack(0, 0)), Leaves(B), Pings(A),
        ])),
        ("MQTT-3.1.2-10", "DISCONNECT drops it", gone(6, vec![Send(B, vec![0xE0, 0]), Closed(B), Pings(A)])),
        ("MQTT-3.1.2-16", "a will that is not to be retained is not", gone(6, vec![
            Leaves(B), Gets(A, publish(0, "w", 0, None, b"gone")),
            Send(A, subscribe(2, None, "w", 0)), Gets(A, suback(2, 0)), Pings(A),
        ])),
        ("MQTT-3.1.2-17", "a will that is to be retained is", gone(0x26, vec![
            Leaves(B), Gets(A, publish(0, "w", 0, None, b"gone")),
            Send(A, subscribe(2, None, "w", 0)), Gets(A, suback(2, 0)), Gets(A, publish(1, "w", 0, None, b"gone")),
        ])),
        ("MQTT-3.1.3-10", "a will's topic is a string", vec![Send(A, connect311(6, 0, &[&text("b"), &[0, 1, 0xFF], &text("x")])), Closed(A)]),
    ]
}
