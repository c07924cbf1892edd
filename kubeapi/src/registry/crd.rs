//! Kinds from CustomResourceDefinitions.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Conversions, Convert, Kind, ScalePaths, SchemaSource};
use crate::{discovery::maturity, object::pointer_of, store::Resource};

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

/// What a kind from a definition has beside the rest.
#[derive(Debug)]
pub(crate) struct Defined {
    /// The whole definition, to tell whether a newer one says anything new.
    spec: CustomResourceDefinitionSpec,
    accepted: CustomResourceDefinitionNames,
    /// The same objects are served in another version too.
    pub(crate) has_versions: bool,
    /// The version in which objects are stored.
    pub(crate) storage_version: String,
    /// How an object is brought from one version into another; without it they differ in `apiVersion` alone.
    pub(crate) convert: Option<Convert>,
    /// Objects that were stored before the schema had its defaults are answered with them.
    pub(crate) defaults_on_read: bool,
    pub(super) scale: Option<ScalePaths>,
    /// What is told to whoever uses this version.
    pub(crate) deprecation_warning: Option<String>,
    /// The fields that field selectors may name, beside name and namespace: `spec.color`.
    pub(crate) selectable: Vec<String>,
    /// Its definition is being deleted.
    is_terminating: AtomicBool,
    /// Ends when this is no longer how the kind is served: watches end with it.
    pub(crate) retired: CancellationToken,
}

impl Defined {
    /// Whether nothing new may be created.
    pub(crate) fn is_terminating(&self) -> bool {
        self.is_terminating.load(Ordering::Relaxed)
    }

    /// Whether `definition` says the same; takes over whether it is being deleted.
    pub(super) fn still_holds(&self, definition: &CustomResourceDefinition) -> bool {
        let holds = self.spec == definition.spec && &self.accepted == names(definition);
        if holds {
            self.is_terminating.store(is_terminating(definition), Ordering::Relaxed);
        }
        holds
    }
}

/// One kind for each served version.
pub(super) fn kinds<'a>(
    definition: &'a CustomResourceDefinition,
    conversions: &Conversions,
    fills_on_read: bool,
) -> impl Iterator<Item = Kind> + use<'a> {
    let convert = conversions.find(&definition.spec.group, &definition.spec.names.plural);
    let served = definition.spec.versions.iter().filter(|version| version.served);
    served.map(move |version| kind(definition, version, convert, fills_on_read))
}

/// The names under which it is served: those accepted, or, while nobody has decided, those that it asks for.
fn names(definition: &CustomResourceDefinition) -> &CustomResourceDefinitionNames {
    let accepted = definition.status.as_ref().and_then(|status| status.accepted_names.as_ref());
    accepted.filter(|names| !names.plural.is_empty()).unwrap_or(&definition.spec.names)
}

fn is_terminating(definition: &CustomResourceDefinition) -> bool {
    definition.metadata.deletion_timestamp.is_some()
}

fn kind(
    definition: &CustomResourceDefinition,
    version: &CustomResourceDefinitionVersion,
    convert: Option<Convert>,
    fills_on_read: bool,
) -> Kind {
    let (spec, names) = (&definition.spec, names(definition));
    let subresources = version.subresources.as_ref();
    let scale = subresources.and_then(|subresources| subresources.scale.as_ref()).map(|scale| ScalePaths {
        replicas: pointer_of(&scale.spec_replicas_path),
        status_replicas: pointer_of(&scale.status_replicas_path),
        selector: scale.label_selector_path.as_deref().map(pointer_of),
    });
    let stored = spec.versions.iter().find(|version| version.storage).unwrap_or(version);
    let schema = schema(version);
    Kind {
        group: spec.group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        plural: names.plural.clone(),
        singular: names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase()),
        short_names: names.short_names.clone().unwrap_or_default(),
        categories: names.categories.clone().unwrap_or_default(),
        namespaced: spec.scope == "Namespaced",
        status: subresources.is_some_and(|subresources| subresources.status.is_some()),
        builtin: None,
        columns: columns(version),
        resource: Resource::new(&spec.group, &names.plural),
        schema: OnceLock::new(),
        defined: Some(Box::new(Defined {
            spec: spec.clone(),
            accepted: names.clone(),
            has_versions: spec.versions.len() > 1,
            storage_version: stored.name.clone(),
            convert,
            defaults_on_read: fills_on_read && has_defaults(&schema),
            scale,
            deprecation_warning: deprecation_warning(definition, version),
            selectable: selectable(version),
            is_terminating: is_terminating(definition).into(),
            retired: CancellationToken::new(),
        })),
        source: SchemaSource::Definition(schema),
    }
}

/// Whether a schema, or one within it, says what stands for an absent value.
fn has_defaults(schema: &Value) -> bool {
    let Value::Object(schema) = schema else { return false };
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let within = ["items", "additionalProperties"].iter().filter_map(|key| schema.get(*key));
    schema.contains_key("default") || fields.map(|(_, field)| field).chain(within).any(has_defaults)
}

/// A version without schema takes anything.
fn schema(version: &CustomResourceDefinitionVersion) -> Value {
    let document = version.schema.as_ref().and_then(|validation| validation.open_api_v3_schema.as_ref());
    document
        .and_then(|document| serde_json::to_value(document).ok())
        .unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
}

fn selectable(version: &CustomResourceDefinitionVersion) -> Vec<String> {
    let fields = version.selectable_fields.iter().flatten();
    fields.map(|field| field.json_path.trim_start_matches('.').to_owned()).collect()
}

/// What a deprecated version says of itself, or else which newer one there is.
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
    let CustomResourceDefinitionSpec { group, versions, .. } = &definition.spec;
    let kind = &names(definition).kind;
    let mut better: Vec<_> =
        versions.iter().filter(|other| other.served && other.deprecated != Some(true)).collect();
    better.sort_by_key(|other| std::cmp::Reverse(maturity(&other.name)));
    let instead = better.first().filter(|other| maturity(&other.name) > maturity(&version.name));
    let deprecated = format!("{group}/{} {kind} is deprecated", version.name);
    Some(match instead {
        Some(other) => format!("{deprecated}; use {group}/{} {kind}", other.name),
        None => deprecated,
    })
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
