//! MQTT topics of devices and nodes as types. A topic names a device by its name, or by namespace and name.
//!
//! Source: KubeEdge's `dtcommon`, `EventBus` and reference of device topics. Mappers push readings to applications on `$ke/events`.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod rules;
#[cfg(test)]
mod tests;

pub use rules::{TopicFault, check_publication, check_subscription};

/// The prefix of every device topic.
pub const DEVICE: &str = "$hw/events/device/";
/// The prefix of every node topic.
pub const NODE: &str = "$hw/events/node/";
/// The prefix of the topics on which mappers push readings to applications.
const DATA: &str = "$ke/events/device/";
const DATA_UPDATE: &str = "data/update";
const UPLOAD: &str = "$hw/events/upload/";
const UPLOAD_RECORDS: &str = "SYS/dis/upload_records";
const USER: &str = "user";

/// The longest device identifier: a namespace, a slash and an object name.
const MAX_ID: usize = 63 + 1 + 253;

/// The topic filters that `EventBus` subscribes to at a broker, besides the topics of rules. They cover devices with and without a
/// namespace. Some have a second form with a further level, for a requester's tag ([`Topic::without_tag`]).
pub const SUBSCRIPTIONS: [&str; 14] = [
    "$hw/events/upload/#",
    "$hw/events/device/+/state/update",
    "$hw/events/device/+/state/update/+",
    "$hw/events/device/+/+/state/update",
    "$hw/events/device/+/+/state/update/+",
    "$hw/events/device/+/twin/+",
    "$hw/events/device/+/+/twin/+",
    "$hw/events/node/+/membership/get",
    "$hw/events/node/+/membership/get/+",
    "$hw/events/node/+/membership/detail",
    "$hw/events/node/+/authInfo/get",
    "SYS/dis/upload_records",
    "SYS/dis/upload_records/+",
    "+/user/#",
];

/// A device identifier: `<namespace>/<name>`, or `<name>` alone if the cloud gave it no namespace. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema), schemars(transparent))]
pub struct DeviceId(#[cfg_attr(feature = "spec", schemars(with = "String"))] Arc<str>);

impl DeviceId {
    /// Parses a device identifier. Returns `None` if the text is empty or too long, has more than two levels, or has wildcards or control
    /// characters.
    pub fn parse(text: &str) -> Option<Self> {
        let mut levels = text.split('/');
        let sound = |level: &str| {
            !level.is_empty() && !level.contains(['+', '#']) && !level.contains(char::is_control)
        };
        let is_sound = levels.by_ref().take(2).all(sound) && levels.next().is_none();
        (is_sound && text.len() <= MAX_ID).then(|| Self(text.into()))
    }

    /// Creates the identifier of the device with this namespace (may be empty) and name.
    pub fn new(namespace: &str, name: &str) -> Option<Self> {
        if namespace.is_empty() {
            Self::parse(name)
        } else {
            Self::parse(&format!("{namespace}/{name}"))
        }
    }

    /// Returns the identifier as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the namespace, if there is one.
    pub fn namespace(&self) -> Option<&str> {
        self.0.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for DeviceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DeviceId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("an id is <namespace>/<name> or <name>"))
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A topic of one device.
    Device(DeviceId, DeviceTopic),
    /// A topic of one node.
    Node(String, NodeTopic),
    /// A topic that is always forwarded to the cloud: `$hw/events/upload/…`, `SYS/dis/upload_records`, `SYS/dis/upload_records/…`,
    /// `<namespace>/user/…`.
    Upload(String),
    /// Any other topic; forwarded to the cloud if a rule asks for it.
    Other(String),
}

macro_rules! suffixes {
    ($(#[$doc:meta])* $name:ident { $($(#[doc = $note:literal])+ $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[doc = $note])+ #[doc = concat!("\n\n`…/", $text, "`")] $variant,)*
        }

        impl $name {
            /// All variants, those with more levels first.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the part of the topic after the device or the node.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            /// Returns what a message on the topic does.
            pub fn summary(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($note),+).trim_ascii_start(),)*
                }
            }
        }
    };
}

