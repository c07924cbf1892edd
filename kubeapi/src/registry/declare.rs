//! Declares the built-in kinds: a type, its names, and where it differs from a namespaced kind of the core group.

use std::sync::OnceLock;

use k8s_openapi::schemars::JsonSchema;

use super::{
    builtin::Builtin,
    kind::{Kind, SchemaSource},
};
use objectstore::Resource;

/// Declares a kind of a published type.
pub(super) fn kind<T: JsonSchema>(builtin: Builtin, kind: &str, plural: &str) -> Kind {
    let source = SchemaSource::Published {
        name: T::schema_name(),
        #[cfg(test)]
        generate: Some(|generator| generator.subschema_for::<T>()),
    };
    of_source(builtin, kind, plural, source)
}

/// Declares a kind that is newer than the types of the `k8s-openapi` dependency.
pub(super) fn newer(builtin: Builtin, kind: &str, plural: &str, name: &'static str) -> Kind {
    let source = SchemaSource::Published {
        name: name.into(),
        #[cfg(test)]
        generate: None,
    };
    of_source(builtin, kind, plural, source)
}

pub(super) fn of_source(builtin: Builtin, kind: &str, plural: &str, source: SchemaSource) -> Kind {
    Kind {
        group: String::new(),
        version: "v1".into(),
        kind: kind.into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        status: false,
        builtin: Some(builtin),
        columns: Vec::new(),
        source,
        resource: Resource::new("", plural),
        schema: OnceLock::new(),
        compiled: OnceLock::new(),
        defined: None,
    }
}

impl Kind {
    pub(super) fn in_group(mut self, group: &str) -> Self {
        self.resource = Resource::new(group, &self.plural);
        self.group = group.into();
        self
    }

    /// Makes its objects those of another stored kind.
    pub(super) fn stored_as(mut self, resource: Resource) -> Self {
        self.resource = resource;
        self
    }

    pub(super) fn in_version(mut self, version: &str) -> Self {
        self.version = version.into();
        self
    }

    pub(super) fn short(mut self, name: &str) -> Self {
        self.short_names.push(name.into());
        self
    }

    pub(super) fn category(mut self, name: &str) -> Self {
        self.categories.push(name.into());
        self
    }

    pub(super) fn cluster(mut self) -> Self {
        self.namespaced = false;
        self
    }

    pub(super) fn with_status(mut self) -> Self {
        self.status = true;
        self
    }
}
