//! Where a mapper sends values besides the cloud.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where values go.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushMethod {
    /// An HTTP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpPush>,
    /// An MQTT broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mqtt: Option<MqttPush>,
    /// An OpenTelemetry collector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otel: Option<OtelPush>,
    /// A database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db_method: Option<DbMethod>,
    /// Settings of the detection of odd values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "crate::schema::open")]
    pub anomaly_detection: Map<String, Value>,
}

/// An HTTP server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpPush {
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// Its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_path: Option<String>,
    /// Seconds to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

/// An MQTT broker.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct MqttPush {
    /// Its URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Topic to publish on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Quality of service, 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<i32>,
    /// Whether it keeps the last value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retained: Option<bool>,
}

/// An OpenTelemetry collector.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtelPush {
    /// Its URL.
    #[serde(
        rename = "endpointURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub endpoint_url: Option<String>,
}

/// A database, one of these.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DbMethod {
    /// InfluxDB 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub influxdb2: Option<InfluxDb>,
    /// Redis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<Redis>,
    /// TDengine.
    #[serde(rename = "TDEngine", default, skip_serializing_if = "Option::is_none")]
    pub tdengine: Option<TdEngine>,
    /// MySQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mysql: Option<MySql>,
}

/// InfluxDB 2.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct InfluxDb {
    /// The server.
    #[serde(
        rename = "influxdb2ClientConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client: Option<InfluxClient>,
    /// The point.
    #[serde(
        rename = "influxdb2DataConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<InfluxData>,
}

/// An InfluxDB server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct InfluxClient {
    /// Its URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Organisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org: Option<String>,
    /// Bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
}

/// How a value becomes a point.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InfluxData {
    /// Measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurement: Option<String>,
    /// Tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tag: BTreeMap<String, String>,
    /// Field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_key: Option<String>,
}

/// Redis.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Redis {
    /// The server.
    #[serde(
        rename = "redisClientConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client: Option<RedisClient>,
}

/// A Redis server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisClient {
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr: Option<String>,
    /// Number of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db: Option<i64>,
    /// Most connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poolsize: Option<i64>,
    /// Connections kept open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_idle_conns: Option<i64>,
}

/// TDengine.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TdEngine {
    /// The server.
    #[serde(
        rename = "TDEngineClientConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client: Option<TdEngineClient>,
}

/// A TDengine server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TdEngineClient {
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr: Option<String>,
    /// Database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db_name: Option<String>,
}

/// MySQL.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct MySql {
    /// The server.
    #[serde(
        rename = "mysqlClientConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client: Option<MySqlClient>,
}

/// A MySQL server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MySqlClient {
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr: Option<String>,
    /// Database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// User.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
}
