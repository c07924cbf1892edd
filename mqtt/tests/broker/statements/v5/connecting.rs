//! CONNECT and its answer.

use super::*;
use crate::bytes::subscribe;

fn refuses(connect: Vec<u8>, reason: u8) -> Vec<Step> {
    vec![Send(A, connect), GetsLike(A, refusal(reason)), Closed(A)]
}

/// Returns a CONNECT with an authentication method.
fn with_method(client: &str) -> Vec<u8> {
    connect5(2, &[21, 0, 1, b'x'], &[&text(client)])
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = flags();
    rows.extend(payload());
    rows.extend(properties());
    rows.extend(answers());
    rows
}

fn flags() -> Vec<Row> {
    let level = |name: &[u8], level| packet(0x10, &[name, &[level, 2, 0, 0, 0], &text("a")]);
    vec![
        ("MQTT-3.1.0-1", "the first packet is CONNECT", vec![Send(A, message(&[], b"")), Closed(A)]),
        ("MQTT-3.1.0-2", "a second CONNECT", with_a(vec![Send(A, clean5("a")), GetsLike(A, disconnect(0x82)), Closed(A)])),
        ("MQTT-3.1.2-1", "another protocol name is refused", vec![Send(A, level(b"\0\x04MQTX", 5)), Closed(A)]),
        ("MQTT-3.1.2-2", "a level that is not spoken is refused", refuses(level(b"\0\x04MQTT", 6), 0x84)),
        ("MQTT-3.1.2-3", "the reserved connect flag is 0", refuses(connect5(3, &[], &[&text("a")]), 0x81)),
        ("MQTT-3.1.2-9", "a will has a topic and a message", refuses(connect5(6, &[], &[&text("a")]), 0x81)),
        ("MQTT-3.1.2-11", "without a will its QoS is 0", refuses(connect5(0x0A, &[], &[&text("a")]), 0x81)),
        ("MQTT-3.1.2-12", "a will's QoS is not 3", refuses(connect5(0x1E, &[], &[&text("a"), &[0], &text("w"), &text("x")]), 0x81)),
        ("MQTT-3.1.2-13", "without a will, no will retain", refuses(connect5(0x22, &[], &[&text("a")]), 0x81)),
        ("MQTT-3.1.2-16", "no user without its flag", refuses(connect5(2, &[], &[&text("a"), &text("u")]), 0x81)),
        ("MQTT-3.1.2-17", "a user where its flag is", refuses(connect5(0x82, &[], &[&text("a")]), 0x81)),
        ("MQTT-3.1.2-18", "no password without its flag", refuses(connect5(0x82, &[], &[&text("a"), &text("u"), &text("p")]), 0x81)),
        ("MQTT-3.1.2-19", "a password where its flag is", refuses(connect5(0xC2, &[], &[&text("a"), &text("u")]), 0x81)),
        ("3.1.2.9", "a password needs no user name", vec![Send(A, connect5(0x42, &[], &[&text("a"), &text("p")])), Gets(A, connack(0))]),
    ]
}

fn payload() -> Vec<Row> {
    let assigned = [&[0x20, 0, 0, 0, 43, 0x21, 1, 0, 0x27, 0, 0x10, 0, 0, 0x12, 0, 29][..], b"auto-"].concat();
    vec![
        ("MQTT-3.1.3-1", "client identifier, will, user and password stand in this order", with_a(vec![
            Send(A, subscribe(1, Some(&[]), "w", 0)), Gets(A, suback(1, 0)),
            Send(B, connect5(0xC6, &[], &[&text("b"), &[0], &text("w"), &text("gone"), &text("u"), &text("p")])), Gets(B, connack(0)),
            Leaves(B), Gets(A, publish(0, "w", 0, Some(&[]), b"gone")),
        ])),
        ("MQTT-3.1.3-3", "the client identifier is there", refuses(connect5(2, &[], &[]), 0x81)),
        ("MQTT-3.1.3-4", "it is UTF-8", refuses(connect5(2, &[], &[&[0, 1, 0xFF]]), 0x81)),
        ("MQTT-3.1.3-5", "23 letters and digits are an identifier", vec![Send(A, clean5("0123456789abcdefghijXYZ")), Gets(A, connack(0))]),
        ("MQTT-3.1.3-7", "an empty identifier is given one; 3.2.2-16: that is told, 3.1.3-6: and no other client has it", vec![
            Send(A, clean5("")), GetsLike(A, assigned.clone()), Send(B, clean5("")), GetsLike(B, assigned), Pings(A), Pings(B),
        ]),
        ("MQTT-3.1.3-11", "a will's topic is UTF-8", refuses(connect5(6, &[], &[&text("a"), &[0], &[0, 1, 0xFF], &text("x")]), 0x81)),
        ("MQTT-3.1.3-12", "a user is UTF-8", refuses(connect5(0x82, &[], &[&text("a"), &[0, 1, 0xFF]]), 0x81)),
    ]
}

