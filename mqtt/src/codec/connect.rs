//! CONNECT (section 3.1).

use std::sync::Arc;

use bytes::Bytes;

use super::{
    Version,
    properties::{self, Properties},
    read::Reader,
};
use crate::{
    message::{Message, QoS},
    reason::{Fault, Reason},
    topic,
};

/// A CONNECT, the first packet of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Connect {
    pub(crate) version: Version,
    /// Whether the client speaks MQTT 3.1, whose packets are those of 3.1.1. Its CONNACK does not say whether there was a session.
    pub(crate) is_31: bool,
    /// Clean session (3.1.1) or clean start (5).
    pub(crate) clean: bool,
    /// The keep-alive, seconds; 0 means none.
    pub(crate) keep_alive: u16,
    /// The client identifier; if empty, the broker assigns one.
    pub(crate) client: Arc<str>,
    pub(crate) will: Option<Will>,
    pub(crate) user: Option<Arc<str>>,
    pub(crate) password: Option<Bytes>,
    /// The session expiry, seconds; `u32::MAX` means never. For 3.1.1 it is 0 or never.
    pub(crate) session_expiry: u32,
    /// The number of messages above QoS 0 that the client accepts unacknowledged.
    pub(crate) receive_maximum: u16,
    /// The largest packet that the client accepts, bytes.
    pub(crate) maximum_packet: u32,
    /// The highest topic alias that the client accepts.
    pub(crate) alias_maximum: u16,
    /// Whether reason strings may be sent to the client.
    pub(crate) problem_information: bool,
    /// Whether the client requests enhanced authentication.
    pub(crate) authentication: bool,
}

/// The will: the message that is published when the client's connection is lost.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Will {
    pub(crate) message: Message,
    /// The message expiry, seconds from publication.
    pub(crate) expiry: Option<u32>,
    /// The delay between the loss of the connection and the publication, seconds.
    pub(crate) delay: u32,
}

impl Will {
    /// Returns the size that counts against limits.
    pub(crate) fn weight(&self) -> usize {
        self.message.weight()
    }
}

const USER: u8 = 0x80;
const PASSWORD: u8 = 0x40;
const WILL_RETAIN: u8 = 0x20;
const WILL_QOS: u8 = 0x18;
const WILL: u8 = 0x04;
const CLEAN: u8 = 0x02;
const RESERVED: u8 = 0x01;

/// Decodes the body of a CONNECT.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Connect, Fault> {
    let (version, is_31) = version(reader)?;
    let flags = reader.byte()?;
    check_flags(version, flags)?;
    let keep_alive = reader.two()?;
    let said = match version {
        Version::V5 => properties::read(reader, properties::CONNECT)?,
        Version::V311 => Properties::default(),
    };
    let client: Arc<str> = reader.string()?.into();
    if is_31 && client.is_empty() {
        return Err(Fault::new(
            Reason::ClientIdentifierNotValid,
            "MQTT 3.1 has no empty client identifier",
        ));
    }
    let will = if flags & WILL == 0 {
        None
    } else {
        Some(read_will(reader, version, flags)?)
    };
    let user = if flags & USER == 0 {
        None
    } else {
        Some(reader.string()?.into())
    };
    let password = if flags & PASSWORD == 0 {
        None
    } else {
        Some(Bytes::copy_from_slice(reader.binary()?))
    };
    reader.end()?;
    let clean = flags & CLEAN != 0;
    let lasting = if clean { 0 } else { u32::MAX };
    Ok(Connect {
        version,
        is_31,
        clean,
        keep_alive,
        client,
        will,
        user,
        password,
        session_expiry: if version == Version::V5 {
            said.session_expiry.unwrap_or(0)
        } else {
            lasting
        },
        receive_maximum: said.receive_maximum.unwrap_or(u16::MAX),
        maximum_packet: said.maximum_packet.unwrap_or(u32::MAX),
        alias_maximum: said.alias_maximum.unwrap_or(0),
        problem_information: said.problem_information.unwrap_or(true),
        authentication: said.authentication,
    })
}

/// Returns the version, and whether it is 3.1.
fn version(reader: &mut Reader<'_>) -> Result<(Version, bool), Fault> {
    let name = reader.string()?;
    match (name, reader.byte()?) {
        ("MQIsdp", 3) => Ok((Version::V311, true)),
        ("MQTT", 4) => Ok((Version::V311, false)),
        ("MQTT", 5) => Ok((Version::V5, false)),
        ("MQTT" | "MQIsdp", _) => Err(Fault::new(
            Reason::UnsupportedVersion,
            "only MQTT 3.1, 3.1.1 and 5 are supported",
        )),
        _ => Err(Fault::malformed("the protocol's name is not MQTT")),
    }
}

fn check_flags(version: Version, flags: u8) -> Result<(), Fault> {
    if flags & RESERVED != 0 {
        return Err(Fault::malformed("the reserved connect flag is set"));
    }
    if flags & WILL == 0 && flags & (WILL_QOS | WILL_RETAIN) != 0 {
        return Err(Fault::malformed("will flags without a will"));
    }
    if flags & WILL_QOS == WILL_QOS {
        return Err(Fault::malformed("will QoS 3"));
    }
    if version == Version::V311 && flags & PASSWORD != 0 && flags & USER == 0 {
        return Err(Fault::malformed("a password without a user name"));
    }
    Ok(())
}

fn read_will(reader: &mut Reader<'_>, version: Version, flags: u8) -> Result<Will, Fault> {
    let said = match version {
        Version::V5 => properties::read(reader, properties::WILL)?,
        Version::V311 => Properties::default(),
    };
    let name = reader.string()?;
    topic::check_name(name)?;
    let payload = Bytes::copy_from_slice(reader.binary()?);
    let qos = QoS::from_number((flags & WILL_QOS) >> 3).unwrap_or(QoS::AtMostOnce);
    let mut message = Message::new(name.into(), payload, qos, flags & WILL_RETAIN != 0);
    message.properties = said.forwarded;
    Ok(Will {
        message,
        expiry: said.message_expiry,
        delay: said.will_delay.unwrap_or(0),
    })
}
