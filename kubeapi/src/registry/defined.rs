//! The additional properties of a kind from a CustomResourceDefinition.

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

use crate::{
    object::{as_map, object_size::ObjectTooLarge},
    schema::structural_schema::Structural,
};

/// Converts an object, of whichever version, into a version of its kind.
pub type Convert = fn(version: &str, object: Value) -> Value;

/// How objects are converted between the versions of a definition.
#[derive(Clone, Copy, Debug)]
pub enum Conversion {
    /// They differ in `apiVersion` and in the fields that a version knows.
    None,
    /// This program converts them.
    Function(Convert),
    /// The webhook of the definition converts them.
    Webhook,
}

/// The schema of one version of a definition.
#[derive(Debug)]
pub(super) struct VersionSchema {
    pub(super) source: Value,
    /// Compiled when an object of another version is first converted.
    compiled: OnceLock<Structural>,
}

impl VersionSchema {
    fn structural(&self) -> &Structural {
        self.compiled.get_or_init(|| Structural::new(&self.source))
    }
}

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
    /// The schemas of all versions, in the order of the definition, each read when it is first needed.
    pub(super) schemas: Vec<OnceLock<VersionSchema>>,
    /// How objects are converted between versions.
    pub conversion: Conversion,
    /// Whether objects that were stored before the schema of their version had its defaults are returned with them.
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

    /// Returns the definition, from which the kind was made.
    pub fn spec(&self) -> &CustomResourceDefinitionSpec {
        &self.spec
    }

    /// Returns `<group>/<version>` of the version in which objects are stored.
    pub fn storage_api_version(&self) -> String {
        format!("{}/{}", self.spec.group, self.storage_version)
    }

    /// Returns the schema of `<group>/<version>`; `None` if the definition has no such version.
    pub(crate) fn schema_of(&self, api_version: &str) -> Option<&Value> {
        Some(&self.version_schema(api_version)?.source)
    }

    /// Removes the fields that the version `<group>/<version>` does not know.
    pub(crate) fn prune(&self, api_version: &str, object: &mut Value) {
        if let Some(schema) = self.version_schema(api_version) {
            schema.structural().prune(object);
        }
    }

    /// Adds the defaults of the version `<group>/<version>`.
    ///
    /// # Errors
    /// The object would be too large with all of them.
    pub(crate) fn fill_defaults(
        &self,
        api_version: &str,
        object: &mut Value,
    ) -> Result<(), ObjectTooLarge> {
        self.version_schema(api_version)
            .map_or(Ok(()), |schema| schema.structural().fill_defaults(object))
    }

    fn version_schema(&self, api_version: &str) -> Option<&VersionSchema> {
        let (group, name) = api_version.split_once('/')?;
        let versions = &self.spec.versions;
        let index = versions
            .iter()
            .position(|version| group == self.spec.group && version.name == name)?;
        let schema = self.schemas.get(index)?.get_or_init(|| VersionSchema {
            source: versions.get(index).map(schema).unwrap_or_default(),
            compiled: OnceLock::new(),
        });
        Some(schema)
    }

    /// Converts an object into the version `<group>/<version>`, unless a webhook has to do so: then the object is returned as it is.
    pub(crate) fn convert_here(&self, api_version: &str, mut object: Value) -> Value {
        match self.conversion {
            Conversion::Webhook => {}
            Conversion::Function(convert) => {
                let version = api_version.rsplit('/').next().unwrap_or_default();
                object = convert(version, object);
                as_map(&mut object).insert("apiVersion".into(), api_version.into());
            }
            Conversion::None => {
                as_map(&mut object).insert("apiVersion".into(), api_version.into());
                self.prune(api_version, &mut object);
            }
        }
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

/// Returns a version's schema; a version without one accepts anything.
pub(super) fn schema(version: &CustomResourceDefinitionVersion) -> Value {
    let document = version
        .schema
        .as_ref()
        .and_then(|validation| validation.open_api_v3_schema.as_ref());
    document
        .and_then(|document| serde_json::to_value(document).ok())
        .unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
}
