//! Schemas of fields that hold whatever a user writes.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An object of any form.
pub(crate) fn open(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A list of such objects.
pub(crate) fn open_list(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": open(generator)})
}
