//! Schemas of fields that hold whatever a user writes.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// An object of any form.
pub(crate) fn open(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A list of such objects.
pub(crate) fn open_list(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": open(generator)})
}

/// The same, or `null`, as YAML has a key of which only comments are left.
pub(crate) fn open_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true})
}

/// `null` is what is there where nothing is.
pub(crate) fn or_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
