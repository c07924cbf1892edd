//! `reliablesyncs.kubeedge.io/v1alpha1`: which revision of an object a node holds.
//!
//! Source: `build/crds/reliablesyncs` of KubeEdge. Objects are named `<node>.<uid of the object>`.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The namespaced object, which is in the same namespace.
#[derive(
    CustomResource, Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize,
)]
#[kube(
    group = "reliablesyncs.kubeedge.io",
    version = "v1alpha1",
    kind = "ObjectSync",
    plural = "objectsyncs",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    status = "ObjectSyncStatus",
    doc = "The revision of a namespaced object that an edge node has stored.",
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.objectKind"),
    printcolumn(name = "Object", type_ = "string", json_path = ".spec.objectName"),
    printcolumn(
        name = "Revision",
        type_ = "string",
        json_path = ".status.objectResourceVersion"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSyncSpec {
    /// API version of the object, for example `v1`.
    #[serde(
        rename = "objectAPIVersion",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub object_api_version: Option<String>,
    /// Kind of the object, for example `Pod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_kind: Option<String>,
    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_name: Option<String>,
}

/// Revision that the node has acknowledged.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSyncStatus {
    /// The object's resourceVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_resource_version: Option<String>,
}

/// The cluster-wide object.
#[derive(
    CustomResource, Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize,
)]
#[kube(
    group = "reliablesyncs.kubeedge.io",
    version = "v1alpha1",
    kind = "ClusterObjectSync",
    plural = "clusterobjectsyncs",
    derive = "PartialEq",
    derive = "Default",
    status = "ClusterObjectSyncStatus",
    doc = "The revision of a cluster-wide object that an edge node has stored.",
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.objectKind"),
    printcolumn(name = "Object", type_ = "string", json_path = ".spec.objectName"),
    printcolumn(
        name = "Revision",
        type_ = "string",
        json_path = ".status.objectResourceVersion"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSyncSpec {
    /// API version of the object, for example `v1`.
    #[serde(
        rename = "objectAPIVersion",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub object_api_version: Option<String>,
    /// Kind of the object, for example `Node`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_kind: Option<String>,
    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_name: Option<String>,
}

/// Revision that the node has acknowledged.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterObjectSyncStatus {
    /// The object's resourceVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_resource_version: Option<String>,
}
