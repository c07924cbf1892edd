//! MQTT 3.1.1 and 5 packets, to and from bytes: what a server reads ([`decode()`]) and what it writes ([`encode`]).
//!
//! Written for this broker because a client's codec is lenient where a server must refuse: reserved bits, repeated
//! properties, U+0000 in strings, lengths not in their shortest form, sizes before anything is allocated.

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

/// Which MQTT a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// 3.1.1, protocol level 4.
    V311,
    /// 5, protocol level 5.
    V5,
}

/// A packet that a client may send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Packet {
    /// The first.
    Connect(Box<Connect>),
    /// A message.
    Publish(Publish),
    /// QoS 1 answered, or QoS 2 refused where `refused`.
    PubAck(Ack),
    /// QoS 2, first answer.
    PubRec(Ack),
    /// QoS 2, second step.
    PubRel(Ack),
    /// QoS 2, done.
    PubComp(Ack),
    /// Subscriptions asked for.
    Subscribe(Subscribe),
    /// Subscriptions given up.
    Unsubscribe(Unsubscribe),
    /// Sign of life.
    PingReq,
    /// An orderly end.
    Disconnect(Disconnect),
    /// Enhanced authentication, which is not offered.
    Auth,
}

impl Packet {
    /// What it counts against bounds while it waits, as [`Message::weight`] does.
    pub(crate) fn weight(&self) -> usize {
        let says = match self {
            Self::Publish(publish) => publish.topic.len() + publish.payload.len() + publish.properties.len(),
            Self::Subscribe(subscribe) => {
                subscribe.filters.iter().map(|(filter, _)| filter.len() + KEPT).sum()
            }
            Self::Unsubscribe(unsubscribe) => {
                unsubscribe.filters.iter().map(|filter| filter.len() + KEPT).sum()
            }
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
    /// The message that it carries on `topic`, taken at `now` (milliseconds since 1970).
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

/// PUBLISH.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Publish {
    pub(crate) duplicate: bool,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// 0 at QoS 0.
    pub(crate) id: u16,
    /// Empty where `alias` says it.
    pub(crate) topic: Arc<str>,
    pub(crate) payload: Bytes,
    pub(crate) alias: Option<u16>,
    /// Message expiry, seconds.
    pub(crate) expiry: Option<u32>,
    /// Properties that are forwarded, encoded.
    pub(crate) properties: Bytes,
}

/// PUBACK, PUBREC, PUBREL and PUBCOMP.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ack {
    pub(crate) id: u16,
    /// Whether its reason code is 0x80 or above.
    pub(crate) refused: bool,
}

/// SUBSCRIBE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Subscribe {
    pub(crate) id: u16,
    pub(crate) filters: Vec<(Arc<str>, Options)>,
    pub(crate) subscription_id: Option<u32>,
}

/// The options of one subscription (MQTT 5, section 3.8.3.1); 3.1.1 has the QoS alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) qos: QoS,
    pub(crate) no_local: bool,
    pub(crate) retain_as_published: bool,
    pub(crate) retained: RetainHandling,
}

/// Whether retained messages are sent upon subscribing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetainHandling {
    /// Each time.
    Always,
    /// Only if the subscription is new.
    IfNew,
    /// Never.
    Never,
}

/// UNSUBSCRIBE.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unsubscribe {
    pub(crate) id: u16,
    pub(crate) filters: Vec<Arc<str>>,
}

/// DISCONNECT.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Disconnect {
    /// Whether the will is dropped: the reason code was 0x00.
    pub(crate) normal: bool,
    /// A new session expiry, seconds.
    pub(crate) session_expiry: Option<u32>,
}
