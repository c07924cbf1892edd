//! The columns of a kind, and how its objects become rows.

use jiff::Timestamp;
use serde_json::{Value, json};

/// A column: name, type, format, and 1 for those that only `-o wide` shows.
pub(super) type Column = (&'static str, &'static str, &'static str, i32);

/// The first column of nearly all kinds.
pub(super) const NAME: Column = ("Name", "string", "name", 0);

/// Kubernetes' documentation of `metadata.name`.
const NAME_DESCRIPTION: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// Kubernetes' documentation of `metadata.creationTimestamp`.
const AGE_DESCRIPTION: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The age of the object.
pub(super) const AGE: Column = ("Age", "string", "", 0);

/// Returns a column that is always shown.
pub(super) const fn default_column(name: &'static str) -> Column {
    (name, "string", "", 0)
}

/// Returns a column of numbers that is always shown.
pub(super) const fn integer(name: &'static str) -> Column {
    (name, "integer", "", 0)
}

/// Returns a column of flags that is always shown.
pub(super) const fn boolean(name: &'static str) -> Column {
    (name, "boolean", "", 0)
}

/// Returns a column that only `-o wide` shows.
pub(super) const fn wide(name: &'static str) -> Column {
    (name, "string", "", 1)
}

/// How a kind's objects become rows.
pub(super) struct Printer {
    pub(super) columns: &'static [Column],
    pub(super) cells: fn(&Value, Timestamp) -> Vec<Value>,
}

pub(super) fn definition(&(name, type_, format, priority): &Column) -> Value {
    // the documentation of the other columns is left out
    let description = match name {
        "Name" => NAME_DESCRIPTION,
        "Age" => AGE_DESCRIPTION,
        _ => "",
    };
    json!({"name": name, "type": type_, "format": format, "description": description, "priority": priority})
}
