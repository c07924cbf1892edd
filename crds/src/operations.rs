//! `operations.kubeedge.io/v1alpha2`: jobs that the cloud gives to nodes.
//!
//! Source: `build/crds/operations` of KubeEdge. Fields of `v1alpha1` that its schema still allows are kept; the definitions serve
//! `v1alpha1`, too, with any fields.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Which nodes get which version.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "operations.kubeedge.io",
    version = "v1alpha2",
    kind = "NodeUpgradeJob",
    plural = "nodeupgradejobs",
    derive = "Default",
    derive = "PartialEq",
    status = "NodeUpgradeJobStatus",
    doc = "Installs a version on nodes.",
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NodeUpgradeJobSpec {
    /// Version to install, as `v1.23.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Image that holds it; `kubeedge/installation-package` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Where the digest of the image is known from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest_gatter: Option<ImageDigestGatter>,
    /// The nodes, by name; goes before the selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
    /// The nodes, by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Nodes that work at the same time; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// Limit for one node; 300 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Share of nodes that may fail, 0 to 1, before the job stops; 0.1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_tolerate: Option<String>,
    /// What is checked first: `cpu`, `mem`, `disk`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check_items: Vec<String>,
    /// Whether each node waits for its operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<bool>,
}

/// Where the digest of an image is known from. (The name is the API's.)
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageDigestGatter {
    /// Digest for amd64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amd64: Option<String>,
    /// Digest for arm64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm64: Option<String>,
    /// A registry to ask.
    #[serde(
        rename = "registryAPI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub registry_api: Option<RegistryApi>,
}

/// A registry to ask.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RegistryApi {
    /// Its address.
    pub host: String,
    /// What it is to be shown.
    pub token: String,
}

/// How far the job is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUpgradeJobStatus {
    /// `Init`, `InProgress`, `Completed` or `Failure`.
    pub phase: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_status: Vec<NodeUpgradeStatus>,
    /// Version after the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,
    /// Version before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub historic_version: Option<String>,
    /// Last event; written by KubeEdge before 1.20, as the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Outcome of that event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// State before there was a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When the state changed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// One node of an upgrade.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUpgradeStatus {
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_flow: Vec<ActionStatus>,
    /// Version after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,
    /// Version before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub historic_version: Option<String>,
    /// Last event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// State before there was a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// One step of a job on a node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ActionStatus {
    /// The step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Its outcome: `True`, `False` or `Unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ended, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// Which nodes pull which images.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "operations.kubeedge.io",
    version = "v1alpha2",
    kind = "ImagePrePullJob",
    plural = "imageprepulljobs",
    derive = "Default",
    derive = "PartialEq",
    status = "ImagePrePullJobStatus",
    doc = "Pulls images on nodes before they are needed.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ImagePrePullJobSpec {
    /// All of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pre_pull_template: Option<ImagePrePullTemplate>,
}

/// Which nodes pull which images.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePrePullTemplate {
    /// The images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Secret for the registry, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_secrets: Option<String>,
    /// Tries for each image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_times: Option<i32>,
    /// The nodes, by name; goes before the selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
    /// The nodes, by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Nodes that work at the same time; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// Limit for one node; 300 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Share of nodes that may fail, 0 to 1, before the job stops; 0.1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_tolerate: Option<String>,
    /// What is checked first: `disk`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check_items: Vec<String>,
}

/// How far the job is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePrePullJobStatus {
    /// `Init`, `InProgress`, `Completed` or `Failure`.
    pub phase: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_status: Vec<ImagePrePullNodeStatus>,
    /// Last event; written by KubeEdge before 1.20, as the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Outcome of that event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// State before there was a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When the state changed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Each node, in the form of `v1alpha1`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::open_list")]
    pub status: Vec<Map<String, Value>>,
}

/// One node of a pull.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePrePullNodeStatus {
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_flow: Vec<ActionStatus>,
    /// Each image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_status: Vec<ImageStatus>,
}

/// One image on one node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageStatus {
    /// The image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Whether it is there: `True` or `False`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Which nodes change which settings.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "operations.kubeedge.io",
    version = "v1alpha2",
    kind = "ConfigUpdateJob",
    plural = "configupdatejobs",
    derive = "Default",
    derive = "PartialEq",
    status = "ConfigUpdateJobStatus",
    doc = "Changes settings of nodes.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ConfigUpdateJobSpec {
    /// New values by place in edgecore.yaml, as `modules.edgeHub.heartbeat`.
    pub update_fields: BTreeMap<String, String>,
    /// The nodes, by name; goes before the selector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
    /// The nodes, by label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Nodes that work at the same time; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// Limit for one node; 300 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Share of nodes that may fail, 0 to 1, before the job stops; 0.1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_tolerate: Option<String>,
}

/// How far the job is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigUpdateJobStatus {
    /// `Init`, `InProgress`, `Completed` or `Failure`.
    pub phase: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_status: Vec<ConfigUpdateNodeStatus>,
}

/// One node of a change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigUpdateNodeStatus {
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action_flow: Vec<ActionStatus>,
}
