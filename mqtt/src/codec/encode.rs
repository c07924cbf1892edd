//! Encodes the packets that a server sends.

use bytes::{BufMut, BytesMut};

use super::{Version, properties::id, read::VARINT_MAX};
use crate::{
    message::{Message, QoS},
    reason::Reason,
};

/// The properties of CONNACK, which 3.1.1 does not have.
#[derive(Debug, Default, Clone)]
pub(crate) struct ConnAckProperties {
    pub(crate) session_expiry: Option<u32>,
    pub(crate) receive_maximum: Option<u16>,
    pub(crate) maximum_packet: Option<u32>,
    pub(crate) alias_maximum: u16,
    pub(crate) assigned_client: Option<String>,
    pub(crate) keep_alive: Option<u16>,
}

/// One PUBLISH as it is sent to one subscriber.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing<'a> {
    pub(crate) message: &'a Message,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) duplicate: bool,
    /// The packet identifier; 0 at QoS 0.
    pub(crate) id: u16,
    pub(crate) subscription_ids: &'a [u32],
    /// The topic alias, and whether the subscriber knows it already.
    pub(crate) alias: Option<(u16, bool)>,
    /// The current time in milliseconds since 1970, from which the remaining expiry is computed.
    pub(crate) now: u64,
}

/// The kinds of acknowledgements, with their first byte: PUBACK, PUBREC, PUBREL and PUBCOMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum AckKind {
    Ack = 0x40,
    Rec = 0x50,
    Rel = 0x62,
    Comp = 0x70,
}

/// Returns the size of a variable byte integer, bytes.
fn varint_size(value: usize) -> usize {
    match value {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        0x4000..=0x1F_FFFF => 3,
        _ => 4,
    }
}

