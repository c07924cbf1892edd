//! What a kind from a CustomResourceDefinition has beside the rest.

use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Brings an object into a version of its kind, whichever one it is in.
pub type Convert = fn(version: &str, object: Value) -> Value;

/// Where in an object its `scale` subresource has what it shows: JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScalePaths {
    pub(crate) replicas: String,
    pub(crate) status_replicas: String,
    /// A selector in one text; the built-in kinds have theirs as an object.
    pub(crate) selector: Option<String>,
}

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
    pub(super) spec: CustomResourceDefinitionSpec,
    pub(super) accepted: CustomResourceDefinitionNames,
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
    pub(super) is_terminating: AtomicBool,
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

/// The names under which it is served: those accepted, or, while nobody has decided, those that it asks for.
pub(super) fn names(definition: &CustomResourceDefinition) -> &CustomResourceDefinitionNames {
    let accepted = definition.status.as_ref().and_then(|status| status.accepted_names.as_ref());
    accepted.filter(|names| !names.plural.is_empty()).unwrap_or(&definition.spec.names)
}

pub(super) fn is_terminating(definition: &CustomResourceDefinition) -> bool {
    definition.metadata.deletion_timestamp.is_some()
}
