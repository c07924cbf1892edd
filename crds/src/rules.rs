//! `rules.kubeedge.io/v1`: messages routed between cloud and edge.
//!
//! Source: `build/crds/router` of KubeEdge.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Source and target of the messages.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "rules.kubeedge.io",
    version = "v1",
    kind = "Rule",
    plural = "rules",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    status = "RuleStatus",
    doc = "Routes messages between the cloud and edge nodes, from one RuleEndpoint to another.",
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.target"),
    printcolumn(
        name = "Delivered",
        type_ = "integer",
        json_path = ".status.successMessages"
    ),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.failMessages"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RuleSpec {
    /// Name of the RuleEndpoint that messages come from.
    pub source: String,
    /// Messages to route: `path` for rest; `topic` and `node_name` for eventbus.
    pub source_resource: BTreeMap<String, String>,
    /// Name of the RuleEndpoint that messages are sent to.
    pub target: String,
    /// Destination at the target: `resource` for rest; `topic` for eventbus; `path` for servicebus.
    pub target_resource: BTreeMap<String, String>,
}

/// Numbers of routed messages, and the latest errors.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleStatus {
    /// Number of messages that were delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_messages: Option<i64>,
    /// Number of messages that could not be delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_messages: Option<i64>,
    /// Latest errors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// Type and settings of the endpoint.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "rules.kubeedge.io",
    version = "v1",
    kind = "RuleEndpoint",
    plural = "ruleendpoints",
    namespaced,
    shortname = "re",
    derive = "PartialEq",
    doc = "A source or target of Rules.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.ruleEndpointType"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RuleEndpointSpec {
    /// Type of the endpoint: `rest`, `eventbus` or `servicebus`.
    pub rule_endpoint_type: RuleEndpointType,
    /// Settings of this type: `service_port` for servicebus.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// Type of an endpoint.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum RuleEndpointType {
    /// HTTP in the cloud.
    #[serde(rename = "rest")]
    Rest,
    /// MQTT on a node.
    #[serde(rename = "eventbus")]
    EventBus,
    /// HTTP on a node.
    #[serde(rename = "servicebus")]
    ServiceBus,
}
