//! The bodies of messages about devices: memberships, twins, states, attributes; the same over MQTT and to the cloud.
//!
//! Names, what is left out and what is `null` are KubeEdge's. Times are milliseconds since the Unix epoch.
//!
//! Source: KubeEdge's `edge/pkg/devicetwin/dttype`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::topic::DeviceId;

#[cfg(test)]
mod tests;

/// The request is wrong: [`Refusal::code`].
pub const BAD_REQUEST: u16 = 400;
/// There is no such device: [`Refusal::code`].
pub const NOT_FOUND: u16 = 404;
/// The request is larger than what is read: [`Refusal::code`].
pub const TOO_LARGE: u16 = 413;
/// The request could not be carried out now: [`Refusal::code`].
pub const INTERNAL: u16 = 500;

/// The type of a property that was deleted.
pub const DELETED: &str = "deleted";

/// Which event, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Chosen by whoever asks; answers repeat it.
    #[serde(default, deserialize_with = "or_null")]
    pub event_id: String,
    /// When it was made.
    #[serde(default, deserialize_with = "or_null")]
    pub timestamp: i64,
}

/// How often a value was changed on either side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// By the cloud.
    #[serde(default)]
    pub cloud: i64,
    /// By the edge.
    #[serde(default)]
    pub edge: i64,
}

/// A value, wanted or found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// As text of the property's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// When it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ValueMetadata>,
}

/// What is said about a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueMetadata {
    /// When it was set.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "is_zero")]
    pub timestamp: i64,
}

/// What is said about a property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypeMetadata {
    /// `int`, `integer`, `float`, `boolean`, `string` or `deleted`; absent: `string`.
    #[serde(
        rename = "type",
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub kind: String,
}

/// A property: what is wanted and what is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Twin {
    /// What is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// What is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<Value>,
    /// Whether it may be deleted; absent: it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TypeMetadata>,
    /// The version of what is wanted; only between edge and cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<Version>,
    /// The version of what is; only between edge and cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_version: Option<Version>,
}

/// An attribute of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Its value.
    #[serde(default, deserialize_with = "or_null")]
    pub value: String,
    /// Whether it may be deleted; absent: it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TypeMetadata>,
}

/// Properties by name; `None` (`null`) deletes one, or says that it was deleted.
pub type Twins = BTreeMap<String, Option<Twin>>;
/// Attributes by name; `None` (`null`) deletes one.
pub type Attributes = BTreeMap<String, Option<Attribute>>;

/// A device as memberships tell it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Which.
    pub id: DeviceId,
    /// Its name, without the namespace.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What it is.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// `online`, `offline`, …
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// When it was last online, RFC 3339.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "String::is_empty")]
    pub last_online: String,
    /// Its attributes.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: Attributes,
    /// Its properties.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "BTreeMap::is_empty")]
    pub twin: Twins,
}

impl Member {
    /// A device of which no more is told than that it is there.
    pub fn new(id: DeviceId) -> Self {
        Self {
            name: id.name().to_owned(),
            id,
            description: String::new(),
            state: String::new(),
            last_online: String::new(),
            attributes: Attributes::new(),
            twin: Twins::new(),
        }
    }
}

/// Devices were bound to a node or taken from it. Either list is `null` where it is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipUpdate {
    /// Which event, and when.
    #[serde(flatten)]
    pub event: Event,
    /// Bound.
    #[serde(rename = "added_devices", default)]
    pub added: Option<Vec<Member>>,
    /// Taken away.
    #[serde(rename = "removed_devices", default)]
    pub removed: Option<Vec<Member>>,
}

/// All devices of a node: the answer to a get, and the cloud's full list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipList {
    /// Which event, and when.
    #[serde(flatten)]
    pub event: Event,
    /// They.
    #[serde(default, deserialize_with = "or_null")]
    pub devices: Vec<Member>,
}

/// A node asks the cloud for all its devices; JSON in a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MembershipQuestion {
    /// `group_membership_event`.
    pub event_type: String,
    /// Which event.
    pub event_id: String,
    /// The node.
    pub group_id: String,
    /// `detail`.
    pub operation: String,
    /// When.
    pub timestamp: i64,
}

impl MembershipQuestion {
    /// The question of the node of this name.
    pub fn new(node: &str, event: Event) -> Self {
        Self {
            event_type: "group_membership_event".to_owned(),
            event_id: event.event_id,
            group_id: node.to_owned(),
            operation: "detail".to_owned(),
            timestamp: event.timestamp,
        }
    }
}

/// Properties of one device: an update, the answer to one, the answer to a get, a report to the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwinUpdate {
    /// Which event, and when.
    #[serde(flatten)]
    pub event: Event,
    /// They. `None` (`null`, or absent) is no update.
    #[serde(default)]
    pub twin: Option<Twins>,
}

/// What is wanted and is not so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwinDelta {
    /// Which event, and when.
    #[serde(flatten)]
    pub event: Event,
    /// The properties.
    pub twin: Twins,
    /// The wanted values.
    pub delta: BTreeMap<String, String>,
}

/// Properties before and after an update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TwinDocument {
    /// The event that changed them, and when.
    #[serde(flatten)]
    pub event: Event,
    /// They.
    pub twin: BTreeMap<String, Change>,
}

/// A property before and after; `null` where it was not, or is no longer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Before.
    pub last: Option<Twin>,
    /// After.
    pub current: Option<Twin>,
}

/// A device's state or attributes, told by whoever knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUpdate {
    /// Which event, and when.
    #[serde(flatten)]
    pub event: Event,
    /// The state.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// The attributes.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: Attributes,
}

/// A device's state: the answer to an update, and the report to the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateResult {
    /// Which event, and when.
    #[serde(flatten)]
    pub event: Event,
    /// The device.
    pub device: DeviceState,
}

/// A device's name and state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceState {
    /// Its name, without the namespace.
    pub name: String,
    /// `online`, `offline`, …
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// When it was last online, RFC 3339.
    #[serde(
        rename = "lastOnlineTime",
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub last_online: String,
}

/// Why a request was not carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Which event, and when.
    #[serde(flatten)]
    pub event: Event,
    /// [`BAD_REQUEST`] and so on.
    pub code: u16,
    /// In words.
    pub reason: String,
}

fn or_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
