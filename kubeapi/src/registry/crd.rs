//! Kinds from CustomResourceDefinitions.

use std::sync::OnceLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use serde_json::{Value, json};

use super::{Kind, SchemaSource};
use crate::store::Resource;

/// A column that a definition adds to its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrinterColumn {
    pub(crate) name: String,
    pub(crate) type_: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) json_path: String,
    pub(crate) priority: i32,
}

/// One kind for each served version.
pub(super) fn kinds(definition: &CustomResourceDefinition) -> impl Iterator<Item = Kind> {
    definition.spec.versions.iter().filter(|version| version.served).map(|version| kind(definition, version))
}

fn kind(definition: &CustomResourceDefinition, version: &CustomResourceDefinitionVersion) -> Kind {
    let spec = &definition.spec;
    let names = &spec.names;
    Kind {
        group: spec.group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase()),
        short_names: names.short_names.clone().unwrap_or_default(),
        categories: names.categories.clone().unwrap_or_default(),
        namespaced: spec.scope == "Namespaced",
        status: version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some()),
        builtin: None,
        columns: columns(version),
        source: SchemaSource::Definition(schema(version)),
        resource: Resource::new(&spec.group, &names.plural),
        schema: OnceLock::new(),
    }
}

/// A version without schema takes anything.
fn schema(version: &CustomResourceDefinitionVersion) -> Value {
    let document = version.schema.as_ref().and_then(|validation| validation.open_api_v3_schema.as_ref());
    document
        .and_then(|document| serde_json::to_value(document).ok())
        .unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
}

fn columns(version: &CustomResourceDefinitionVersion) -> Vec<PrinterColumn> {
    let columns = version.additional_printer_columns.iter().flatten().map(|column| PrinterColumn {
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
