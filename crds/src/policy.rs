//! `policy.kubeedge.io/v1alpha1`: what service accounts may do, brought to the nodes that run them.
//!
//! Source: `build/crds/policy` of KubeEdge.

use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRoleBinding, PolicyRule, RoleBinding},
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A service account, and all roles that are bound to it.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "policy.kubeedge.io",
    version = "v1alpha1",
    kind = "ServiceAccountAccess",
    plural = "serviceaccountaccesses",
    namespaced,
    shortname = "saaccess",
    derive = "Default",
    derive = "PartialEq",
    status = "ServiceAccountAccessStatus",
    doc = "Permissions of a service account, for the nodes that run its pods.",
    printcolumn(
        name = "Account",
        type_ = "string",
        json_path = ".spec.serviceAccount.metadata.name"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountAccessSpec {
    /// The service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccount>,
    /// UID of the service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_uid: Option<String>,
    /// Permissions in single namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_role_binding: Vec<AccessRoleBinding>,
    /// Permissions in all namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_cluster_role_binding: Vec<AccessClusterRoleBinding>,
}

impl ServiceAccountAccessSpec {
    /// Returns the rules that apply in a namespace. The empty namespace of cluster-scoped objects has only the rules that hold everywhere.
    pub fn rules_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a PolicyRule> {
        let everywhere = self
            .access_cluster_role_binding
            .iter()
            .flat_map(|binding| &binding.rules);
        let here = self.access_role_binding.iter().filter(move |binding| {
            let place = binding
                .role_binding
                .as_ref()
                .and_then(|binding| binding.metadata.namespace.as_deref());
            place.is_some_and(|place| place == namespace)
        });
        everywhere.chain(here.flat_map(|binding| &binding.rules))
    }
}

/// A RoleBinding and the rules of its role.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRoleBinding {
    /// The RoleBinding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_binding: Option<RoleBinding>,
    /// Rules of the role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PolicyRule>,
}

/// A ClusterRoleBinding and the rules of its role.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessClusterRoleBinding {
    /// The ClusterRoleBinding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_role_binding: Option<ClusterRoleBinding>,
    /// Rules of the role.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<PolicyRule>,
}

/// Nodes that have received the permissions.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceAccountAccessStatus {
    /// Nodes that run pods of the service account.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_list: Vec<String>,
}
