//! Schemas of fields with arbitrary contents.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// Returns the schema of an arbitrary object.
pub(crate) fn open(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Returns the schema of a list of arbitrary objects.
pub(crate) fn open_list(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": open(generator)})
}

/// Returns the schema of an arbitrary object or `null`, which YAML has for a key with nothing but comments below it.
pub(crate) fn open_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// Deserialises `null` as the default value.
pub(crate) fn or_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
