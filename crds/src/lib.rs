//! KubeEdge's custom resources as Rust types, and the YAML generated from them.
//!
//! One module for each API group. [`all`] gives the definitions; `yaml/` holds them as files, kept fresh by a test
//! (`UPDATE_YAML=1 cargo test -p crds` writes them anew).

#![allow(clippy::duplicated_attributes, reason = "the columns of a table are attributes of the same form")]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

pub mod apps;
pub mod devices;
pub mod operations;
pub mod policy;
pub mod reliablesyncs;
pub mod rules;
mod schema;

/// Every definition, ordered by group and kind.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        apps::EdgeApplication::crd(),
        apps::NodeGroup::crd(),
        without_subresources(devices::Device::crd()),
        devices::DeviceModel::crd(),
        without_subresources(devices::DeviceStatus::crd()),
        operations::ConfigUpdateJob::crd(),
        also_in("v1alpha1", operations::ImagePrePullJob::crd()),
        also_in("v1alpha1", operations::NodeUpgradeJob::crd()),
        policy::ServiceAccountAccess::crd(),
        reliablesyncs::ClusterObjectSync::crd(),
        reliablesyncs::ObjectSync::crd(),
        without_subresources(rules::Rule::crd()),
        rules::RuleEndpoint::crd(),
    ]
}

/// KubeEdge writes the status of these kinds with the object itself; behind a subresource those writes would be lost.
fn without_subresources(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.subresources = None;
    }
    crd
}

/// KubeEdge serves these kinds in an older version, too, whose fields are among those of the stored one.
fn also_in(older: &str, mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let versions = crd.spec.versions.iter().cloned().map(|mut version| {
        older.clone_into(&mut version.name);
        version.storage = false;
        version
    });
    let versions: Vec<_> = versions.collect();
    crd.spec.versions.extend(versions);
    crd
}

/// A definition as YAML.
///
/// # Errors
/// The definition cannot be written as YAML; none of [`all`] is so.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(crd)
}

#[cfg(test)]
mod tests;
