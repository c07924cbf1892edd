//! A message inside the broker, independent of the protocol version.

use std::sync::Arc;

use bytes::Bytes;

/// The overhead of a stored message that counts against limits, bytes.
pub(crate) const KEPT: usize = 128;

/// The quality of service of a message or a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// QoS 0: the message may be lost.
    AtMostOnce = 0,
    /// QoS 1: the message may arrive twice.
    AtLeastOnce = 1,
    /// QoS 2: the message arrives once.
    ExactlyOnce = 2,
}

impl QoS {
    /// Returns the level for `number`; `None` above 2.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}

/// An application message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The topic name.
    pub topic: Arc<str>,
    /// The body, arbitrary bytes.
    pub payload: Bytes,
    /// The publisher's quality of service.
    pub qos: QoS,
    /// Whether the publisher asked to retain the message, or, at a subscriber, whether it was a retained one.
    pub retain: bool,
    /// The MQTT 5 properties that are forwarded to subscribers unchanged, encoded: payload format, content type, response topic,
    /// correlation data and user properties.
    pub(crate) properties: Bytes,
    /// When the message expires, milliseconds since 1970.
    pub(crate) expires: Option<u64>,
}

impl Message {
    /// Creates a message without MQTT 5 properties.
    pub(crate) fn new(topic: Arc<str>, payload: Bytes, qos: QoS, retain: bool) -> Self {
        Self {
            topic,
            payload,
            qos,
            retain,
            properties: Bytes::new(),
            expires: None,
        }
    }

    /// Returns the size that counts against limits: the message's bytes and a fixed overhead.
    pub(crate) fn weight(&self) -> usize {
        self.topic.len() + self.payload.len() + self.properties.len() + KEPT
    }

    /// Reports whether the message has expired at `now` (milliseconds since 1970).
    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Returns the seconds until expiry at `now`, rounded up, as MQTT 5 sends them.
    pub(crate) fn seconds_left(&self, now: u64) -> Option<u32> {
        self.expires.map(|expires| {
            u32::try_from(expires.saturating_sub(now).div_ceil(1000)).unwrap_or(u32::MAX)
        })
    }
}
