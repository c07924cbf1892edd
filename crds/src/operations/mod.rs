//! `operations.kubeedge.io/v1alpha2`: jobs that the cloud gives to nodes. [`Terms`] is what the three kinds have in
//! common.
//!
//! Source: `build/crds/operations` of KubeEdge. Fields of `v1alpha1` that its schema still allows are kept; the definitions serve
//! `v1alpha1`, too, with any fields.

mod defaults;
mod schema_rules;
mod status;
mod terms;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use self::{defaults::with_defaults, schema_rules::with_rules};
pub use self::{
    status::{ActionStatus, ImageStatus, JobStatus, NodeStatus},
    terms::{NodeJob, Terms},
};

/// Nodes to upgrade, and the version.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "operations.kubeedge.io",
    version = "v1alpha2",
    kind = "NodeUpgradeJob",
    plural = "nodeupgradejobs",
    derive = "Default",
    derive = "PartialEq",
    status = "JobStatus",
    doc = "Upgrades the agent on nodes.",
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct NodeUpgradeJobSpec {
    /// Version to install, for example `v1.23.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Image that contains the version. Default: `kubeedge/installation-package`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Source of the image's digest, which is verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest_gatter: Option<ImageDigestGatter>,
    /// Nodes, by name. Excludes labelSelector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
    /// Nodes, by label. Excludes nodeNames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Number of nodes that run the job at the same time. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// Timeout of one node, in seconds. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Fraction of nodes that may fail, 0 to 1; the job fails if more do. Default: 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_tolerate: Option<String>,
    /// Resources to check before the upgrade: `cpu`, `mem`, `disk`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check_items: Vec<String>,
    /// Whether the upgrade waits until it is confirmed on each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_confirmation: Option<bool>,
}

/// Source of an image's digest. (The API has this spelling.)
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageDigestGatter {
    /// Digest of the image for amd64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amd64: Option<String>,
    /// Digest of the image for arm64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm64: Option<String>,
    /// Registry that returns the digest.
    #[serde(
        rename = "registryAPI",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub registry_api: Option<RegistryApi>,
}

/// Registry that returns the digest of an image.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RegistryApi {
    /// Address of the registry.
    pub host: String,
    /// Token for the registry.
    pub token: String,
}

/// Images to pull, and the nodes.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "operations.kubeedge.io",
    version = "v1alpha2",
    kind = "ImagePrePullJob",
    plural = "imageprepulljobs",
    derive = "Default",
    derive = "PartialEq",
    status = "JobStatus",
    doc = "Pulls images on nodes before they are needed.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ImagePrePullJobSpec {
    /// Images to pull, and the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pre_pull_template: Option<ImagePrePullTemplate>,
}

/// Images to pull, and the nodes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagePrePullTemplate {
    /// Images to pull.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Secret with the registry's credentials, as `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_secrets: Option<String>,
    /// Number of retries for each image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_times: Option<i32>,
    /// Nodes, by name. Excludes labelSelector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
    /// Nodes, by label. Excludes nodeNames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Number of nodes that run the job at the same time. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// Timeout of one node, in seconds. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Fraction of nodes that may fail, 0 to 1; the job fails if more do. Default: 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_tolerate: Option<String>,
    /// Resources to check before the pull: `cpu`, `mem`, `disk`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check_items: Vec<String>,
}

/// Settings to change, and the nodes.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "operations.kubeedge.io",
    version = "v1alpha2",
    kind = "ConfigUpdateJob",
    plural = "configupdatejobs",
    derive = "Default",
    derive = "PartialEq",
    status = "JobStatus",
    doc = "Changes the configuration of nodes.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ConfigUpdateJobSpec {
    /// New values, by path in edgecore.yaml, for example `modules.edgeHub.heartbeat`.
    pub update_fields: BTreeMap<String, String>,
    /// Nodes, by name. Excludes labelSelector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_names: Vec<String>,
    /// Nodes, by label. Excludes nodeNames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Number of nodes that run the job at the same time. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<i32>,
    /// Timeout of one node, in seconds. Default: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Fraction of nodes that may fail, 0 to 1; the job fails if more do. Default: 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_tolerate: Option<String>,
}
