//! The additional properties of a kind from a CustomResourceDefinition.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{object::as_map, schema::structural_schema::Structural};

/// Converts an object, of whichever version, into a version of its kind.
pub type Convert = fn(version: &str, object: Value) -> Value;

/// The JSON pointers of the values that an object's `scale` subresource shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// The desired number of replicas.
    pub replicas: String,
    /// The current number of replicas.
    pub status_replicas: String,
    /// A selector that is one text; built-in kinds have an object.
    pub selector: Option<String>,
}

/// A column that a definition adds to its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrinterColumn {
    /// The name, which is its heading.
    pub name: String,
    /// The type of OpenAPI.
    pub type_: String,
    /// The format of OpenAPI.
    pub format: String,
    /// The description.
    pub description: String,
    /// The path of the value in an object.
    pub json_path: String,
    /// 0 for columns that are always shown.
    pub priority: i32,
}

/// The additional properties of a kind from a definition.
#[derive(Debug)]
pub struct Defined {
    /// The whole definition, to find out whether a newer one differs.
    pub(super) spec: CustomResourceDefinitionSpec,
    pub(super) accepted: CustomResourceDefinitionNames,
    /// Whether the same objects are served in another version too.
    pub has_versions: bool,
    /// The version in which objects are stored.
    pub storage_version: String,
    /// The schema of that version, where it is another one.
    pub(super) storage_source: Option<Value>,
    /// The same, compiled at the first write.
    pub(super) storage_schema: OnceLock<Structural>,
    /// Converts an object between versions; without it they differ only in `apiVersion`.
    pub convert: Option<Convert>,
    /// Whether objects that were stored before the schema had its defaults are returned with them.
    pub defaults_on_read: bool,
    pub(super) scale: Option<ScalePaths>,
    /// The warning for clients that use this version.
    pub deprecation_warning: Option<String>,
    /// The fields that field selectors may name, besides name and namespace: `spec.color`.
    pub selectable: Vec<String>,
    /// Whether its definition is being deleted.
    pub(super) is_terminating: AtomicBool,
    /// Cancelled when the kind is no longer served like this: watches end with it.
    pub retired: CancellationToken,
}

impl Defined {
    /// Reports whether nothing new may be created.
    pub fn is_terminating(&self) -> bool {
        self.is_terminating.load(Ordering::Relaxed)
    }

    /// Turns an object of this version into one of the storage version, which loses the fields that are unknown there.
    pub fn to_storage(&self, mut object: Value) -> Value {
        let Some(source) = &self.storage_source else {
            return object;
        };
        if let Some(convert) = self.convert {
            return convert(&self.storage_version, object);
        }
        let version = format!("{}/{}", self.spec.group, self.storage_version);
        as_map(&mut object).insert("apiVersion".into(), version.into());
        self.storage_schema
            .get_or_init(|| Structural::new(source))
            .prune(&mut object);
        object
    }

    /// Reports whether `definition` has the same content; takes over whether it is being deleted.
    pub(super) fn still_holds(&self, definition: &CustomResourceDefinition) -> bool {
        let holds = self.spec == definition.spec && &self.accepted == names(definition);
        if holds {
            self.is_terminating
                .store(is_terminating(definition), Ordering::Relaxed);
        }
        holds
    }
}

/// Returns the names under which it is served: the accepted ones, or the requested ones until they are accepted.
pub(super) fn names(definition: &CustomResourceDefinition) -> &CustomResourceDefinitionNames {
    let accepted = definition
        .status
        .as_ref()
        .and_then(|status| status.accepted_names.as_ref());
    accepted
        .filter(|names| !names.plural.is_empty())
        .unwrap_or(&definition.spec.names)
}

pub(super) fn is_terminating(definition: &CustomResourceDefinition) -> bool {
    definition.metadata.deletion_timestamp.is_some()
}
