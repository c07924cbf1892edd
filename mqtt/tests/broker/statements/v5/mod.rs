//! MQTT 5.

mod connecting;
mod delivering;
mod exchanges;
mod malformed;
mod publishing;
mod sessions;
mod shared;
mod sizes;
mod subscribing;
mod wills;

use super::{A, B, Row, Step, Step::*};
use crate::bytes::{clean5, connect5, packet, publish, text};

pub(super) fn table() -> Vec<Row> {
    let mut rows = connecting::rows();
    rows.extend(malformed::rows());
    rows.extend(sizes::rows());
    rows.extend(sessions::rows());
    rows.extend(exchanges::rows());
    rows.extend(publishing::rows());
    rows.extend(delivering::rows());
    rows.extend(subscribing::rows());
    rows.extend(shared::rows());
    rows.extend(wills::rows());
    rows
}

/// Returns the CONNACK with this broker's default limits: receive maximum, maximum packet size, topic alias maximum.
fn connack(present: u8) -> Vec<u8> {
    packet(0x20, &[&[present, 0, 11, 0x21, 1, 0, 0x27, 0, 0x10, 0, 0, 0x22, 0, 32]])
}

/// Returns a CONNACK with a reason and any reason string; no session is present.
fn refusal(reason: u8) -> Vec<u8> {
    vec![0x20, 0, 0, reason]
}

/// Returns a DISCONNECT with a reason and any reason string.
fn disconnect(reason: u8) -> Vec<u8> {
    vec![0xE0, 0, reason]
}

/// Returns a DISCONNECT with a reason and without a reason string.
fn told_without_text(reason: u8) -> Vec<u8> {
    vec![0xE0, 2, reason, 0]
}

fn suback(id: u8, code: u8) -> Vec<u8> {
    vec![0x90, 4, 0, id, 0, code]
}

/// Returns a PUBACK (0x40), PUBREC (0x50), PUBREL (0x62) or PUBCOMP (0x70) with a reason.
fn reason(first: u8, id: u8, reason: u8) -> Vec<u8> {
    packet(first, &[&[0, id, reason]])
}

/// Returns a PUBLISH to `t` at QoS 0.
fn message(properties: &[u8], payload: &[u8]) -> Vec<u8> {
    publish(0, "t", 0, Some(properties), payload)
}

/// Returns an UNSUBSCRIBE of these filters.
fn unsubscribe(id: u8, filters: &[&str]) -> Vec<u8> {
    let filters: Vec<u8> = filters.iter().flat_map(|filter| text(filter)).collect();
    packet(0xA2, &[&[0, id, 0], &filters])
}

/// Returns the CONNECT of a client whose session is kept for `seconds` after its connection; `clean` is 2 for a clean start.
fn keeping(client: &str, clean: u8, seconds: u8) -> Vec<u8> {
    connect5(clean, &[17, 0, 0, 0, seconds], &[&text(client)])
}

/// Connects A with a clean start before the steps.
fn with_a(steps: Vec<Step>) -> Vec<Step> {
    let mut all = vec![Send(A, clean5("a")), Gets(A, connack(0))];
    all.extend(steps);
    all
}

/// Connects A and B with a clean start before the steps.
fn with_both(steps: Vec<Step>) -> Vec<Step> {
    let mut all = with_a(vec![Send(B, clean5("b")), Gets(B, connack(0))]);
    all.extend(steps);
    all
}
