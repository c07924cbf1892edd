//! `apps.kubeedge.io/v1alpha1`: groups of nodes and workloads spread over them.
//!
//! Source: `build/crds/apps` of KubeEdge.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::EnvVar, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Selection of the nodes of a group.
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
    doc = "A group of nodes.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupSpec {
    /// Nodes, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Nodes, by label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Whether Services use only endpoints in the client's group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_enabled: Option<bool>,
}

/// State of the nodes of a group.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroupStatus {
    /// State of each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_statuses: Vec<NodeStatus>,
}

/// State of a node of a group.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Name of the node.
    pub node_name: String,
    /// Ready condition of the node: `Ready`, `NotReady` or `Unknown`.
    pub ready_status: String,
    /// Whether the node was added to the group: `Succeeded` or `Failed`.
    pub selection_status: String,
    /// Reason if the node was not added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection_status_reason: Option<String>,
}

/// A workload, and its differences between groups of nodes.
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
    doc = "A workload that runs in several groups of nodes.",
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct EdgeApplicationSpec {
    /// Objects to create.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_template: Option<ResourceTemplate>,
    /// Groups of nodes in which the objects are created.
    pub workload_scope: WorkloadScope,
}

/// Objects to create.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ResourceTemplate {
    /// Complete objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::open_list")]
    pub manifests: Vec<Map<String, Value>>,
}

/// Groups of nodes in which the objects are created.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadScope {
    /// Groups, by name of the NodeGroup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_node_groups: Vec<TargetNodeGroup>,
    /// Groups, by labels of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_node_labels: Vec<TargetNodeLabel>,
}

/// A NodeGroup, and the changes for it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TargetNodeGroup {
    /// Name of the NodeGroup.
    pub name: String,
    /// Changes to the template for this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overriders: Option<Overriders>,
}

/// Nodes with the same labels, and the changes for them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetNodeLabel {
    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Changes to the template for these nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overriders: Option<Overriders>,
}

/// Changes to the template.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// Number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Changes of images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_overriders: Vec<ImageOverrider>,
    /// Changes of environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_overriders: Vec<EnvOverrider>,
    /// Changes of commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command_overriders: Vec<CommandOverrider>,
    /// Changes of arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args_overriders: Vec<CommandOverrider>,
    /// Changes of requests and limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources_overriders: Vec<ResourcesOverrider>,
}

/// A change of an image name.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageOverrider {
    /// Part of the image name to change.
    pub component: ImageComponent,
    /// Type of the change.
    pub operator: Operator,
    /// New value of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Image to change. Default: all images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
}

/// Image to change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImagePredicate {
    /// Path of the image name in the object, for example `/spec/template/spec/containers/0/image`.
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

/// Type of a change.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Operator {
    /// Add the value.
    #[serde(rename = "add")]
    Add,
    /// Remove the value.
    #[serde(rename = "remove")]
    Remove,
    /// Replace the value.
    #[serde(rename = "replace")]
    Replace,
}

/// A change of environment variables.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvOverrider {
    /// Name of the container.
    pub container_name: String,
    /// Type of the change.
    pub operator: Operator,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<EnvVar>,
}

/// A change of a command or its arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandOverrider {
    /// Name of the container.
    pub container_name: String,
    /// Type of the change.
    pub operator: ListOperator,
    /// Words of the command or arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// Type of a change of a list.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ListOperator {
    /// Append the values.
    #[serde(rename = "add")]
    Add,
    /// Remove the values.
    #[serde(rename = "remove")]
    Remove,
}

/// A change of requests and limits.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesOverrider {
    /// Name of the container.
    pub container_name: String,
    /// `requests` and `limits`, as in a pod.
    #[schemars(schema_with = "crate::schema::open")]
    pub value: Map<String, Value>,
}

/// State of the created objects.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EdgeApplicationStatus {
    /// State of each object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload_status: Vec<ManifestStatus>,
}

/// State of an object.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ManifestStatus {
    /// The object.
    pub identifier: ResourceIdentifier,
    /// State of the object: `Processing` or `Available`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<ManifestCondition>,
}

/// State of an object.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ManifestCondition {
    /// The object is not yet available in all groups.
    Processing,
    /// The object is available in all groups.
    Available,
}

/// Identity of an object.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ResourceIdentifier {
    /// Index of the object in the manifests, from 0.
    pub ordinal: i64,
    /// API group of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// API version of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Kind of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Resource name of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}
