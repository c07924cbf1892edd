//! Decodes packets: the fixed header (section 2.1) with its size limit, then the body.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};

use super::{
    Ack, Disconnect, Options, Packet, Publish, RetainHandling, Subscribe, Unsubscribe, Version,
    connect,
    properties::{self, Properties},
    read::Reader,
};
use crate::{
    message::QoS,
    reason::{Fault, Reason},
    topic,
};

/// The most filters in one SUBSCRIBE or UNSUBSCRIBE; a packet of 1 MiB could hold a quarter of a million.
const MAX_FILTERS: usize = 1024;

/// Decodes and removes the next packet of `buffer`; returns `None` until it is complete. `version` is `None` before CONNECT.
///
/// A packet of more than `limit` bytes is refused as soon as its header is read: no memory is reserved for it.
pub(crate) fn decode(
    buffer: &mut BytesMut,
    limit: usize,
    version: Option<Version>,
) -> Result<Option<Packet>, Fault> {
    let Some((header, length)) = frame(buffer, version)? else {
        return Ok(None);
    };
    let first = buffer[0];
    if version.is_none() && first != 0x10 {
        return Err(Fault::protocol("the first packet is not CONNECT"));
    }
    if header + length > limit {
        return Err(Fault::new(
            Reason::PacketTooLarge,
            "larger than the maximum packet size",
        ));
    }
    if buffer.len() < header + length {
        return Ok(None);
    }
    let packet = body(first, &buffer[header..header + length], version)?;
    buffer.advance(header + length);
    Ok(Some(packet))
}

/// Returns the lengths of the fixed header and of the rest of the packet.
fn frame(buffer: &[u8], version: Option<Version>) -> Result<Option<(usize, usize)>, Fault> {
    let mut length = 0;
    for (position, byte) in buffer.iter().skip(1).take(4).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * position);
        if byte & 0x80 == 0 {
            // 3.1.1 does not require the shortest form, and some clients pad.
            if version == Some(Version::V5) && position > 0 && *byte == 0 {
                return Err(Fault::malformed("a length longer than it need be"));
            }
            return Ok(Some((position + 2, length)));
        }
    }
    if buffer.len() > 4 {
        Err(Fault::malformed("a length of more than four bytes"))
    } else {
        Ok(None)
    }
}

fn body(first: u8, bytes: &[u8], version: Option<Version>) -> Result<Packet, Fault> {
    let (kind, flags) = (first >> 4, first & 0x0F);
    let expected = if matches!(kind, 6 | 8 | 10) { 2 } else { 0 };
    if kind != 3 && flags != expected {
        return Err(Fault::malformed("reserved bits of the fixed header"));
    }
    let mut reader = Reader::new(bytes);
    let Some(version) = version else {
        return connect::read(&mut reader).map(|connect| Packet::Connect(Box::new(connect)));
    };
    let packet = match kind {
        3 => return publish(reader, flags, version).map(Packet::Publish),
        4 => Packet::PubAck(ack(&mut reader, version)?),
        5 => Packet::PubRec(ack(&mut reader, version)?),
        6 => Packet::PubRel(ack(&mut reader, version)?),
        7 => Packet::PubComp(ack(&mut reader, version)?),
        8 => Packet::Subscribe(subscribe(&mut reader, version)?),
        10 => Packet::Unsubscribe(unsubscribe(&mut reader, version)?),
        12 => Packet::PingReq,
        14 => Packet::Disconnect(disconnect(&mut reader, version)?),
        15 if version == Version::V5 => return Ok(Packet::Auth),
        1 => return Err(Fault::protocol("a second CONNECT")),
        2 | 9 | 11 | 13 => return Err(Fault::protocol("a packet that only a server sends")),
        _ => return Err(Fault::malformed("a packet type that does not exist")),
    };
    reader.end()?;
    Ok(packet)
}

fn read_properties(
    reader: &mut Reader<'_>,
    version: Version,
    allowed: u64,
) -> Result<Properties, Fault> {
    match version {
        Version::V5 => properties::read(reader, allowed),
        Version::V311 => Ok(Properties::default()),
    }
}

