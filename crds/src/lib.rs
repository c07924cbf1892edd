//! KubeEdge's custom resources as Rust types, and the YAML generated from them.
//!
//! One module for each API group. [`all`] returns the definitions; `yaml/` contains them as files, which a test compares
//! (`UPDATE_YAML=1 cargo test -p crds` writes them).

#![allow(
    clippy::duplicated_attributes,
    reason = "the columns of a table are attributes of the same form"
)]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, CustomResourceValidation,
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use kube::CustomResourceExt;

use self::operations::{with_defaults, with_rules};

pub mod apps;
pub mod devices;
pub mod operations;
pub mod policy;
pub mod reliablesyncs;
mod requirements;
pub mod rules;
mod schema;

/// Returns all definitions, ordered by group and kind.
pub fn all() -> Vec<CustomResourceDefinition> {
    let made = vec![
        apps::EdgeApplication::crd(),
        apps::NodeGroup::crd(),
        also(
            open_status(without_subresources(devices::Device::crd())),
            devices::v1alpha2::VERSION,
        ),
        also(devices::DeviceModel::crd(), devices::v1alpha2::VERSION),
        older(
            without_subresources(devices::DeviceStatus::crd()),
            devices::v1alpha2::VERSION,
            [("twins", list_of(open()))],
        ),
        with_rules(
            with_defaults(operations::ConfigUpdateJob::crd(), &["spec"]),
            &[],
            None,
        ),
        with_rules(
            deprecate(with_open_version(
                with_defaults(
                    operations::ImagePrePullJob::crd(),
                    &["spec", "imagePrePullTemplate"],
                ),
                "v1alpha1",
            )),
            &["imagePrePullTemplate"],
            Some((
                "has(self.imagePrePullTemplate) && has(self.imagePrePullTemplate.images)",
                "imagePrePullTemplate.images is required",
            )),
        ),
        with_rules(
            deprecate(with_open_version(
                with_defaults(operations::NodeUpgradeJob::crd(), &["spec"]),
                "v1alpha1",
            )),
            &[],
            Some(("has(self.version)", "version is required")),
        ),
        policy::ServiceAccountAccess::crd(),
        reliablesyncs::ClusterObjectSync::crd(),
        reliablesyncs::ObjectSync::crd(),
        without_subresources(rules::Rule::crd()),
        rules::RuleEndpoint::crd(),
    ];
    made.into_iter()
        .map(requirements::relax_requirements)
        .collect()
}

/// Removes the status subresource: KubeEdge writes the status of these kinds together with the object, and a subresource would drop that.
fn without_subresources(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.subresources = None;
    }
    crd
}

/// Lets the status of these kinds hold unknown fields, which older versions and mappers write.
fn open_status(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let schema = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut());
        let properties = schema.and_then(|schema| schema.properties.as_mut());
        if let Some(status) = properties.and_then(|properties| properties.get_mut("status")) {
            status.x_kubernetes_preserve_unknown_fields = Some(true);
        }
    }
    crd
}

/// Marks the older version of these kinds as deprecated.
fn deprecate(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let group = crd.spec.group.clone();
    let newest = crd
        .spec
        .versions
        .first()
        .map(|version| version.name.clone())
        .unwrap_or_default();
    for version in crd.spec.versions.iter_mut().skip(1) {
        version.deprecated = Some(true);
        version.deprecation_warning = Some(format!(
            "{group}/{} is deprecated; use {group}/{newest}",
            version.name
        ));
    }
    crd
}

/// Adds an older version of the same kind, in which KubeEdge's samples and older manifests are written. Its schema accepts fields with
/// other names, so that no object is refused for its age.
fn also(crd: CustomResourceDefinition, name: &str) -> CustomResourceDefinition {
    older(crd, name, [("spec", open()), ("status", open())])
}

/// Adds an older version whose specification has the same fields, and may have others.
fn with_open_version(crd: CustomResourceDefinition, name: &str) -> CustomResourceDefinition {
    let newest = crd.spec.versions.first();
    let schema = newest.and_then(|newest| newest.schema.as_ref()?.open_api_v3_schema.as_ref());
    let spec = schema.and_then(|schema| schema.properties.as_ref()?.get("spec"));
    let mut spec = spec.cloned().unwrap_or_else(open);
    open_below(&mut spec);
    let mut crd = older(crd, name, [("spec", spec), ("status", open())]);
    let older = crd.spec.versions.last_mut();
    let schema = older.and_then(|older| older.schema.as_mut()?.open_api_v3_schema.as_mut());
    if let Some(schema) = schema {
        schema.required = Some(vec!["spec".to_owned()]);
    }
    crd
}

/// Lets objects of this schema, and those in it, have other fields.
fn open_below(schema: &mut JSONSchemaProps) {
    if let Some(properties) = &mut schema.properties {
        properties.values_mut().for_each(open_below);
        schema.x_kubernetes_preserve_unknown_fields = Some(true);
    }
}

/// Returns the schema of an arbitrary object.
fn open() -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some("object".into()),
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..Default::default()
    }
}

fn list_of(items: JSONSchemaProps) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some("array".into()),
        items: Some(JSONSchemaPropsOrArray::Schema(Box::new(items))),
        ..Default::default()
    }
}

/// Adds an older version whose objects have these fields.
fn older<const N: usize>(
    mut crd: CustomResourceDefinition,
    name: &str,
    properties: [(&str, JSONSchemaProps); N],
) -> CustomResourceDefinition {
    let properties = properties.map(|(name, schema)| (name.to_owned(), schema));
    let schema = JSONSchemaProps {
        type_: Some("object".into()),
        description: Some("An older version, whose fields are not checked.".into()),
        properties: Some(properties.into()),
        ..Default::default()
    };
    crd.spec
        .versions
        .extend(
            crd.spec
                .versions
                .first()
                .cloned()
                .map(|newest| CustomResourceDefinitionVersion {
                    name: name.into(),
                    storage: false,
                    schema: Some(CustomResourceValidation {
                        open_api_v3_schema: Some(schema),
                    }),
                    ..newest
                }),
        );
    crd
}

/// Returns a definition as YAML.
///
/// # Errors
/// The definition cannot be written as YAML, which does not happen for those of [`all`].
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    serde_saphyr::to_string(crd)
}

#[cfg(test)]
mod tests;
