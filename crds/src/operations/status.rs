//! The status of node jobs, of all kinds.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Progress of the job.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    /// Phase of the job: `Init`, `InProgress`, `Completed` or `Failure`.
    // absent after a change through `v1alpha1` of KubeEdge's definitions, which do not have it
    #[serde(default)]
    pub phase: String,
    /// Reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Progress on each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_status: Vec<NodeStatus>,
    /// Whether the job has ended: `Complete` or `Failed`. KubeEdge does not write them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Version after the upgrade. Only written by KubeEdge before 1.20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,
    /// Version before the upgrade. Only written by KubeEdge before 1.20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub historic_version: Option<String>,
    /// Latest event. Only written by KubeEdge before 1.20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Outcome of the latest event. Only written by KubeEdge before 1.20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// State of the job. Only written by KubeEdge before 1.20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Time of the latest change of the state, RFC 3339. Only written by KubeEdge before 1.20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Progress of a pull on each node, in the format of `v1alpha1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::open_list")]
    pub status: Vec<Map<String, Value>>,
}

/// Progress of the job on a node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Name of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Phase of the job on the node: `Pending`, `InProgress`, `Successful`, `Failure` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Steps of the job on the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_flow: Vec<ActionStatus>,
    /// State of each image of a pull.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_status: Vec<ImageStatus>,
    /// Version of the agent after the upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,
    /// Version of the agent before the upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub historic_version: Option<String>,
    /// Latest event. Only written by KubeEdge before 1.20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// State of the job on the node. Only written by KubeEdge before 1.20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A step of a job on a node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ActionStatus {
    /// Name of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Outcome of the step: `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time at which the step ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// State of an image on a node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageStatus {
    /// Name of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether the image was pulled: `True` or `False`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Reason of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
