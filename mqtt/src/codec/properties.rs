//! MQTT 5 properties (section 2.2.2): which packets may have them, at most once each, and their ranges.

use bytes::{Bytes, BytesMut};

use super::read::Reader;
use crate::{
    reason::{Fault, Reason},
    topic,
};

/// Property identifiers.
pub(super) mod id {
    pub(crate) const PAYLOAD_FORMAT: u8 = 1;
    pub(crate) const MESSAGE_EXPIRY: u8 = 2;
    pub(crate) const CONTENT_TYPE: u8 = 3;
    pub(crate) const RESPONSE_TOPIC: u8 = 8;
    pub(crate) const CORRELATION_DATA: u8 = 9;
    pub(crate) const SUBSCRIPTION_ID: u8 = 11;
    pub(crate) const SESSION_EXPIRY: u8 = 17;
    pub(crate) const ASSIGNED_CLIENT_ID: u8 = 18;
    pub(crate) const SERVER_KEEP_ALIVE: u8 = 19;
    pub(crate) const AUTH_METHOD: u8 = 21;
    pub(crate) const AUTH_DATA: u8 = 22;
    pub(crate) const REQUEST_PROBLEM: u8 = 23;
    pub(crate) const WILL_DELAY: u8 = 24;
    pub(crate) const REQUEST_RESPONSE: u8 = 25;
    pub(crate) const REASON_STRING: u8 = 31;
    pub(crate) const RECEIVE_MAXIMUM: u8 = 33;
    pub(crate) const ALIAS_MAXIMUM: u8 = 34;
    pub(crate) const ALIAS: u8 = 35;
    pub(crate) const USER: u8 = 38;
    pub(crate) const MAXIMUM_PACKET: u8 = 39;
}

const fn set(ids: &[u8]) -> u64 {
    let (mut mask, mut position) = (0, 0);
    while position < ids.len() {
        mask |= 1 << ids[position];
        position += 1;
    }
    mask
}

/// The application's properties, which are forwarded to subscribers unchanged.
const FORWARDED: u64 = set(&[
    id::PAYLOAD_FORMAT,
    id::CONTENT_TYPE,
    id::RESPONSE_TOPIC,
    id::CORRELATION_DATA,
    id::USER,
]);
pub(super) const PUBLISH: u64 = FORWARDED | set(&[id::MESSAGE_EXPIRY, id::ALIAS]);
pub(super) const WILL: u64 = FORWARDED | set(&[id::MESSAGE_EXPIRY, id::WILL_DELAY]);
pub(super) const CONNECT: u64 = set(&[
    id::SESSION_EXPIRY,
    id::AUTH_METHOD,
    id::AUTH_DATA,
    id::REQUEST_PROBLEM,
    id::REQUEST_RESPONSE,
    id::RECEIVE_MAXIMUM,
    id::ALIAS_MAXIMUM,
    id::USER,
    id::MAXIMUM_PACKET,
]);
pub(super) const ACK: u64 = set(&[id::REASON_STRING, id::USER]);
pub(super) const SUBSCRIBE: u64 = set(&[id::SUBSCRIPTION_ID, id::USER]);
pub(super) const UNSUBSCRIBE: u64 = set(&[id::USER]);
pub(super) const DISCONNECT: u64 = set(&[id::SESSION_EXPIRY, id::REASON_STRING, id::USER]);

/// The decoded properties. Those without an effect (reason strings, user properties outside PUBLISH) are only checked.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Properties {
    pub(super) session_expiry: Option<u32>,
    pub(super) receive_maximum: Option<u16>,
    pub(super) maximum_packet: Option<u32>,
    pub(super) alias_maximum: Option<u16>,
    pub(super) alias: Option<u16>,
    pub(super) problem_information: Option<bool>,
    pub(super) authentication: bool,
    pub(super) will_delay: Option<u32>,
    pub(super) message_expiry: Option<u32>,
    pub(super) subscription_id: Option<u32>,
    pub(super) forwarded: Bytes,
}