fn publish(mut reader: Reader<'_>, flags: u8, version: Version) -> Result<Publish, Fault> {
    let qos = QoS::from_number((flags >> 1) & 3).ok_or(Fault::malformed("QoS 3"))?;
    let duplicate = flags & 8 != 0;
    if duplicate && qos == QoS::AtMostOnce {
        return Err(Fault::malformed("a duplicate at QoS 0"));
    }
    let name = reader.string()?;
    let id = if qos == QoS::AtMostOnce {
        0
    } else {
        reader.id()?
    };
    let said = read_properties(&mut reader, version, properties::PUBLISH)?;
    if !(name.is_empty() && said.alias.is_some()) {
        topic::check_name(name)?;
    }
    Ok(Publish {
        duplicate,
        qos,
        retain: flags & 1 != 0,
        id,
        topic: name.into(),
        payload: Bytes::copy_from_slice(reader.rest()),
        alias: said.alias,
        expiry: said.message_expiry,
        properties: said.forwarded,
    })
}

fn ack(reader: &mut Reader<'_>, version: Version) -> Result<Ack, Fault> {
    let id = reader.id()?;
    let mut refused = false;
    if version == Version::V5 && !reader.is_empty() {
        refused = reader.byte()? >= 0x80;
        if !reader.is_empty() {
            properties::read(reader, properties::ACK)?;
        }
    }
    Ok(Ack { id, refused })
}

fn subscribe(reader: &mut Reader<'_>, version: Version) -> Result<Subscribe, Fault> {
    let id = reader.id()?;
    let said = read_properties(reader, version, properties::SUBSCRIBE)?;
    let mut filters: Vec<(Arc<str>, Options)> = Vec::new();
    while !reader.is_empty() {
        let filter = filter(reader, filters.len())?;
        filters.push((filter, options(reader.byte()?, version)?));
    }
    if filters.is_empty() {
        return Err(Fault::protocol("a SUBSCRIBE without a filter"));
    }
    Ok(Subscribe {
        id,
        filters,
        subscription_id: said.subscription_id,
    })
}

fn filter(reader: &mut Reader<'_>, before: usize) -> Result<Arc<str>, Fault> {
    if before >= MAX_FILTERS {
        return Err(Fault::new(
            Reason::QuotaExceeded,
            "more than 1,024 filters in one packet",
        ));
    }
    Ok(reader.string()?.into())
}

fn options(byte: u8, version: Version) -> Result<Options, Fault> {
    let qos = QoS::from_number(byte & 3).ok_or(Fault::malformed("subscription QoS 3"))?;
    let reserved = if version == Version::V5 { 0xC0 } else { 0xFC };
    if byte & reserved != 0 {
        return Err(Fault::malformed(
            "reserved bits of the subscription options",
        ));
    }
    let retained = match (byte >> 4) & 3 {
        0 => RetainHandling::Always,
        1 => RetainHandling::IfNew,
        2 => RetainHandling::Never,
        _ => return Err(Fault::protocol("retain handling 3")),
    };
    Ok(Options {
        qos,
        no_local: byte & 4 != 0,
        retain_as_published: byte & 8 != 0,
        retained,
    })
}

fn unsubscribe(reader: &mut Reader<'_>, version: Version) -> Result<Unsubscribe, Fault> {
    let id = reader.id()?;
    read_properties(reader, version, properties::UNSUBSCRIBE)?;
    let mut filters = Vec::new();
    while !reader.is_empty() {
        filters.push(filter(reader, filters.len())?);
    }
    if filters.is_empty() {
        return Err(Fault::protocol("an UNSUBSCRIBE without a filter"));
    }
    Ok(Unsubscribe { id, filters })
}

fn disconnect(reader: &mut Reader<'_>, version: Version) -> Result<Disconnect, Fault> {
    if version == Version::V311 || reader.is_empty() {
        return Ok(Disconnect {
            normal: true,
            session_expiry: None,
        });
    }
    let normal = reader.byte()? == Reason::Success.code();
    let said = if reader.is_empty() {
        Properties::default()
    } else {
        properties::read(reader, properties::DISCONNECT)?
    };
    Ok(Disconnect {
        normal,
        session_expiry: said.session_expiry,
    })
}
