//! Bodies of messages about devices: memberships, twins, states and attributes. They are the same over MQTT and to the cloud.
//!
//! Field names, omitted fields and `null` are as in KubeEdge. Times are milliseconds since the Unix epoch.
//!
//! Source: KubeEdge's `edge/pkg/devicetwin/dttype`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::topic::DeviceId;

#[cfg(test)]
mod tests;

/// The [`Refusal::code`] of an invalid request.
pub const BAD_REQUEST: u16 = 400;
/// The [`Refusal::code`] for an unknown device.
pub const NOT_FOUND: u16 = 404;
/// The [`Refusal::code`] of a request that is larger than the limit.
pub const TOO_LARGE: u16 = 413;
/// The [`Refusal::code`] of a request that could not be carried out now.
pub const INTERNAL: u16 = 500;

/// The type of a property that was deleted.
pub const DELETED: &str = "deleted";

/// The id and time of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Event {
    /// The id, chosen by the requester; answers repeat it.
    #[serde(default, deserialize_with = "or_null")]
    pub event_id: String,
    /// The time when the event was created.
    #[serde(default, deserialize_with = "or_null")]
    pub timestamp: i64,
}

/// How often each side changed a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Version {
    /// Changes by the cloud.
    #[serde(default)]
    pub cloud: i64,
    /// Changes by the edge.
    #[serde(default)]
    pub edge: i64,
}

/// A desired or reported value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Value {
    /// The value as text of the property's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// When it was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ValueMetadata>,
}

/// Metadata of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct ValueMetadata {
    /// When it was set.
    #[serde(default, deserialize_with = "or_null", skip_serializing_if = "is_zero")]
    pub timestamp: i64,
}

/// Metadata of a property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct TypeMetadata {
    /// The type: `int`, `integer`, `float`, `boolean`, `string` or `deleted`. Absent means `string`.
    #[serde(
        rename = "type",
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub kind: String,
}

/// A property with its desired and its reported value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Twin {
    /// The desired value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// The reported value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<Value>,
    /// Whether the property may be deleted; absent means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TypeMetadata>,
    /// The version of the desired value; used only between edge and cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<Version>,
    /// The version of the reported value; used only between edge and cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_version: Option<Version>,
}

/// An attribute of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Attribute {
    /// Its value.
    #[serde(default, deserialize_with = "or_null")]
    pub value: String,
    /// Whether the attribute may be deleted; absent means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optional: Option<bool>,
    /// Its type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TypeMetadata>,
}

/// Properties by name; `None` (`null`) deletes one, or reports its deletion.
pub type Twins = BTreeMap<String, Option<Twin>>;
/// Attributes by name; `None` (`null`) deletes one.
pub type Attributes = BTreeMap<String, Option<Attribute>>;

/// A device in a membership message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Member {
    /// The device's identifier.
    pub id: DeviceId,
    /// The device's name, without the namespace.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
    /// The device's description.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub description: String,
    /// The state: `online`, `offline`, …
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub state: String,
    /// When the device was last online, RFC 3339.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub last_online: String,
    /// Its attributes.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub attributes: Attributes,
    /// Its properties.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub twin: Twins,
}

impl Member {
    /// Creates a device with an identifier only.
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

/// Reports that devices were bound to a node or removed from it. Go writes an empty list as `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct MembershipUpdate {
    /// The event's id and time.
    #[serde(flatten)]
    pub event: Event,
    /// The bound devices.
    #[serde(rename = "added_devices", default)]
    pub added: Option<Vec<Member>>,
    /// The removed devices.
    #[serde(rename = "removed_devices", default)]
    pub removed: Option<Vec<Member>>,
}

/// All devices of a node: the answer to a get, and the cloud's full list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct MembershipList {
    /// The event's id and time.
    #[serde(flatten)]
    pub event: Event,
    /// The devices.
    #[serde(default, deserialize_with = "or_null")]
    pub devices: Vec<Member>,
}

/// A node's request for all its devices; sent as JSON in a string.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct MembershipQuestion {
    /// Always `group_membership_event`.
    pub event_type: String,
    /// The event's id.
    pub event_id: String,
    /// The node's name.
    pub group_id: String,
    /// Always `detail`.
    pub operation: String,
    /// The event's time.
    pub timestamp: i64,
}

impl MembershipQuestion {
    /// Creates the request of this node.
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

/// Properties of one device: an update, the answer to an update or a get, or a report to the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct TwinUpdate {
    /// The event's id and time.
    #[serde(flatten)]
    pub event: Event,
    /// The properties. `None` (`null` or absent) is not an update.
    #[serde(default)]
    pub twin: Option<Twins>,
}

/// The desired values of a device that differ from the reported ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct TwinDelta {
    /// The event's id and time.
    #[serde(flatten)]
    pub event: Event,
    /// The properties.
    pub twin: Twins,
    /// The desired values by property.
    pub delta: BTreeMap<String, String>,
}

/// Properties before and after an update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct TwinDocument {
    /// The id and time of the event that changed the properties.
    #[serde(flatten)]
    pub event: Event,
    /// The changed properties by name.
    pub twin: BTreeMap<String, Change>,
}

/// A property before and after an update; `null` if it did not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Change {
    /// The property before the update.
    pub last: Option<Twin>,
    /// The property after the update.
    pub current: Option<Twin>,
}

/// A report of a device's state or attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct DeviceUpdate {
    /// The event's id and time.
    #[serde(flatten)]
    pub event: Event,
    /// The state.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub state: String,
    /// The attributes.
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub attributes: Attributes,
}

/// A device's state: the answer to an update, and the report to the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct StateResult {
    /// The event's id and time.
    #[serde(flatten)]
    pub event: Event,
    /// The device.
    pub device: DeviceState,
}

/// A device's name and state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct DeviceState {
    /// The device's name, without the namespace.
    pub name: String,
    /// The state: `online`, `offline`, …
    #[serde(
        default,
        deserialize_with = "or_null",
        skip_serializing_if = "String::is_empty"
    )]
    pub state: String,
    /// When the device was last online, RFC 3339.
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
#[cfg_attr(feature = "spec", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// The event's id and time.
    #[serde(flatten)]
    pub event: Event,
    /// The code, such as [`BAD_REQUEST`].
    pub code: u16,
    /// The reason in words.
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
