//! The columns of a kind, and how its objects become rows.

use jiff::Timestamp;
use serde_json::{Value, json};

/// A column: name, type, format, and 1 for those that only `-o wide` shows.
pub(super) type Column = (&'static str, &'static str, &'static str, i32);

/// The first column of nearly all kinds.
pub(super) const NAME: Column = ("Name", "string", "name", 0);

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
    json!({"name": name, "type": type_, "format": format, "description": "", "priority": priority})
}
