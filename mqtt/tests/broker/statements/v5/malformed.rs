//! Malformed and forbidden packets.

use super::*;
use crate::bytes::{ack, subscribe};

fn bad(bytes: &[u8], reason: u8) -> Vec<Step> {
    with_a(vec![Send(A, bytes.to_vec()), GetsLike(A, disconnect(reason)), Closed(A)])
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = bits();
    rows.extend(fields());
    rows.extend(properties());
    rows
}

fn bits() -> Vec<Row> {
    vec![
        ("MQTT-1.5.5-1", "a length in its shortest form", bad(&[0xC0, 0x80, 0], 0x81)),
        ("MQTT-1.5.5-1", "so in properties", bad(&packet(0x30, &[&text("t"), &[0x80, 0]]), 0x81)),
        ("MQTT-2.1.3-1", "reserved bits: PINGREQ", bad(&[0xC1, 0], 0x81)),
        ("MQTT-3.6.1-1", "reserved bits: PUBREL", bad(&ack(0x60, 1), 0x81)),
        ("MQTT-3.8.1-1", "reserved bits: SUBSCRIBE", bad(&packet(0x80, &[&[0, 1, 0], &text("t"), &[0]]), 0x81)),
        ("MQTT-3.10.1-1", "reserved bits: UNSUBSCRIBE", bad(&packet(0xA0, &[&[0, 1, 0], &text("t")]), 0x81)),
        ("MQTT-3.14.1-1", "reserved bits: DISCONNECT", bad(&[0xE1, 0], 0x81)),
        ("MQTT-3.15.1-1", "reserved bits: AUTH", bad(&[0xF1, 0], 0x81)),
        ("MQTT-3.3.1-2", "no duplicate at QoS 0", bad(&publish(8, "t", 0, Some(&[]), b""), 0x81)),
        ("MQTT-3.3.1-4", "no QoS 3", bad(&publish(6, "t", 1, Some(&[]), b""), 0x81)),
        ("MQTT-3.8.3-5", "reserved bits of the options", bad(&subscribe(1, Some(&[]), "t", 0x40), 0x81)),
        ("3.8.3.1", "retain handling 3", bad(&subscribe(1, Some(&[]), "t", 0x30), 0x82)),
        ("MQTT-3.8.3-4", "no local on a shared subscription", bad(&subscribe(1, Some(&[]), "$share/g/t", 4), 0x82)),
    ]
}

fn fields() -> Vec<Row> {
    vec![
        ("MQTT-1.5.4-1", "a topic is UTF-8", bad(&packet(0x30, &[&[0, 3, 0xED, 0xA0, 0x80], &[0]]), 0x81)),
        ("MQTT-1.5.4-2", "without U+0000", bad(&packet(0x30, &[&[0, 1, 0], &[0]]), 0x81)),
        ("MQTT-2.2.1-3", "a packet identifier is not 0", bad(&packet(0x82, &[&[0, 0], &[0], &text("a"), &[0]]), 0x82)),
        ("MQTT-3.3.2-2", "a topic name has no wildcard", bad(&publish(0, "#", 0, Some(&[]), b""), 0x90)),
        ("MQTT-4.7.3-1", "a topic name is not empty", bad(&publish(0, "", 0, Some(&[]), b""), 0x90)),
        ("MQTT-3.8.3-1", "a filter is UTF-8", bad(&packet(0x82, &[&[0, 1, 0], &[0, 1, 0xFF], &[0]]), 0x81)),
        ("MQTT-3.8.3-2", "a SUBSCRIBE has a filter", bad(&packet(0x82, &[&[0, 1, 0]]), 0x82)),
        ("MQTT-3.10.3-1", "a filter is UTF-8", bad(&packet(0xA2, &[&[0, 1, 0], &[0, 1, 0xFF]]), 0x81)),
        ("MQTT-3.10.3-2", "an UNSUBSCRIBE has a filter", bad(&packet(0xA2, &[&[0, 1, 0]]), 0x82)),
        ("3.14.2.2.2", "a session that was to end cannot be kept at the end", bad(&packet(0xE0, &[&[0, 5, 17, 0, 0, 0, 9]]), 0x82)),
    ]
}

fn properties() -> Vec<Row> {
    let of_publish = |bytes: &[u8], reason| bad(&message(bytes, b""), reason);
    vec![
        ("MQTT-1.5.7-1", "a user property's name is UTF-8", of_publish(&[38, 0, 1, 0xFF, 0, 1, b'v'], 0x81)),
        ("MQTT-1.5.7-1", "and its value", of_publish(&[38, 0, 1, b'k', 0, 1, 0xFF], 0x81)),
        ("MQTT-3.3.2-8", "topic alias 0", of_publish(&[35, 0, 0], 0x94)),
        ("MQTT-3.3.2-9", "a topic alias above the maximum", of_publish(&[35, 0, 33], 0x94)),
        ("3.3.2.3.4", "an alias that was not set", bad(&publish(0, "", 0, Some(&[35, 0, 1]), b""), 0x82)),
        ("MQTT-3.3.4-6", "no subscription identifier from a client", of_publish(&[11, 1], 0x81)),
        ("MQTT-3.3.2-13", "a response topic is UTF-8", of_publish(&[8, 0, 1, 0xFF], 0x81)),
        ("MQTT-3.3.2-14", "and has no wildcard", of_publish(&[8, 0, 1, b'#'], 0x90)),
        ("MQTT-3.3.2-19", "a content type is UTF-8", of_publish(&[3, 0, 1, 0xFF], 0x81)),
        ("3.3.2.3.2", "a payload format is 0 or 1", of_publish(&[1, 2], 0x82)),
        ("3.8.2.1.2", "subscription identifier 0", bad(&subscribe(1, Some(&[11, 0]), "t", 0), 0x82)),
    ]
}