fn properties() -> Vec<Row> {
    vec![
        ("3.1.2.11.2", "a property once", refuses(connect5(2, &[17, 0, 0, 0, 1, 17, 0, 0, 0, 1], &[&text("a")]), 0x82)),
        ("3.1.2.11.3", "receive maximum is not 0", refuses(connect5(2, &[33, 0, 0], &[&text("a")]), 0x82)),
        ("3.1.2.11.4", "maximum packet size is not 0", refuses(connect5(2, &[39, 0, 0, 0, 0], &[&text("a")]), 0x82)),
        ("3.1.2.11.7", "a flag is 0 or 1", refuses(connect5(2, &[23, 2], &[&text("a")]), 0x82)),
        ("2.2.2.2", "a property of another packet", refuses(connect5(2, &[35, 0, 1], &[&text("a")]), 0x81)),
        ("3.1.2.11.10", "no authentication data without a method", refuses(connect5(2, &[22, 0, 1, b'x'], &[&text("a")]), 0x82)),
        ("MQTT-4.12.0-1", "enhanced authentication is not offered", refuses(with_method("a"), 0x8C)),
        ("MQTT-4.12.0-7", "AUTH of a client that named no method", with_a(vec![Send(A, vec![0xF0, 0]), GetsLike(A, disconnect(0x82)), Closed(A)])),
        ("MQTT-3.1.2-29", "without problem information there are no reason strings", vec![
            Send(A, connect5(2, &[23, 0], &[&text("a")])), Gets(A, connack(0)),
            Send(A, publish(2, "t", 1, Some(&[]), b"x")), Gets(A, reason(0x40, 1, 0x10)),
            Send(A, subscribe(2, Some(&[]), "a/#/b", 0)), Gets(A, suback(2, 0x8F)),
            Send(A, vec![0xF0, 0]), Gets(A, told_without_text(0x82)), Closed(A),
        ]),
    ]
}

fn answers() -> Vec<Row> {
    vec![
        ("MQTT-3.1.4-3", "the same identifier takes the session over", with_a(vec![
            Send(B, clean5("a")), Gets(B, connack(0)), GetsLike(A, disconnect(0x8E)), Closed(A), Pings(B),
        ])),
        ("MQTT-3.1.4-6", "what follows a refused CONNECT is not done", vec![
            Send(A, [with_method("a"), publish(1, "t", 0, Some(&[]), b"x")].concat()), GetsLike(A, refusal(0x8C)), Closed(A),
            Send(B, clean5("b")), Gets(B, connack(0)), Send(B, subscribe(1, Some(&[]), "t", 0)), Gets(B, suback(1, 0)), Pings(B),
        ]),
        ("MQTT-3.2.2-6", "no session is present where the connection is refused", vec![
            Send(A, keeping("a", 2, 60)), Gets(A, connack(0)), Leaves(A),
            Send(B, connect5(0, &[21, 0, 1, b'x'], &[&text("a")])), GetsLike(B, refusal(0x8C)), Closed(B),
            Send(A, keeping("a", 0, 60)), Gets(A, connack(1)),
        ]),
        ("3.2.2.3.2", "an expiry above the bound is told", vec![
            Send(A, connect5(2, &[17, 0xFF, 0xFF, 0xFF, 0xFF], &[&text("a")])),
            Gets(A, packet(0x20, &[&[0, 0, 16, 17, 0, 9, 0x3A, 0x80, 0x21, 1, 0, 0x27, 0, 0x10, 0, 0, 0x22, 0, 32]])),
        ]),
    ]
}
