//! MQTT 5: connecting, properties, reason codes.

use super::{A, B, Row, Step, Step::*};
use crate::bytes::{ack, clean5, connect5, packet, publish, subscribe, text};

/// CONNACK as this broker's default bounds make it: receive maximum, maximum packet size, topic alias maximum.
pub(super) fn connack(present: u8) -> Vec<u8> {
    packet(0x20, &[&[present, 0, 11, 0x21, 1, 0, 0x27, 0, 0x10, 0, 0, 0x22, 0, 32]])
}

/// CONNACK or DISCONNECT with a reason, whose text is left open.
fn refused(reason: u8) -> Vec<u8> {
    vec![0x20, 0, 0, reason]
}

pub(super) fn told(reason: u8) -> Vec<u8> {
    vec![0xE0, 0, reason]
}

pub(super) fn suback(id: u8, code: u8) -> Vec<u8> {
    vec![0x90, 4, 0, id, 0, code]
}

/// A is connected, with a clean start.
pub(super) fn with_a(mut steps: Vec<Step>) -> Vec<Step> {
    let mut all = vec![Send(A, clean5("a")), Gets(A, connack(0))];
    all.append(&mut steps);
    all
}

pub(super) fn with_both(mut steps: Vec<Step>) -> Vec<Step> {
    let mut all = with_a(vec![Send(B, clean5("b")), Gets(B, connack(0))]);
    all.append(&mut steps);
    all
}

pub(super) fn table() -> Vec<Row> {
    let mut rows = connecting();
    rows.extend(malformed());
    rows.extend(sessions());
    rows.extend(codes());
    rows
}

fn connecting() -> Vec<Row> {
    let refuses = |connect: Vec<u8>, reason| vec![Send(A, connect), GetsLike(A, refused(reason)), Closed(A)];
    let level = packet(0x10, &[b"\0\x04MQTT\x06", &[2, 0, 0, 0], &text("a")]);
    vec![
        ("MQTT-3.1.2-2", "a level that is not spoken is refused", vec![Send(A, level), Gets(A, vec![0x20, 2, 0, 1]), Closed(A)]),
        ("MQTT-3.1.2-3", "the reserved connect flag is 0", refuses(connect5(3, &[], &[&text("a")]), 0x81)),
        ("MQTT-3.1.2-12", "a will's QoS is not 3", refuses(connect5(0x1E, &[], &[&text("a"), &[0], &text("w"), &text("x")]), 0x81)),
        ("3.1.2.9", "a password needs no user name", vec![Send(A, connect5(0x42, &[], &[&text("a"), &text("p")])), Gets(A, connack(0))]),
        ("3.1.2.11.2", "a property once", refuses(connect5(2, &[17, 0, 0, 0, 1, 17, 0, 0, 0, 1], &[&text("a")]), 0x82)),
        ("3.1.2.11.3", "receive maximum is not 0", refuses(connect5(2, &[33, 0, 0], &[&text("a")]), 0x82)),
        ("3.1.2.11.4", "maximum packet size is not 0", refuses(connect5(2, &[39, 0, 0, 0, 0], &[&text("a")]), 0x82)),
        ("3.1.2.11.7", "a flag is 0 or 1", refuses(connect5(2, &[23, 2], &[&text("a")]), 0x82)),
        ("2.2.2.2", "a property of another packet", refuses(connect5(2, &[35, 0, 1], &[&text("a")]), 0x81)),
        ("MQTT-4.12.0-1", "enhanced authentication is not offered", refuses(connect5(2, &[21, 0, 1, b'x'], &[&text("a")]), 0x8C)),
        ("3.1.2.11.10", "no authentication data without a method", refuses(connect5(2, &[22, 0, 1, b'x'], &[&text("a")]), 0x82)),
        ("3.15", "AUTH without a method", with_a(vec![Send(A, vec![0xF0, 0]), GetsLike(A, told(0x82)), Closed(A)])),
        ("MQTT-3.1.0-2", "a second CONNECT", with_a(vec![Send(A, clean5("a")), GetsLike(A, told(0x82)), Closed(A)])),
        ("MQTT-3.1.3-7", "an empty client identifier is given one, which is told", vec![
            Send(A, connect5(2, &[], &[&text("")])),
            GetsLike(A, [&[0x20, 0, 0, 0, 43, 0x21, 1, 0, 0x27, 0, 0x10, 0, 0, 0x12, 0, 29][..], b"auto-"].concat()),
        ]),
        ("MQTT-3.1.4-3", "the same identifier takes the session over", with_a(vec![
            Send(B, clean5("a")), Gets(B, connack(0)), GetsLike(A, told(0x8E)), Closed(A), Pings(B),
        ])),
        ("MQTT-3.1.2-29", "without problem information no reason string", vec![
            Send(A, connect5(2, &[23, 0], &[&text("a")])), Gets(A, connack(0)),
            Send(A, vec![0xF0, 0]), Gets(A, vec![0xE0, 1, 0x82]), Closed(A),
        ]),
    ]
}

