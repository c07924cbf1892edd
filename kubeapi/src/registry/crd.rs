//! Kinds from CustomResourceDefinitions.

use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    defined::{Conversion, Defined, PrinterColumn, ScalePaths, is_terminating, names, schema},
    kind::{Kind, SchemaSource},
    version_priority::version_priority,
};
use crate::object::pointer_of;
use objectstore::Resource;

/// Returns one kind for each served version. `conversion` converts its objects between versions.
pub(super) fn kinds(
    definition: &CustomResourceDefinition,
    conversion: Conversion,
    fills_on_read: bool,
) -> impl Iterator<Item = Kind> {
    let served = definition
        .spec
        .versions
        .iter()
        .filter(|version| version.served);
    served.map(move |version| kind(definition, version, conversion, fills_on_read))
}

fn kind(
    definition: &CustomResourceDefinition,
    version: &CustomResourceDefinitionVersion,
    conversion: Conversion,
    fills_on_read: bool,
) -> Kind {
    let (spec, names) = (&definition.spec, names(definition));
    let subresources = version.subresources.as_ref();
    let scale = subresources
        .and_then(|subresources| subresources.scale.as_ref())
        .map(|scale| ScalePaths {
            replicas: pointer_of(&scale.spec_replicas_path),
            status_replicas: pointer_of(&scale.status_replicas_path),
            selector: scale.label_selector_path.as_deref().map(pointer_of),
        });
    let stored = spec
        .versions
        .iter()
        .find(|version| version.storage)
        .unwrap_or(version);
    let has_defaults = || spec.versions.iter().any(|one| has_defaults(&schema(one)));
    let defaults_on_read = fills_on_read && has_defaults();
    let schema = schema(version);
    Kind {
        group: spec.group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        plural: names.plural.clone(),
        singular: names
            .singular
            .clone()
            .unwrap_or_else(|| names.kind.to_lowercase()),
        short_names: names.short_names.clone().unwrap_or_default(),
        categories: names.categories.clone().unwrap_or_default(),
        namespaced: spec.scope == "Namespaced",
        status: subresources.is_some_and(|subresources| subresources.status.is_some()),
        builtin: None,
        columns: columns(version),
        resource: Resource::new(&spec.group, &names.plural),
        schema: OnceLock::new(),
        compiled: OnceLock::new(),
        defined: Some(Box::new(Defined {
            spec: spec.clone(),
            accepted: names.clone(),
            has_versions: spec.versions.len() > 1,
            storage_version: stored.name.clone(),
            schemas: spec.versions.iter().map(|_| OnceLock::new()).collect(),
            conversion,
            defaults_on_read,
            scale,
            deprecation_warning: deprecation_warning(definition, version),
            selectable: selectable(version),
            is_terminating: is_terminating(definition).into(),
            retired: CancellationToken::new(),
        })),
        source: SchemaSource::Definition(schema),
    }
}

/// Reports whether a schema, or one within it, has a default.
fn has_defaults(schema: &Value) -> bool {
    let Value::Object(schema) = schema else {
        return false;
    };
    let fields = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let within = ["items", "additionalProperties"]
        .iter()
        .filter_map(|key| schema.get(*key));
    schema.contains_key("default")
        || fields
            .map(|(_, field)| field)
            .chain(within)
            .any(has_defaults)
}

fn selectable(version: &CustomResourceDefinitionVersion) -> Vec<String> {
    let fields = version.selectable_fields.iter().flatten();
    fields
        .map(|field| field.json_path.trim_start_matches('.').to_owned())
        .collect()
}

/// Returns the warning of a deprecated version, or else one that names the newer version.
fn deprecation_warning(
    definition: &CustomResourceDefinition,
    version: &CustomResourceDefinitionVersion,
) -> Option<String> {
    if version.deprecated != Some(true) {
        return None;
    }
    if let Some(warning) = &version.deprecation_warning {
        return Some(warning.clone());
    }
    let CustomResourceDefinitionSpec {
        group, versions, ..
    } = &definition.spec;
    let kind = &names(definition).kind;
    let mut better: Vec<_> = versions
        .iter()
        .filter(|other| other.served && other.deprecated != Some(true))
        .collect();
    better.sort_by_key(|other| std::cmp::Reverse(version_priority(&other.name)));
    let instead = better
        .first()
        .filter(|other| version_priority(&other.name) > version_priority(&version.name));
    let deprecated = format!("{group}/{} {kind} is deprecated", version.name);
    Some(match instead {
        Some(other) => format!("{deprecated}; use {group}/{} {kind}", other.name),
        None => deprecated,
    })
}

fn columns(version: &CustomResourceDefinitionVersion) -> Vec<PrinterColumn> {
    let columns = version
        .additional_printer_columns
        .iter()
        .flatten()
        .map(|column| PrinterColumn {
            name: column.name.clone(),
            type_: column.type_.clone(),
            format: column.format.clone().unwrap_or_default(),
            description: column.description.clone().unwrap_or_default(),
            json_path: column.json_path.clone(),
            priority: column.priority.unwrap_or_default(),
        });
    let columns: Vec<_> = columns.collect();
    if !columns.is_empty() {
        return columns;
    }
    vec![PrinterColumn {
        name: "Age".into(),
        type_: "date".into(),
        format: String::new(),
        description: "When the object was created.".into(),
        json_path: ".metadata.creationTimestamp".into(),
        priority: 0,
    }]
}
