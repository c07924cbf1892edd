//! Codec for MQTT 3.1, 3.1.1 and 5 packets: those that a server reads ([`decode()`]) and those that it writes ([`encode`]).
//!
//! It was written for this broker because client codecs are lenient where a server must refuse: reserved bits, repeated properties, U+0000
//! in strings, lengths that are not in their shortest form, and sizes before anything is allocated.

mod connect;
mod decode;
pub(crate) mod encode;
mod properties;
mod read;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;

pub(crate) use self::{
    connect::{Connect, Will},
    decode::decode,
};
use crate::message::{KEPT, Message, QoS};

/// The MQTT version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// MQTT 3.1.1, protocol level 4, and 3.1, level 3, with the same packets.
    V311,
    /// MQTT 5, protocol level 5.
    V5,
}

/// A packet that a client may send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Packet {
    /// CONNECT, the first packet.
    Connect(Box<Connect>),
    /// PUBLISH, a message.
    Publish(Publish),
    /// PUBACK: acknowledges a QoS 1 message, or refuses it if `refused`.
    PubAck(Ack),
    /// PUBREC: the first answer to a QoS 2 message.
    PubRec(Ack),
    /// PUBREL: the second step of a QoS 2 exchange.
    PubRel(Ack),
    /// PUBCOMP: the end of a QoS 2 exchange.
    PubComp(Ack),
    /// SUBSCRIBE.
    Subscribe(Subscribe),
    /// UNSUBSCRIBE.
    Unsubscribe(Unsubscribe),
    /// PINGREQ.
    PingReq,
    /// DISCONNECT.
    Disconnect(Disconnect),
    /// AUTH: enhanced authentication, which is not supported.
    Auth,
}

impl Packet {
    /// Returns the size that counts against limits while the packet waits, as in [`Message::weight`].
    pub(crate) fn weight(&self) -> usize {
        let says = match self {
            Self::Publish(publish) => {
                publish.topic.len() + publish.payload.len() + publish.properties.len()
            }
            Self::Subscribe(subscribe) => subscribe
                .filters
                .iter()
                .map(|(filter, _)| filter.len() + KEPT)
                .sum(),
            Self::Unsubscribe(unsubscribe) => unsubscribe
                .filters
                .iter()
                .map(|filter| filter.len() + KEPT)
                .sum(),
            Self::Connect(_)
            | Self::PubAck(_)
            | Self::PubRec(_)
            | Self::PubRel(_)
            | Self::PubComp(_)
            | Self::PingReq
            | Self::Disconnect(_)
            | Self::Auth => 0,
        };
        says + KEPT
    }
}

impl Publish {
    /// Returns the message of this PUBLISH on `topic`, received at `now` (milliseconds since 1970).
    pub(crate) fn message(&self, topic: Arc<str>, now: u64) -> Message {
        Message {
            topic,
            payload: self.payload.clone(),
            qos: self.qos,
            retain: self.retain,
            properties: self.properties.clone(),
            expires: self.expiry.map(|seconds| now + u64::from(seconds) * 1000),
        }
    }
}

/// A PUBLISH packet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Publish {
    pub(crate) duplicate: bool,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// The packet identifier; 0 at QoS 0.
    pub(crate) id: u16,
    /// The topic; empty if `alias` stands for it.
    pub(crate) topic: Arc<str>,
    pub(crate) payload: Bytes,
    pub(crate) alias: Option<u16>,
    /// The message expiry, seconds.
    pub(crate) expiry: Option<u32>,
    /// The properties to forward, encoded.
    pub(crate) properties: Bytes,
}

/// A PUBACK, PUBREC, PUBREL or PUBCOMP packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ack {
    pub(crate) id: u16,
    /// Whether its reason code is 0x80 or above.
    pub(crate) refused: bool,
}

/// A SUBSCRIBE packet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Subscribe {
    pub(crate) id: u16,
    pub(crate) filters: Vec<(Arc<str>, Options)>,
    pub(crate) subscription_id: Option<u32>,
}

/// The options of one subscription (MQTT 5, section 3.8.3.1); 3.1.1 has only the QoS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) qos: QoS,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    pub(crate) retained: RetainHandling,
}

/// When retained messages are sent to a new subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetainHandling {
    /// At every SUBSCRIBE.
    Always,
    /// Only if the subscription did not exist.
    IfNew,
    /// Never.
    Never,
}

/// An UNSUBSCRIBE packet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unsubscribe {
    pub(crate) id: u16,
    pub(crate) filters: Vec<Arc<str>>,
}

/// A DISCONNECT packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Disconnect {
    /// Whether the will is discarded, because the reason code is 0x00.
    pub(crate) normal: bool,
    /// A new session expiry, seconds.
    pub(crate) session_expiry: Option<u32>,
}