fn malformed() -> Vec<Row> {
    let bad = |bytes: &[u8], reason| with_a(vec![Send(A, bytes.to_vec()), GetsLike(A, told(reason)), Closed(A)]);
    let properties = |bytes: &[u8]| publish(0, "t", 0, Some(bytes), b"");
    let too_large = packet(0x30, &[]).into_iter().take(1).chain([0x80, 0x80, 0x40 + 1]).collect::<Vec<u8>>();
    vec![
        ("MQTT-1.5.4-1", "a topic is UTF-8", bad(&packet(0x30, &[&[0, 2, 0xD8, 0], &[0]]), 0x81)),
        ("MQTT-1.5.4-2", "without U+0000", bad(&packet(0x30, &[&[0, 1, 0], &[0]]), 0x81)),
        ("MQTT-1.5.5-1", "a length in its shortest form", bad(&[0xC0, 0x80, 0], 0x81)),
        ("MQTT-1.5.5-1", "so in properties", bad(&packet(0x30, &[&text("t"), &[0x80, 0]]), 0x81)),
        ("MQTT-2.1.3-1", "reserved bits", bad(&ack(0x60, 1), 0x81)),
        ("MQTT-2.2.1-3", "a packet identifier is not 0", bad(&packet(0x82, &[&[0, 0], &[0], &text("a"), &[0]]), 0x82)),
        ("MQTT-3.3.1-4", "no QoS 3", bad(&publish(6, "t", 1, Some(&[]), b""), 0x81)),
        ("MQTT-3.3.2-2", "a topic name has no wildcard", bad(&publish(0, "#", 0, Some(&[]), b""), 0x90)),
        ("MQTT-4.7.3-1", "a topic name is not empty", bad(&publish(0, "", 0, Some(&[]), b""), 0x90)),
        ("MQTT-3.3.2-8", "topic alias 0", bad(&properties(&[35, 0, 0]), 0x94)),
        ("MQTT-3.3.2-9", "a topic alias above the maximum", bad(&properties(&[35, 0, 33]), 0x94)),
        ("3.3.2.3.4", "an alias that was not set", bad(&publish(0, "", 0, Some(&[35, 0, 1]), b""), 0x82)),
        ("MQTT-3.3.4-6", "no subscription identifier from a client", bad(&properties(&[11, 1]), 0x81)),
        ("MQTT-3.3.2-14", "a response topic has no wildcard", bad(&properties(&[8, 0, 1, b'#']), 0x90)),
        ("3.3.2.3.2", "a payload format is 0 or 1", bad(&properties(&[1, 2]), 0x82)),
        ("3.8.2.1.2", "subscription identifier 0", bad(&subscribe(1, Some(&[11, 0]), "t", 0), 0x82)),
        ("MQTT-3.8.3-5", "reserved bits of the options", bad(&subscribe(1, Some(&[]), "t", 0x40), 0x81)),
        ("3.8.3.1", "retain handling 3", bad(&subscribe(1, Some(&[]), "t", 0x30), 0x82)),
        ("MQTT-3.8.3-4", "no local on a shared subscription", bad(&subscribe(1, Some(&[]), "$share/g/t", 4), 0x82)),
        ("MQTT-3.8.3-2", "a SUBSCRIBE has a filter", bad(&packet(0x82, &[&[0, 1, 0]]), 0x82)),
        ("MQTT-3.10.3-2", "an UNSUBSCRIBE has a filter", bad(&packet(0xA2, &[&[0, 1, 0]]), 0x82)),
        ("MQTT-3.1.2-24", "a packet above the maximum is refused by its header alone", bad(&too_large, 0x95)),
        ("MQTT-3.14.2-2", "a session that was to end cannot be kept at the end", bad(&packet(0xE0, &[&[0, 5, 17, 0, 0, 0, 9]]), 0x82)),
    ]
}

