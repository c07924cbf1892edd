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

/// A device, and what is wanted of it.
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
    /// Its DeviceModel, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_model_ref: Option<LocalObjectReference>,
    /// The node that it is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Its properties; those of the model that are not named are not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<DeviceProperty>,
    /// How it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ProtocolConfig>,
    /// What it can be told to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<DeviceMethod>,
    /// Whether and how often its state is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_report: Option<ReportSettings>,
}

/// Whether and how often something is reported.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportSettings {
    /// Whether it is reported to the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_to_cloud: Option<bool>,
    /// Milliseconds between two reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_cycle: Option<i64>,
}

/// A property of a device.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceProperty {
    /// Its name, as in the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The value that it shall have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<TwinProperty>,
    /// How it is reached; goes before the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visitors: Option<VisitorConfig>,
    /// Milliseconds between two reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_cycle: Option<i64>,
    /// Milliseconds between two readings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collect_cycle: Option<i64>,
    /// Whether it is reported to the cloud.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_to_cloud: Option<bool>,
    /// Where else values go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push_method: Option<PushMethod>,
}

/// A value with what is said about it.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TwinProperty {
    /// The value, as text of the property's type.
    pub value: String,
    /// `type` and `timestamp` (milliseconds), among others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// How a property is reached.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VisitorConfig {
    /// Protocol, as the mapper names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_name: Option<String>,
    /// Settings of that protocol.
    #[serde(
        default,
        deserialize_with = "crate::schema::or_null",
        skip_serializing_if = "Map::is_empty"
    )]
    #[schemars(schema_with = "crate::schema::open_or_null")]
    pub config_data: Map<String, Value>,
}

/// How a device is reached.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProtocolConfig {
    /// Protocol, as the mapper names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_name: Option<String>,
    /// Settings of that protocol.
    #[serde(
        default,
        deserialize_with = "crate::schema::or_null",
        skip_serializing_if = "Map::is_empty"
    )]
    #[schemars(schema_with = "crate::schema::open_or_null")]
    pub config_data: Map<String, Value>,
}

/// What a device can be told to do.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMethod {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Properties that it writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub property_names: Vec<String>,
}

/// What devices of one kind have in common.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "devices.kubeedge.io",
    version = "v1beta1",
    kind = "DeviceModel",
    plural = "devicemodels",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "A kind of device.",
    printcolumn(name = "Protocol", type_ = "string", json_path = ".spec.protocol"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct DeviceModelSpec {
    /// Protocol, as the mapper names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Their properties.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<ModelProperty>,
    /// Settings of the protocol that hold for all of them.
    #[serde(
        default,
        deserialize_with = "crate::schema::or_null",
        skip_serializing_if = "Map::is_empty"
    )]
    #[schemars(schema_with = "crate::schema::open_or_null")]
    pub protocol_config_data: Map<String, Value>,
}

/// A property that devices of a kind have.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelProperty {
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Type of its values.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<PropertyType>,
    /// Whether it can be written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<AccessMode>,
    /// Least value, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<String>,
    /// Greatest value, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<String>,
    /// Unit of its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// How it is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visitors: Option<VisitorConfig>,
}

/// Type of a property's values.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum PropertyType {
    /// Whole number.
    #[serde(rename = "INT")]
    Int,
    /// Number.
    #[serde(rename = "FLOAT")]
    Float,
    /// Number of double precision.
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

/// Whether a property can be written.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum AccessMode {
    /// It can.
    ReadWrite,
    /// It cannot.
    ReadOnly,
}

/// Empty: the object of a device's name only has a status.
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
    doc = "What a device reports.",
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

/// What a device reports.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceStatusStatus {
    /// Its properties.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub twins: Vec<Twin>,
    /// `online`, `offline`, `unknown` or the mapper's own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When it was last online, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_online_time: Option<String>,
    /// What mappers add.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "crate::schema::open")]
    pub extensions: Map<String, Value>,
}

/// A property as wanted and as it is.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Twin {
    /// The property.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_name: Option<String>,
    /// The wanted value that the device has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_desired: Option<TwinProperty>,
    /// The value that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<TwinProperty>,
}
