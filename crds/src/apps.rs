//! `apps.kubeedge.io/v1alpha1`: groups of nodes and workloads spread over them.
//!
//! Source: `build/crds/apps` of KubeEdge.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::EnvVar, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The nodes of a group.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "apps.kubeedge.io",
    version = "v1alpha1",
    kind = "NodeGroup",
    plural = "nodegroups",
    shortname = "ng",
    derive = "Default",
    derive = "PartialEq",
    status = "NodeGroupStatus",
    doc = "Nodes that belong together.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupSpec {
    /// Members by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Members by label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Whether Services of the group stay within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_enabled: Option<bool>,
}

/// What became of the members.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupStatus {
    /// Each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_statuses: Vec<NodeStatus>,
}

/// One node of a group.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// The node.
    pub node_name: String,
    /// Its Ready condition: `Ready`, `NotReady` or `Unknown`.
    pub ready_status: String,
    /// `Succeeded` or `Failed`.
    pub selection_status: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection_status_reason: Option<String>,
}

/// A workload, and how it differs from group to group.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "apps.kubeedge.io",
    version = "v1alpha1",
    kind = "EdgeApplication",
    plural = "edgeapplications",
    namespaced,
    shortname = "eapp",
    derive = "Default",
    derive = "PartialEq",
    status = "EdgeApplicationStatus",
    doc = "A workload spread over groups of nodes.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct EdgeApplicationSpec {
    /// What is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_template: Option<ResourceTemplate>,
    /// Where.
    pub workload_scope: WorkloadScope,
}

/// What is created.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ResourceTemplate {
    /// Complete objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::open_list")]
    pub manifests: Vec<Map<String, Value>>,
}

/// Where it is created.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadScope {
    /// By name of the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_node_groups: Vec<TargetNodeGroup>,
    /// By label of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_node_labels: Vec<TargetNodeLabel>,
}

/// One group, and what differs there.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TargetNodeGroup {
    /// The NodeGroup.
    pub name: String,
    /// What differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overriders: Option<Overriders>,
}

/// Nodes of a label, and what differs there.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetNodeLabel {
    /// The nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// What differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overriders: Option<Overriders>,
}

/// What differs from the template.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// Number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_overriders: Vec<ImageOverrider>,
    /// Environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_overriders: Vec<EnvOverrider>,
    /// Commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_overriders: Vec<CommandOverrider>,
    /// Arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args_overriders: Vec<CommandOverrider>,
    /// Requests and limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources_overriders: Vec<ResourcesOverrider>,
}

/// A change of image names.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageOverrider {
    /// Which part.
    pub component: ImageComponent,
    /// How.
    pub operator: Operator,
    /// The new text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Which images; all if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
}

/// Which images.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImagePredicate {
    /// Place of the name in the object, as `/spec/template/spec/containers/0/image`.
    pub path: String,
}

/// Part of an image name.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ImageComponent {
    /// Host and port.
    Registry,
    /// Name.
    Repository,
    /// Tag or digest.
    Tag,
}

/// How a value is changed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Operator {
    /// Added.
    #[serde(rename = "add")]
    Add,
    /// Taken away.
    #[serde(rename = "remove")]
    Remove,
    /// Put in its place.
    #[serde(rename = "replace")]
    Replace,
}

/// A change of environment.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvOverrider {
    /// The container.
    pub container_name: String,
    /// How.
    pub operator: Operator,
    /// The variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<EnvVar>,
}

/// A change of a command or its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandOverrider {
    /// The container.
    pub container_name: String,
    /// How.
    pub operator: ListOperator,
    /// The words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// How a list is changed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ListOperator {
    /// Added at its end.
    #[serde(rename = "add")]
    Add,
    /// Taken away.
    #[serde(rename = "remove")]
    Remove,
}

/// Other requests and limits.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesOverrider {
    /// The container.
    pub container_name: String,
    /// `requests` and `limits`, as in a pod.
    #[schemars(schema_with = "crate::schema::open")]
    pub value: Map<String, Value>,
}

/// What became of it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeApplicationStatus {
    /// Each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload_status: Vec<ManifestStatus>,
}

/// One object.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ManifestStatus {
    /// Which.
    pub identifier: ResourceIdentifier,
    /// How far it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<ManifestCondition>,
}

/// How far an object is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ManifestCondition {
    /// Not everywhere yet.
    Processing,
    /// Everywhere.
    Available,
}

/// Which object.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ResourceIdentifier {
    /// Its place among the manifests, from 0.
    pub ordinal: i64,
    /// Its API group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Its API version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its resource name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}
