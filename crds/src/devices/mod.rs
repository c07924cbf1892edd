//! `devices.kubeedge.io/v1beta1`: devices, their models and their reported state. [`v1alpha2`] converts older ones.
//!
//! Source: `build/crds/devices` of KubeEdge.

pub mod check;
mod push;
pub mod v1alpha2;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::push::{
    DbMethod, HttpPush, InfluxClient, InfluxData, InfluxDb, MqttPush, MySql, MySqlClient, OtelPush,
    PushMethod, Redis, RedisClient, TdEngine, TdEngineClient,
};

/// Desired state of a device.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "devices.kubeedge.io",
    version = "v1beta1",
    kind = "Device",
    plural = "devices",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    status = "ReportSettings",
    doc = "A device attached to a node.",
    printcolumn(name = "Node", type_ = "string", json_path = ".spec.nodeName"),
    printcolumn(
        name = "Model",
        type_ = "string",
        json_path = ".spec.deviceModelRef.name"
    ),
    printcolumn(
        name = "Protocol",
        type_ = "string",
        json_path = ".spec.protocol.protocolName"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct DeviceSpec {
    /// DeviceModel of the device, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_model_ref: Option<LocalObjectReference>,
    /// Node that the device is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Properties of the device. Properties of the model that are missing here are not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<DeviceProperty>,
    /// Protocol through which the mapper reaches the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ProtocolConfig>,
    /// Methods that the device supports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<DeviceMethod>,
    /// Settings for reports of the device's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_report: Option<ReportSettings>,
}

/// Settings for reports to the cloud.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportSettings {
    /// Whether values are reported to the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_to_cloud: Option<bool>,
    /// Interval between two reports, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_cycle: Option<i64>,
}

/// A property of a device.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceProperty {
    /// Name of the property, as in the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Desired value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<TwinProperty>,
    /// Access to the property through the protocol. Overrides the model's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visitors: Option<VisitorConfig>,
    /// Interval between two reports, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_cycle: Option<i64>,
    /// Interval between two readings, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collect_cycle: Option<i64>,
    /// Whether the value is reported to the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_to_cloud: Option<bool>,
    /// Servers, other than the cloud, to which the mapper sends values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_method: Option<PushMethod>,
}

/// A value and its metadata.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TwinProperty {
    /// The value, as text of the property's type.
    pub value: String,
    /// Metadata of the value: `type`, `timestamp` (in milliseconds) and others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// Access to a property through a protocol.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VisitorConfig {
    /// Name of the protocol, as registered by the mapper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_name: Option<String>,
    /// Settings of the protocol.
    #[serde(
        default,
        deserialize_with = "crate::schema::or_null",
        skip_serializing_if = "Map::is_empty"
    )]
    #[schemars(schema_with = "crate::schema::open_or_null")]
    pub config_data: Map<String, Value>,
}

/// Protocol through which the mapper reaches a device.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolConfig {
    /// Name of the protocol, as registered by the mapper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_name: Option<String>,
    /// Settings of the protocol.
    #[serde(
        default,
        deserialize_with = "crate::schema::or_null",
        skip_serializing_if = "Map::is_empty"
    )]
    #[schemars(schema_with = "crate::schema::open_or_null")]
    pub config_data: Map<String, Value>,
}

/// A method that a device supports.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMethod {
    /// Name of the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Description of the method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Properties that the method writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub property_names: Vec<String>,
}

/// Common properties and settings of devices of the same type.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "devices.kubeedge.io",
    version = "v1beta1",
    kind = "DeviceModel",
    plural = "devicemodels",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "A type of device.",
    printcolumn(name = "Protocol", type_ = "string", json_path = ".spec.protocol"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct DeviceModelSpec {
    /// Name of the protocol, as registered by the mapper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Properties of the devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<ModelProperty>,
    /// Settings of the protocol, the same for all devices of the model.
    #[serde(
        default,
        deserialize_with = "crate::schema::or_null",
        skip_serializing_if = "Map::is_empty"
    )]
    #[schemars(schema_with = "crate::schema::open_or_null")]
    pub protocol_config_data: Map<String, Value>,
}

/// A property of all devices of a model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelProperty {
    /// Name of the property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Description of the property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Type of the values.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<PropertyType>,
    /// Whether the property is writable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// Minimum value, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<String>,
    /// Maximum value, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<String>,
    /// Unit of the values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Access to the property through the protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visitors: Option<VisitorConfig>,
}

/// Type of a property's values.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum PropertyType {
    /// Integer.
    #[serde(rename = "INT")]
    Int,
    /// Floating-point number.
    #[serde(rename = "FLOAT")]
    Float,
    /// Floating-point number of double precision.
    #[serde(rename = "DOUBLE")]
    Double,
    /// Text.
    #[serde(rename = "STRING")]
    String,
    /// True or false.
    #[serde(rename = "BOOLEAN")]
    Boolean,
    /// Bytes.
    #[serde(rename = "BYTES")]
    Bytes,
    /// A stream, such as video.
    #[serde(rename = "STREAM")]
    Stream,
}

/// Whether a property is writable.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum AccessMode {
    /// The property is writable.
    ReadWrite,
    /// The property is read-only.
    ReadOnly,
}

/// Always empty: a DeviceStatus has only a status.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "devices.kubeedge.io",
    version = "v1beta1",
    kind = "DeviceStatus",
    plural = "devicestatuses",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    status = "DeviceStatusStatus",
    doc = "Reported state of the device with the same name.",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(
        name = "Online",
        type_ = "string",
        json_path = ".status.lastOnlineTime"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
pub struct DeviceStatusSpec {}

/// Reported state of a device.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceStatusStatus {
    /// Reported values of the properties.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub twins: Vec<Twin>,
    /// State of the device: `online`, `offline`, `unknown` or a value defined by the mapper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Time at which the device was last online, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_online_time: Option<String>,
    /// Other fields that the mapper reports.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "crate::schema::open")]
    pub extensions: Map<String, Value>,
}

/// Desired and reported value of a property.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Twin {
    /// Name of the property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_name: Option<String>,
    /// Latest desired value that the device has received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_desired: Option<TwinProperty>,
    /// Value that the device has reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<TwinProperty>,
}
