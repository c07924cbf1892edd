//! SUBSCRIBE and UNSUBSCRIBE, and their answers.

use super::*;
use crate::bytes::{ack, subscribe};

pub(super) fn rows() -> Vec<Row> {
    let several = |filters: &[(&str, u8)]| {
        let filters: Vec<u8> = filters.iter().flat_map(|(filter, qos)| [&text(filter)[..], &[*qos]].concat()).collect();
        packet(0x82, &[&[0, 4, 0], &filters])
    };
    vec![
        ("MQTT-3.8.4-1", "SUBSCRIBE is answered; 3.8.4-2: with its identifier, 3.8.4-7: and the QoS that was granted", with_a(vec![
            Send(A, subscribe(5, Some(&[]), "t", 2)), Gets(A, suback(5, 2)),
        ])),
        ("MQTT-3.8.4-5", "several filters at once; 3.8.4-6: a code for each, 3.9.3-1: in their order", with_a(vec![
            Send(A, several(&[("a", 2), ("b/#/c", 1), ("#", 1)])), Gets(A, vec![0x90, 6, 0, 4, 0, 2, 0x8F, 1]),
        ])),
        ("MQTT-3.9.3-2", "SUBACK 0x8F is no filter: 4.7.1-1: a # that is not the last level, 4.7.1-2: a + that is not a whole one", with_a(vec![
            Send(A, several(&[("a/#/b", 0), ("a#", 0), ("a+", 0), ("+a", 0)])), Gets(A, vec![0x90, 7, 0, 4, 0, 0x8F, 0x8F, 0x8F, 0x8F]),
        ])),
        ("MQTT-3.8.4-3", "an identical filter replaces; 3.8.4-4: the retained message comes again, and no other is lost", with_a(vec![
            Send(A, publish(1, "t", 0, Some(&[]), b"x")),
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)), Gets(A, publish(1, "t", 0, Some(&[]), b"x")),
            Send(A, subscribe(2, Some(&[]), "t", 1)), Gets(A, suback(2, 1)), Gets(A, publish(1, "t", 0, Some(&[]), b"x")),
            Send(A, publish(2, "t", 3, Some(&[]), b"y")), Gets(A, publish(2, "t", 1, Some(&[]), b"y")), Gets(A, ack(0x40, 3)), Pings(A),
        ])),
        ("MQTT-3.10.4-1", "UNSUBSCRIBE compares filters letter by letter; 3.10.4-2: then nothing comes; 3.10.4-4: 3.10.4-5: UNSUBACK has its identifier", with_both(vec![
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)),
            Send(A, unsubscribe(5, &["+"])), Gets(A, vec![0xB0, 4, 0, 5, 0, 0x11]),
            Send(B, message(&[], b"x")), Gets(A, message(&[], b"x")),
            Send(A, unsubscribe(6, &["t"])), Gets(A, vec![0xB0, 4, 0, 6, 0, 0]),
            Send(B, publish(2, "t", 1, Some(&[]), b"y")), Gets(B, reason(0x40, 1, 0x10)), Pings(A),
        ])),
        ("MQTT-3.10.4-6", "several filters are answered once; 3.11.3-1: in their order, 3.11.3-2: with a code for each", with_a(vec![
            Send(A, subscribe(3, Some(&[]), "t", 0)), Gets(A, suback(3, 0)),
            Send(A, unsubscribe(7, &["t", "u", "#/"])), Gets(A, vec![0xB0, 6, 0, 7, 0, 0, 0x11, 0x8F]),
        ])),
        ("MQTT-3.10.4-3", "a delivery that has begun is completed after UNSUBSCRIBE", vec![
            Send(A, keeping("a", 2, 60)), Gets(A, connack(0)), Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)),
            Send(B, clean5("b")), Gets(B, connack(0)), Send(B, publish(2, "t", 1, Some(&[]), b"x")), Gets(B, ack(0x40, 1)),
            Gets(A, publish(2, "t", 1, Some(&[]), b"x")), Send(A, unsubscribe(2, &["t"])), Gets(A, vec![0xB0, 4, 0, 2, 0, 0]), Leaves(A),
            Send(A, keeping("a", 0, 60)), Gets(A, connack(1)), Gets(A, publish(10, "t", 1, Some(&[]), b"x")), Send(A, ack(0x40, 1)), Pings(A),
        ]),
    ]
}
