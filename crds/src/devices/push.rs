//! Where a mapper sends values besides the cloud.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Servers, other than the cloud, to which the mapper sends values.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PushMethod {
    /// HTTP server to which values are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpPush>,
    /// MQTT broker to which values are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mqtt: Option<MqttPush>,
    /// OpenTelemetry collector to which values are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otel: Option<OtelPush>,
    /// Database into which values are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db_method: Option<DbMethod>,
    /// Settings for the detection of anomalies.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schemars(schema_with = "crate::schema::open")]
    pub anomaly_detection: Map<String, Value>,
}

/// An HTTP server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpPush {
    /// Host name or address of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
    /// Port of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<i64>,
    /// Path of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_path: Option<String>,
    /// Timeout of a request, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

/// An MQTT broker.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct MqttPush {
    /// URL of the broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Topic to publish to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Quality of service, 0 to 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<i32>,
    /// Whether the broker retains the last value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retained: Option<bool>,
}

/// An OpenTelemetry collector.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OtelPush {
    /// URL of the collector.
    #[serde(
        rename = "endpointURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub endpoint_url: Option<String>,
}

/// A database. Set one of the fields.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct DbMethod {
    /// InfluxDB 2 database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub influxdb2: Option<InfluxDb>,
    /// Redis database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<Redis>,
    /// TDengine database.
    #[serde(rename = "TDEngine", default, skip_serializing_if = "Option::is_none")]
    pub tdengine: Option<TdEngine>,
    /// MySQL database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mysql: Option<MySql>,
}

/// InfluxDB 2 database.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct InfluxDb {
    /// Connection to the server.
    #[serde(
        rename = "influxdb2ClientConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client: Option<InfluxClient>,
    /// Conversion of a value to a point.
    #[serde(
        rename = "influxdb2DataConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<InfluxData>,
}

/// Connection to an InfluxDB server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct InfluxClient {
    /// URL of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Organisation in InfluxDB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub org: Option<String>,
    /// Bucket into which points are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<String>,
}

/// Conversion of a value to a point.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InfluxData {
    /// Measurement of the point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measurement: Option<String>,
    /// Tags of the point.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tag: BTreeMap<String, String>,
    /// Field of the point that contains the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_key: Option<String>,
}

/// Redis database.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Redis {
    /// Connection to the server.
    #[serde(
        rename = "redisClientConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client: Option<RedisClient>,
}

/// Connection to a Redis server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RedisClient {
    /// Address of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr: Option<String>,
    /// Number of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db: Option<i64>,
    /// Maximum number of connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poolsize: Option<i64>,
    /// Minimum number of idle connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_idle_conns: Option<i64>,
}

/// TDengine database.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TdEngine {
    /// Connection to the server.
    #[serde(
        rename = "TDEngineClientConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client: Option<TdEngineClient>,
}

/// Connection to a TDengine server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TdEngineClient {
    /// Address of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr: Option<String>,
    /// Name of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub db_name: Option<String>,
}

/// MySQL database.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct MySql {
    /// Connection to the server.
    #[serde(
        rename = "mysqlClientConfig",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client: Option<MySqlClient>,
}

/// Connection to a MySQL server.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MySqlClient {
    /// Address of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr: Option<String>,
    /// Name of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// User name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
}
