//! Acknowledgements, and how many may be outstanding.

use super::*;
use crate::bytes::{ack, subscribe};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = acknowledging();
    rows.extend(flow());
    rows
}

fn acknowledging() -> Vec<Row> {
    vec![
        ("MQTT-3.3.4-1", "QoS 0 is not answered", with_a(vec![Send(A, message(&[], b"x")), Pings(A)])),
        ("MQTT-4.3.2-4", "QoS 1 is answered with PUBACK; 3.4.2-1: 0x10 where nobody listens", with_a(vec![
            Send(A, publish(2, "t", 4, Some(&[]), b"x")), Gets(A, reason(0x40, 4, 0x10)),
        ])),
        ("MQTT-4.3.2-5", "what comes after PUBACK is a new message; 3.3.1-3: its duplicate flag is not passed on", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)),
            Send(B, publish(2, "t", 3, Some(&[]), b"x")), Gets(B, ack(0x40, 3)), Gets(A, publish(2, "t", 1, Some(&[]), b"x")),
            Send(B, publish(10, "t", 3, Some(&[]), b"x")), Gets(B, ack(0x40, 3)), Gets(A, publish(2, "t", 2, Some(&[]), b"x")),
        ])),
        ("MQTT-4.3.3-8", "QoS 2 is answered with PUBREC; 3.5.2-1: 0x10 where nobody listens; 4.3.3-11: and PUBREL with PUBCOMP", with_a(vec![
            Send(A, publish(4, "t", 4, Some(&[]), b"x")), Gets(A, reason(0x50, 4, 0x10)), Send(A, ack(0x62, 4)), Gets(A, ack(0x70, 4)),
        ])),
        ("MQTT-4.3.3-12", "until PUBREL it is the same message, after it a new one", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)),
            Send(B, publish(4, "t", 3, Some(&[]), b"1")), Gets(B, ack(0x50, 3)), Gets(A, message(&[], b"1")),
            Send(B, publish(12, "t", 3, Some(&[]), b"1")), Gets(B, ack(0x50, 3)), Send(B, ack(0x62, 3)), Gets(B, ack(0x70, 3)),
            Send(B, publish(4, "t", 3, Some(&[]), b"2")), Gets(B, ack(0x50, 3)), Gets(A, message(&[], b"2")),
        ])),
        ("MQTT-4.3.3-13", "the exchange of a message whose time is over goes on", with_a(vec![
            Send(A, publish(4, "t", 4, Some(&[2, 0, 0, 0, 0]), b"x")), Gets(A, reason(0x50, 4, 0x10)), Send(A, ack(0x62, 4)), Gets(A, ack(0x70, 4)),
        ])),
        ("MQTT-4.3.3-4", "PUBREC is answered with PUBREL", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 2)), Gets(A, suback(1, 2)),
            Send(B, publish(4, "t", 3, Some(&[]), b"1")), Gets(B, ack(0x50, 3)), Gets(A, publish(4, "t", 1, Some(&[]), b"1")),
            Send(A, ack(0x50, 1)), Gets(A, ack(0x62, 1)), Send(A, ack(0x70, 1)), Pings(A),
        ])),
        ("4.3.3", "a PUBREC with an error ends the exchange", with_a(vec![
            Send(A, subscribe(3, Some(&[]), "t", 2)), Gets(A, suback(3, 2)),
            Send(A, publish(4, "t", 4, Some(&[]), b"x")), Gets(A, publish(4, "t", 1, Some(&[]), b"x")), Gets(A, ack(0x50, 4)),
            Send(A, reason(0x50, 1, 0x80)), Pings(A), Send(A, ack(0x50, 1)), Gets(A, reason(0x62, 1, 0x92)),
        ])),
        ("MQTT-3.6.2-1", "PUBREL 0x92: no such exchange", with_a(vec![Send(A, ack(0x50, 9)), Gets(A, reason(0x62, 9, 0x92))])),
        ("MQTT-3.7.2-1", "PUBCOMP 0x92: no such exchange", with_a(vec![Send(A, ack(0x62, 9)), Gets(A, reason(0x70, 9, 0x92))])),
        ("MQTT-3.12.4-1", "PINGREQ is answered", with_a(vec![Pings(A)])),
    ]
}

fn flow() -> Vec<Row> {
    let open: Vec<u8> = (1..=257_u16).flat_map(|id| publish(4, "t", id, Some(&[]), b"")).collect();
    let mut too_many = vec![Send(A, open)];
    too_many.extend((1..=256_u16).map(|id| Gets(A, packet(0x50, &[&id.to_be_bytes(), &[0x10]]))));
    too_many.extend([GetsLike(A, disconnect(0x93)), Closed(A)]);
    vec![
        ("MQTT-3.3.4-9", "no more is in flight than the client's receive maximum; 4.9.0-1: that is the quota; 4.9.0-2: at its end nothing above QoS 0 is sent; 3.3.4-10: all else is, 4.9.0-3: and answered", vec![
            Send(A, connect5(2, &[33, 0, 1], &[&text("a")])), Gets(A, connack(0)),
            Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)), Send(B, clean5("b")), Gets(B, connack(0)),
            Send(B, publish(2, "t", 1, Some(&[]), b"1")), Gets(B, ack(0x40, 1)), Send(B, publish(2, "t", 2, Some(&[]), b"2")), Gets(B, ack(0x40, 2)),
            Gets(A, publish(2, "t", 1, Some(&[]), b"1")), Pings(A),
            Send(A, subscribe(2, Some(&[]), "u", 0)), Gets(A, suback(2, 0)), Send(B, publish(0, "u", 0, Some(&[]), b"3")), Gets(A, publish(0, "u", 0, Some(&[]), b"3")),
            Send(A, ack(0x40, 1)), Gets(A, publish(2, "t", 2, Some(&[]), b"2")),
        ]),
        ("MQTT-3.3.4-7", "a client beyond the broker's receive maximum is cut off", with_a(too_many)),
    ]
}