fn sessions() -> Vec<Row> {
    let keeping = |clean: u8, seconds: u8| connect5(clean, &[17, 0, 0, 0, seconds], &[&text("a")]);
    vec![
        ("MQTT-3.1.2-4", "clean start forgets", vec![
            Send(A, keeping(2, 60)), Gets(A, connack(0)), Send(A, vec![0xE0, 0]), Closed(A),
            Send(A, keeping(2, 60)), Gets(A, connack(0)),
        ]),
        ("MQTT-3.1.2-5", "without it the session is found again", vec![
            Send(A, keeping(2, 60)), Gets(A, connack(0)), Leaves(A), Send(A, keeping(0, 60)), Gets(A, connack(1)),
        ]),
        ("MQTT-3.1.2-23", "a session without an expiry ends with its connection", vec![
            Send(A, clean5("a")), Gets(A, connack(0)), Send(A, vec![0xE0, 0]), Closed(A),
            Send(A, keeping(0, 60)), Gets(A, connack(0)),
        ]),
        ("3.14.2.2.2", "DISCONNECT may end a session that was to be kept", vec![
            Send(A, keeping(2, 60)), Gets(A, connack(0)),
            Send(A, packet(0xE0, &[&[0, 5, 17, 0, 0, 0, 0]])), Closed(A),
            Send(A, keeping(0, 60)), Gets(A, connack(0)),
        ]),
        ("3.2.2.3.2", "an expiry above the bound is told", vec![
            Send(A, connect5(2, &[17, 0xFF, 0xFF, 0xFF, 0xFF], &[&text("a")])),
            Gets(A, packet(0x20, &[&[0, 0, 16, 17, 0, 9, 0x3A, 0x80, 0x21, 1, 0, 0x27, 0, 0x10, 0, 0, 0x22, 0, 32]])),
        ]),
    ]
}

fn codes() -> Vec<Row> {
    let reason = |first, id: u8, reason| packet(first, &[&[0, id, reason]]);
    let unsubscribe = packet(0xA2, &[&[0, 7, 0], &text("t"), &text("u"), &text("#/")]);
    vec![
        ("3.4.2.1", "PUBACK 0x10: nobody listens", with_a(vec![
            Send(A, publish(2, "t", 4, Some(&[]), b"x")), Gets(A, reason(0x40, 4, 0x10)),
        ])),
        ("3.5.2.1", "PUBREC 0x10, then all as ever", with_a(vec![
            Send(A, publish(4, "t", 4, Some(&[]), b"x")), Gets(A, reason(0x50, 4, 0x10)),
            Send(A, ack(0x62, 4)), Gets(A, ack(0x70, 4)),
        ])),
        ("3.7.2.1", "PUBCOMP 0x92: no such exchange", with_a(vec![Send(A, ack(0x62, 9)), Gets(A, reason(0x70, 9, 0x92))])),
        ("3.6.2.1", "PUBREL 0x92: no such exchange", with_a(vec![Send(A, ack(0x50, 9)), Gets(A, reason(0x62, 9, 0x92))])),
        ("MQTT-3.9.3-1", "SUBACK 0x8F: not a filter", with_a(vec![Send(A, subscribe(3, Some(&[]), "a/#/b", 0)), Gets(A, suback(3, 0x8F))])),
        ("MQTT-3.11.3-1", "UNSUBACK: a code for each filter", with_a(vec![
            Send(A, subscribe(3, Some(&[]), "t", 0)), Gets(A, suback(3, 0)),
            Send(A, unsubscribe), Gets(A, vec![0xB0, 6, 0, 7, 0, 0, 0x11, 0x8F]),
        ])),
        ("4.3.3", "a PUBREC with an error ends the exchange", with_a(vec![
            Send(A, subscribe(3, Some(&[]), "t", 2)), Gets(A, suback(3, 2)),
            Send(A, publish(4, "t", 4, Some(&[]), b"x")), Gets(A, publish(4, "t", 1, Some(&[]), b"x")), Gets(A, ack(0x50, 4)),
            Send(A, reason(0x50, 1, 0x80)), Pings(A),
            Send(A, ack(0x50, 1)), Gets(A, reason(0x62, 1, 0x92)),
        ])),
    ]
}