fn put_varint(out: &mut BytesMut, mut value: usize) {
    while value > 0x7F {
        out.put_u8((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn put_string(out: &mut BytesMut, text: &str) {
    // Every string that is sent was read from a packet or is a constant, so its length fits into two bytes.
    let length = text.len().min(usize::from(u16::MAX));
    out.put_u16(length as u16);
    out.put_slice(&text.as_bytes()[..length]);
}

/// Appends a packet of type `first` with the body that `write` writes.
fn packet(out: &mut BytesMut, first: u8, write: impl FnOnce(&mut BytesMut)) {
    let mut body = BytesMut::new();
    write(&mut body);
    out.put_u8(first);
    put_varint(out, body.len());
    out.unsplit(body);
}

/// Appends the properties that `write` writes.
fn properties(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let mut inside = BytesMut::new();
    write(&mut inside);
    put_varint(out, inside.len());
    out.put_slice(&inside);
}

/// Appends the CONNACK of an accepted connection.
pub(crate) fn connack(
    out: &mut BytesMut,
    version: Version,
    present: bool,
    said: &ConnAckProperties,
) {
    packet(out, 0x20, |body| {
        body.put_slice(&[u8::from(present), 0]);
        if version == Version::V5 {
            properties(body, |inside| connack_properties(inside, said));
        }
    });
}

fn connack_properties(out: &mut BytesMut, said: &ConnAckProperties) {
    if let Some(seconds) = said.session_expiry {
        out.put_u8(id::SESSION_EXPIRY);
        out.put_u32(seconds);
    }
    if let Some(count) = said.receive_maximum {
        out.put_u8(id::RECEIVE_MAXIMUM);
        out.put_u16(count);
    }
    if let Some(bytes) = said.maximum_packet {
        out.put_u8(id::MAXIMUM_PACKET);
        out.put_u32(bytes);
    }
    if let Some(client) = &said.assigned_client {
        out.put_u8(id::ASSIGNED_CLIENT_ID);
        put_string(out, client);
    }
    if said.alias_maximum > 0 {
        out.put_u8(id::ALIAS_MAXIMUM);
        out.put_u16(said.alias_maximum);
    }
    if let Some(seconds) = said.keep_alive {
        out.put_u8(id::SERVER_KEEP_ALIVE);
        out.put_u16(seconds);
    }
}

/// Appends the CONNACK of a refused connection, or nothing if 3.1.1 has no code for the reason. For `said` and `limit` see [`last_packet`].
pub(crate) fn connack_refused(
    out: &mut BytesMut,
    version: Version,
    reason: Reason,
    said: &str,
    limit: usize,
) {
    match version {
        Version::V5 => last_packet(out, 0x20, &[0, reason.code()], said, limit),
        Version::V311 => {
            if let Some(code) = reason.connect_code_311() {
                out.put_slice(&[0x20, 2, 0, code]);
            }
        }
    }
}

/// Appends a PUBLISH. Returns false, and appends nothing, if it would be larger than `limit` bytes.
pub(crate) fn publish(
    out: &mut BytesMut,
    version: Version,
    outgoing: &Outgoing<'_>,
    limit: usize,
) -> bool {
    let message = outgoing.message;
    let known = matches!(outgoing.alias, Some((_, true)));
    let topic = if known { "" } else { &message.topic };
    let id_size = if outgoing.qos == QoS::AtMostOnce {
        0
    } else {
        2
    };
    let expiry = message.seconds_left(outgoing.now);
    let inside = publish_properties_size(outgoing, expiry.is_some());
    let properties_size = if version == Version::V5 {
        varint_size(inside) + inside
    } else {
        0
    };
    let length = 2 + topic.len() + id_size + properties_size + message.payload.len();
    if length > VARINT_MAX as usize || 1 + varint_size(length) + length > limit {
        return false;
    }
    out.reserve(5 + length);
    let flags =
        u8::from(outgoing.duplicate) << 3 | (outgoing.qos as u8) << 1 | u8::from(outgoing.retain);
    out.put_u8(0x30 | flags);
    put_varint(out, length);
    put_string(out, topic);
    if id_size > 0 {
        out.put_u16(outgoing.id);
    }
    if version == Version::V5 {
        put_varint(out, inside);
        if let Some(seconds) = expiry {
            out.put_u8(id::MESSAGE_EXPIRY);
            out.put_u32(seconds);
        }
        if let Some((alias, _)) = outgoing.alias {
            out.put_u8(id::ALIAS);
            out.put_u16(alias);
        }
        out.put_slice(&message.properties);
        for number in outgoing.subscription_ids {
            out.put_u8(id::SUBSCRIPTION_ID);
            put_varint(out, *number as usize);
        }
    }
    out.put_slice(&message.payload);
    true
}

fn publish_properties_size(outgoing: &Outgoing<'_>, expires: bool) -> usize {
    let ids: usize = outgoing
        .subscription_ids
        .iter()
        .map(|number| 1 + varint_size(*number as usize))
        .sum();
    let alias = if outgoing.alias.is_some() { 3 } else { 0 };
    let expiry = if expires { 5 } else { 0 };
    ids + alias + expiry + outgoing.message.properties.len()
}

/// Appends a PUBACK, PUBREC, PUBREL or PUBCOMP.
pub(crate) fn ack(out: &mut BytesMut, version: Version, kind: AckKind, id: u16, reason: Reason) {
    if version == Version::V5 && reason != Reason::Success {
        out.put_slice(&[kind as u8, 3]);
        out.put_u16(id);
        out.put_u8(reason.code());
    } else {
        out.put_slice(&[kind as u8, 2]);
        out.put_u16(id);
    }
}

/// Appends a SUBACK with one code for each filter.
pub(crate) fn suback(out: &mut BytesMut, version: Version, id: u16, codes: &[u8]) {
    acknowledge(out, 0x90, version, id, codes);
}

/// Appends an UNSUBACK; in 3.1.1 it has no codes.
pub(crate) fn unsuback(out: &mut BytesMut, version: Version, id: u16, codes: &[u8]) {
    acknowledge(
        out,
        0xB0,
        version,
        id,
        if version == Version::V5 { codes } else { &[] },
    );
}

/// Returns the size of an MQTT 5 SUBACK or UNSUBACK for this number of filters.
pub(crate) fn acknowledgement_size(filters: usize) -> usize {
    // packet identifier, empty properties, one code per filter
    let length = 2 + 1 + filters;
    1 + varint_size(length) + length
}

fn acknowledge(out: &mut BytesMut, first: u8, version: Version, id: u16, codes: &[u8]) {
    packet(out, first, |body| {
        body.put_u16(id);
        if version == Version::V5 {
            body.put_u8(0);
        }
        body.put_slice(codes);
    });
}

/// Appends a PINGRESP.
pub(crate) fn pingresp(out: &mut BytesMut) {
    out.put_slice(&[0xD0, 0]);
}

/// Appends a DISCONNECT; a 3.1.1 server has none and only closes. For `said` and `limit` see [`last_packet`].
pub(crate) fn disconnect(
    out: &mut BytesMut,
    version: Version,
    reason: Reason,
    said: &str,
    limit: usize,
) {
    if version == Version::V5 {
        last_packet(out, 0xE0, &[reason.code()], said, limit);
    }
}

/// Appends the packet that ends a connection. The reason string `said` is left out if it is empty or the packet would exceed `limit` bytes
/// with it. Nothing is appended if the packet is too large even without it.
fn last_packet(out: &mut BytesMut, first: u8, start: &[u8], said: &str, limit: usize) {
    for said in [said, ""] {
        let mut whole = BytesMut::new();
        packet(&mut whole, first, |body| {
            body.put_slice(start);
            properties(body, |inside| {
                if !said.is_empty() {
                    inside.put_u8(id::REASON_STRING);
                    put_string(inside, said);
                }
            });
        });
        if whole.len() <= limit {
            return out.put_slice(&whole);
        }
    }
}