/// Decodes the properties of a packet that may have those in `allowed`.
pub(super) fn read(reader: &mut Reader<'_>, allowed: u64) -> Result<Properties, Fault> {
    let mut found = Properties::default();
    let length = reader.varint()?;
    if length == 0 {
        return Ok(found);
    }
    let mut inside = Reader::new(reader.take(length as usize)?);
    let mut forwarded = BytesMut::new();
    let (mut seen, repeatable) = (0_u64, set(&[id::USER]));
    while !inside.is_empty() {
        let before = inside.rest();
        let identifier = inside.varint()?;
        let bit = if identifier < 64 {
            1_u64 << identifier
        } else {
            0
        };
        if allowed & bit == 0 {
            return Err(Fault::malformed("a property that this packet cannot have"));
        }
        if seen & bit & !repeatable != 0 {
            return Err(Fault::protocol("a property twice"));
        }
        seen |= bit;
        value(&mut inside, identifier as u8, &mut found)?;
        if FORWARDED & bit != 0 && allowed & set(&[id::CONTENT_TYPE]) != 0 {
            forwarded.extend_from_slice(&before[..before.len() - inside.rest().len()]);
        }
    }
    if seen & set(&[id::AUTH_DATA]) != 0 && !found.authentication {
        return Err(Fault::protocol("authentication data without a method"));
    }
    found.forwarded = forwarded.freeze();
    Ok(found)
}

fn value(reader: &mut Reader<'_>, identifier: u8, found: &mut Properties) -> Result<(), Fault> {
    match identifier {
        id::PAYLOAD_FORMAT | id::REQUEST_RESPONSE => flag(reader).map(drop)?,
        id::REQUEST_PROBLEM => found.problem_information = Some(flag(reader)?),
        id::MESSAGE_EXPIRY => found.message_expiry = Some(reader.four()?),
        id::WILL_DELAY => found.will_delay = Some(reader.four()?),
        id::SESSION_EXPIRY => found.session_expiry = Some(reader.four()?),
        id::CONTENT_TYPE | id::REASON_STRING => drop(reader.string()?),
        id::RESPONSE_TOPIC => topic::check_name(reader.string()?)?,
        id::CORRELATION_DATA | id::AUTH_DATA => drop(reader.binary()?),
        id::AUTH_METHOD => {
            reader.string()?;
            found.authentication = true;
        }
        id::USER => {
            reader.string()?;
            reader.string()?;
        }
        id::SUBSCRIPTION_ID => {
            let number = reader.varint()?;
            found.subscription_id = Some(positive(
                number,
                Reason::ProtocolError,
                "subscription identifier 0",
            )?);
        }
        id::RECEIVE_MAXIMUM => {
            found.receive_maximum = Some(positive(
                reader.two()?,
                Reason::ProtocolError,
                "receive maximum 0",
            )?);
        }
        id::ALIAS_MAXIMUM => found.alias_maximum = Some(reader.two()?),
        id::ALIAS => {
            found.alias = Some(positive(
                reader.two()?,
                Reason::TopicAliasInvalid,
                "topic alias 0",
            )?)
        }
        id::MAXIMUM_PACKET => {
            let number = reader.four()?;
            found.maximum_packet = Some(positive(
                number,
                Reason::ProtocolError,
                "maximum packet size 0",
            )?);
        }
        _ => return Err(Fault::malformed("a property that does not exist")),
    }
    Ok(())
}

fn flag(reader: &mut Reader<'_>) -> Result<bool, Fault> {
    match reader.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Fault::protocol("a flag that is neither 0 nor 1")),
    }
}

fn positive<N: PartialEq + From<u8>>(
    number: N,
    reason: Reason,
    said: &'static str,
) -> Result<N, Fault> {
    if number == N::from(0) {
        Err(Fault::new(reason, said))
    } else {
        Ok(number)
    }
}
