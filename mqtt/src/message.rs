//! A message as the broker carries it, the same for every protocol version.

use std::sync::Arc;

use bytes::Bytes;

/// What the structures around a kept message count against bounds, bytes.
pub(crate) const KEPT: usize = 128;

/// The quality of service of a message or a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QoS {
    /// 0: may be lost.
    AtMostOnce = 0,
    /// 1: may come twice.
    AtLeastOnce = 1,
    /// 2: comes once.
    ExactlyOnce = 2,
}

impl QoS {
    /// The level for `number`; none above 2.
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
    /// The topic's name.
    pub topic: Arc<str>,
    /// The body, of any shape.
    pub payload: Bytes,
    /// The publisher's quality of service.
    pub qos: QoS,
    /// Whether the publisher asked to keep it, or, at a subscriber, whether it had been kept.
    pub retain: bool,
    /// MQTT 5's properties that go on to subscribers unaltered, encoded: payload format, content type, response topic,
    /// correlation data, user properties.
    pub(crate) properties: Bytes,
    /// When it is no longer to be delivered: milliseconds since 1970.
    pub(crate) expires: Option<u64>,
}

impl Message {
    /// A message without MQTT 5 properties.
    pub(crate) fn new(topic: Arc<str>, payload: Bytes, qos: QoS, retain: bool) -> Self {
        Self { topic, payload, qos, retain, properties: Bytes::new(), expires: None }
    }

    /// What it counts against bounds: its bytes and a fixed cost for being kept.
    pub(crate) fn weight(&self) -> usize {
        self.topic.len() + self.payload.len() + self.properties.len() + KEPT
    }

    /// Whether its time is over at `now` (milliseconds since 1970).
    pub(crate) fn expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// The seconds left at `now`, rounded up, as MQTT 5 sends them.
    pub(crate) fn seconds_left(&self, now: u64) -> Option<u32> {
        self.expires
            .map(|expires| u32::try_from(expires.saturating_sub(now).div_ceil(1000)).unwrap_or(u32::MAX))
    }
}
