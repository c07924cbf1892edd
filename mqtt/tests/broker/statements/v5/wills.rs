//! Wills.

use super::*;
use crate::bytes::subscribe;

/// Returns the CONNECT of B with a will.
fn will(expiry: u8, delay: u8, clean: u8) -> Vec<u8> {
    connect5(4 | clean, &[17, 0, 0, 0, expiry], &[&text("b"), &[5, 24, 0, 0, 0, delay], &text("w"), &text("gone")])
}

/// Subscribes A to wills and connects B before the last steps.
fn watching(connect: Vec<u8>, last: Vec<Step>) -> Vec<Step> {
    let mut steps = with_a(vec![
        Send(A, subscribe(1, Some(&[]), "w", 0)), Gets(A, suback(1, 0)), Send(B, connect), Gets(B, connack(0)),
    ]);
    steps.extend(last);
    steps
}

pub(super) fn rows() -> Vec<Row> {
    let gone = publish(0, "w", 0, Some(&[]), b"gone");
    let mut rows = vec![
        ("MQTT-3.1.2-8", "a will waits for its delay", watching(will(60, 1, 2), vec![Leaves(B), Pings(A), Gets(A, gone.clone())])),
        ("MQTT-3.1.3-9", "a client that is back in time has none published", watching(will(60, 1, 2), vec![
            Leaves(B), Send(B, keeping("b", 0, 60)), Gets(B, connack(1)),
            // Another client's will of the same delay, set later, comes first: the earlier one would have come before it.
            Send(B, vec![0xE0, 0]), Closed(B),
            Send(B, connect5(6, &[17, 0, 0, 0, 60], &[&text("c"), &[5, 24, 0, 0, 0, 1], &text("w"), &text("later")])),
            Gets(B, connack(0)), Leaves(B), Gets(A, publish(0, "w", 0, Some(&[]), b"later")),
        ])),
        ("MQTT-3.1.2-8", "the end of the session does not wait for the delay", watching(will(1, 60, 2), vec![Leaves(B), Gets(A, gone.clone())])),
        ("3.1.3.2.2", "nor does a clean start", watching(will(60, 50, 2), vec![
            Leaves(B), Send(B, clean5("b")), Gets(B, connack(0)), Gets(A, gone.clone()),
        ])),
        ("3.14.2.1", "DISCONNECT 0x04 asks for the will", watching(will(60, 0, 2), vec![Send(B, vec![0xE0, 1, 4]), Closed(B), Gets(A, gone.clone())])),
        ("MQTT-3.14.4-3", "DISCONNECT 0x00 drops it", watching(will(60, 0, 2), vec![Send(B, vec![0xE0, 1, 0]), Closed(B), Pings(A)])),
        ("MQTT-3.1.2-10", "a will is published once", watching(will(60, 0, 2), vec![
            Leaves(B), Gets(A, gone), Send(B, keeping("b", 0, 60)), Gets(B, connack(1)), Leaves(B),
            Send(B, clean5("b")), Gets(B, connack(0)), Pings(A),
        ])),
    ];
    rows.extend(messages());
    rows
}

fn messages() -> Vec<Row> {
    let properties = [1, 1, 38, 0, 1, b'k', 0, 1, b'v', 38, 0, 1, b'k', 0, 1, b'w'];
    let with = |flags, properties: &[u8]| {
        connect5(flags, &[], &[&text("b"), &[properties.len() as u8], properties, &text("w"), &text("gone")])
    };
    let gone = |flags, properties: &[u8]| publish(flags, "w", 0, Some(properties), b"gone");
    let again = |flags, mut last: Vec<Step>| {
        let mut steps = vec![
            Leaves(B), Gets(A, gone(0, &[])), Send(A, subscribe(2, Some(&[]), "w", 0)), Gets(A, suback(2, 0)),
        ];
        steps.append(&mut last);
        watching(with(flags, &[]), steps)
    };
    vec![
        ("MQTT-3.1.2-14", "a will that is not to be retained is not", again(6, vec![Pings(A)])),
        ("MQTT-3.1.2-15", "a will that is to be retained is", again(0x26, vec![Gets(A, gone(1, &[]))])),
        ("MQTT-3.1.3-10", "its properties go on, the user's in their order", watching(with(6, &properties), vec![
            Leaves(B), Gets(A, gone(0, &properties)),
        ])),
    ]
}