suffixes! {
    /// The subject of a device topic. Longer suffixes come first, because the first match wins.
    DeviceTopic {
        /// The answer to an update: the new values, or code and reason.
        TwinUpdateResult = "twin/update/result",
        /// Each changed property before and after.
        TwinUpdateDocument = "twin/update/document",
        /// The desired values that differ from the reported ones.
        TwinUpdateDelta = "twin/update/delta",
        /// The answer to a get: the twin, or code and reason.
        TwinGetResult = "twin/get/result",
        /// The answer to an update of the state.
        StateUpdateResult = "state/update/result",
        /// The answer to a get of the state.
        StateGetResult = "state/get/result",
        /// Reported or desired values.
        TwinUpdate = "twin/update",
        /// Asks for the twin.
        TwinGet = "twin/get",
        /// The device's desired values from the cloud: published to mappers, and a resource of messages.
        TwinCloudUpdated = "twin/cloud_updated",
        /// A report to the cloud; a resource of messages that is not used over MQTT.
        TwinEdgeUpdated = "twin/edge_updated",
        /// The device's state.
        StateUpdate = "state/update",
        /// Asks for the device's state.
        StateGet = "state/get",
        /// Changed attributes of the device.
        Updated = "updated",
    }
}

suffixes! {
    /// The subject of a node topic.
    NodeTopic {
        /// The answer with all devices of the node.
        MembershipDetailResult = "membership/detail/result",
        /// The answer with the devices of the node.
        MembershipGetResult = "membership/get/result",
        /// The answer to a request for credentials.
        AuthInfoGetResult = "authInfo/get/result",
        /// Asks for all devices of the node.
        MembershipDetail = "membership/detail",
        /// Asks for the devices of the node.
        MembershipGet = "membership/get",
        /// Devices were bound to the node, or removed from it.
        MembershipUpdated = "membership/updated",
        /// Asks for credentials.
        AuthInfoGet = "authInfo/get",
    }
}

impl Topic {
    /// Parses a topic name; every name is one of these kinds.
    pub fn parse(text: &str) -> Self {
        let device = text.strip_prefix(DEVICE).and_then(|rest| {
            DeviceTopic::ALL
                .iter()
                .find_map(|topic| Some(Self::Device(before(rest, topic.as_str())?, *topic)))
        });
        let node = || {
            let rest = text.strip_prefix(NODE)?;
            NodeTopic::ALL.iter().find_map(|topic| {
                let node = rest.strip_suffix(topic.as_str())?.strip_suffix('/')?;
                let is_one = !node.is_empty() && !node.contains('/');
                is_one.then(|| Self::Node(node.to_owned(), *topic))
            })
        };
        let upload = || is_upload(text).then(|| Self::Upload(text.to_owned()));
        device
            .or_else(node)
            .or_else(upload)
            .unwrap_or_else(|| Self::Other(text.to_owned()))
    }

    /// Returns the topic without the tag that a client may append to a request: `…/state/update/<tag>`, `…/membership/get/<tag>`. The
    /// request is answered as if it had no tag.
    pub fn without_tag(text: &str) -> &str {
        let is_question = |asked: &str| {
            asked.starts_with(DEVICE) && asked.ends_with("/state/update")
                || asked.starts_with(NODE) && asked.ends_with("/membership/get")
        };
        match text.rsplit_once('/') {
            Some((asked, tag)) if !tag.is_empty() && tag != "result" && is_question(asked) => asked,
            _ => text,
        }
    }

    /// Reports whether a topic is one of a device or node, known or not. Such a message is never forwarded to the cloud.
    pub fn is_of_devices(text: &str) -> bool {
        text.starts_with(DEVICE) || text.starts_with(NODE)
    }

    /// Returns the topic on which a mapper pushes readings of `device` to applications; the agent does not use it.
    pub fn data(device: &DeviceId) -> String {
        format!("{DATA}{device}/{DATA_UPDATE}")
    }

    /// Returns the device whose readings a topic carries; see [`Topic::data`].
    pub fn data_of(text: &str) -> Option<DeviceId> {
        before(text.strip_prefix(DATA)?, DATA_UPDATE)
    }
}

/// Returns the device in front of `/suffix`.
fn before(rest: &str, suffix: &str) -> Option<DeviceId> {
    DeviceId::parse(rest.strip_suffix(suffix)?.strip_suffix('/')?)
}

/// Reports whether this is the topic of records or one level below it.
fn is_record(text: &str) -> bool {
    text.strip_prefix(UPLOAD_RECORDS).is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('/')
                .is_some_and(|level| !level.contains('/'))
    })
}

fn is_upload(text: &str) -> bool {
    let mut levels = text.split('/');
    text.starts_with(UPLOAD)
        || text == UPLOAD.trim_end_matches('/')
        || is_record(text)
        // a wildcard does not match a first level that begins with a dollar
        || levels.next().is_some_and(|first| !first.starts_with('$')) && levels.next() == Some(USER)
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(device, topic) => write!(f, "{DEVICE}{device}/{}", topic.as_str()),
            Self::Node(node, topic) => write!(f, "{NODE}{node}/{}", topic.as_str()),
            Self::Upload(text) | Self::Other(text) => f.write_str(text),
        }
    }
}
