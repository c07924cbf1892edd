//! Shared subscriptions. Of two members, the one that subscribed last gets the first message.

use super::*;
use crate::bytes::{ack, subscribe};

const FILTER: &str = "$share/g/t";

/// Lets A and B share `t` in persistent sessions with these qualities of service, before the steps.
fn both(of_a: u8, of_b: u8, steps: Vec<Step>) -> Vec<Step> {
    let mut all = vec![
        Send(A, keeping("a", 2, 60)), Gets(A, connack(0)), Send(B, keeping("b", 2, 60)), Gets(B, connack(0)),
        Send(A, subscribe(1, Some(&[]), FILTER, of_a)), Gets(A, suback(1, of_a)),
        Send(B, subscribe(1, Some(&[]), FILTER, of_b)), Gets(B, suback(1, of_b)),
    ];
    all.extend(steps);
    all
}

pub(super) fn rows() -> Vec<Row> {
    let no_filter = |filter| with_a(vec![Send(A, subscribe(1, Some(&[]), filter, 0)), Gets(A, suback(1, 0x8F))]);
    let mut rows = vec![
        ("MQTT-4.8.2-1", "a share has a name", no_filter("$share//t")),
        ("MQTT-4.8.2-2", "a share's name has no wildcard", no_filter("$share/+/t")),
        ("MQTT-4.8.2-2", "nor a part of one", no_filter("$share/g#/t")),
        ("MQTT-4.8.2-2", "a / follows it", no_filter("$share/g")),
        ("MQTT-4.8.2-2", "and a filter", no_filter("$share/g/")),
    ];
    rows.extend(turns());
    rows.extend(failing());
    rows
}

fn turns() -> Vec<Row> {
    vec![
        ("4.8.2", "of a share, each message goes to one", both(0, 0, vec![
            Send(A, message(&[], b"1")), Gets(B, message(&[], b"1")), Pings(A),
            Send(A, message(&[], b"2")), Gets(A, message(&[], b"2")), Pings(B),
            Send(A, message(&[], b"3")), Gets(B, message(&[], b"3")), Pings(A),
        ])),
        ("4.8.2", "and to whoever is left", both(0, 0, vec![
            Send(B, vec![0xE0, 0]), Closed(B),
            Send(A, message(&[], b"1")), Gets(A, message(&[], b"1")), Send(A, message(&[], b"2")), Gets(A, message(&[], b"2")),
        ])),
        ("3.8.4", "a shared subscription is sent no retained message", with_a(vec![
            Send(A, publish(1, "t", 0, Some(&[]), b"k")), Send(A, subscribe(1, Some(&[]), FILTER, 0)), Gets(A, suback(1, 0)), Pings(A),
        ])),
        ("MQTT-4.8.2-3", "each member has the QoS that it was granted", both(0, 1, vec![
            Send(A, publish(4, "t", 1, Some(&[]), b"1")), Gets(A, ack(0x50, 1)), Gets(B, publish(2, "t", 1, Some(&[]), b"1")),
            Send(A, publish(4, "t", 2, Some(&[]), b"2")), Gets(A, message(&[], b"2")), Gets(A, ack(0x50, 2)),
        ])),
    ]
}

fn failing() -> Vec<Row> {
    let begun = |qos: u8, last: Vec<Step>| {
        let answer = if qos == 2 { 0x50 } else { 0x40 };
        let mut steps = vec![
            Send(A, publish(qos << 1, "t", 1, Some(&[]), b"1")), Gets(A, ack(answer, 1)), Gets(B, publish(qos << 1, "t", 1, Some(&[]), b"1")),
        ];
        steps.extend(last);
        both(qos, qos, steps)
    };
    vec![
        ("MQTT-4.8.2-4", "a delivery that has begun is completed with the same member", begun(2, vec![
            Leaves(B), Pings(A), Send(B, keeping("b", 0, 60)), Gets(B, connack(1)), Gets(B, publish(12, "t", 1, Some(&[]), b"1")),
        ])),
        ("MQTT-4.8.2-5", "if that member's session ends, no other gets the message", begun(2, vec![
            Send(B, packet(0xE0, &[&[0, 5, 17, 0, 0, 0, 0]])), Closed(B), Pings(A),
        ])),
        ("MQTT-4.8.2-6", "nor if it refuses it", begun(1, vec![Send(B, reason(0x40, 1, 0x80)), Pings(B), Pings(A)])),
    ]
}
