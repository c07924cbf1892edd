//! The largest packets in each direction.

use super::*;
use crate::bytes::{ack, subscribe};

/// Returns the CONNECT of a client that accepts packets of at most `most` bytes.
fn taking(most: u8, properties: &[u8]) -> Vec<u8> {
    connect5(2, &[&[39, 0, 0, 0, most], properties].concat(), &[&text("a")])
}

pub(super) fn rows() -> Vec<Row> {
    let too_large = vec![0x30, 0x80, 0x80, 0x41];
    let twelve = packet(0x82, &[&[0, 1, 0], &[&text("t")[..], &[0]].concat().repeat(12)]);
    let of_twelve = unsubscribe(1, &["t"; 12]);
    let refused_in_short = |packet| vec![Send(A, taking(16, &[])), Gets(A, connack(0)), Send(A, packet), Gets(A, told_without_text(0x95)), Closed(A)];
    let ten = [b'x'; 10];
    vec![
        ("MQTT-3.2.2-15", "a packet above the maximum is refused by its header alone", with_a(vec![
            Send(A, too_large), GetsLike(A, disconnect(0x95)), Closed(A),
        ])),
        ("MQTT-3.1.2-24", "a client that does not take CONNACK is refused", vec![
            Send(A, taking(15, &[])), Gets(A, vec![0x20, 3, 0, 0x95, 0]), Closed(A),
        ]),
        ("MQTT-3.1.2-24", "so is a SUBSCRIBE whose SUBACK it would not take", refused_in_short(twelve)),
        ("MQTT-3.1.2-24", "and an UNSUBSCRIBE", refused_in_short(of_twelve)),
        ("MQTT-3.2.2-19", "CONNACK has no reason string for which the client has no room", vec![
            Send(A, taking(16, &[21, 0, 1, b'x'])), Gets(A, vec![0x20, 3, 0, 0x8C, 0]), Closed(A),
        ]),
        ("MQTT-3.14.2-3", "nor has DISCONNECT", vec![
            Send(A, taking(16, &[])), Gets(A, connack(0)), Send(A, vec![0xF0, 0]), Gets(A, told_without_text(0x82)), Closed(A),
        ]),
        ("MQTT-3.1.2-25", "a message that a client cannot take is not sent to it, and the rest is", vec![
            Send(A, taking(20, &[])), Gets(A, connack(0)),
            Send(A, subscribe(1, Some(&[]), "t", 1)), Gets(A, suback(1, 1)),
            Send(B, clean5("b")), Gets(B, connack(0)),
            Send(B, publish(2, "t", 1, Some(&[]), &[0; 40])), Gets(B, ack(0x40, 1)),
            Send(B, message(&[], &[0; 40])), Send(B, message(&[], b"y")), Gets(A, message(&[], b"y")),
        ]),
        ("MQTT-3.1.2-25", "one that it can take without an alias only comes without", vec![
            Send(A, taking(16, &[34, 0, 1])), Gets(A, connack(0)),
            Send(A, subscribe(1, Some(&[]), "t", 0)), Gets(A, suback(1, 0)),
            Send(A, message(&[], &ten)), Gets(A, message(&[], &ten)),
            Send(A, message(&[], b"1")), Gets(A, message(&[35, 0, 1], b"1")),
            Send(A, message(&[], &ten)), Gets(A, message(&[], &ten)),
        ]),
    ]
}
