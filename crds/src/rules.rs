//! `rules.kubeedge.io/v1`: messages routed between cloud and edge.
//!
//! Source: `build/crds/router` of KubeEdge.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// From where to where messages go.
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
    doc = "A way for messages between cloud and edge.",
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
    /// What of it: `path` for rest, `topic` and `node_name` for eventbus.
    pub source_resource: BTreeMap<String, String>,
    /// Name of the RuleEndpoint that messages go to.
    pub target: String,
    /// Where in it: `resource` for rest, `topic` for eventbus, `path` for servicebus.
    pub target_resource: BTreeMap<String, String>,
}

/// What has gone that way.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleStatus {
    /// Messages that arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_messages: Option<i64>,
    /// Messages that did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_messages: Option<i64>,
    /// The last reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// One end of a way.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "rules.kubeedge.io",
    version = "v1",
    kind = "RuleEndpoint",
    plural = "ruleendpoints",
    namespaced,
    shortname = "re",
    derive = "PartialEq",
    doc = "An end of a way for messages.",
    printcolumn(name = "Type", type_ = "string", json_path = ".spec.ruleEndpointType"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RuleEndpointSpec {
    /// What kind of end.
    pub rule_endpoint_type: RuleEndpointType,
    /// Settings of the kind: `service_port` for servicebus.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
}

/// Kind of an end.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum RuleEndpointType {
    /// HTTP at the cloud.
    #[serde(rename = "rest")]
    Rest,
    /// MQTT at the edge.
    #[serde(rename = "eventbus")]
    EventBus,
    /// HTTP at the edge.
    #[serde(rename = "servicebus")]
    ServiceBus,
}
