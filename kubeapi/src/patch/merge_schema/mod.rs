//! Describes how parts of an object are merged: which lists are maps by a key, which are sets, and what is always written as a whole.
//! Built-in kinds have a table, kinds from definitions their schema.

use serde_json::Value;

use self::builtin::{List, ListMerge, Structure};
use super::target::Target;

pub(super) mod builtin;

/// What is known of one place in an object.
#[derive(Clone, Copy, Debug)]
pub(super) enum MergeSchema<'a> {
    /// A part of a built-in kind.
    Known(&'static Structure),
    /// A defined kind's whole object.
    Root(&'a Value),
    /// A part of a defined kind.
    Defined(&'a Value),
    /// Nothing is known: maps merge field by field, lists are written as a whole.
    Free,
}

/// A key field that distinguishes list items, and its default if an item lacks it.
pub(super) type KeyField<'a> = (&'a str, Option<Value>);

/// The parts of a value that can have owners of their own.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ValueParts<'a> {
    /// The value as a whole.
    Whole,
    /// Each field of the object.
    Fields,
    /// Each item of the list, distinguished by these keys.
    Keyed(Vec<KeyField<'a>>),
    /// Each value of the list.
    Values,
}

impl<'a> MergeSchema<'a> {
    /// Returns the schema of the whole object.
    pub(super) fn of(target: &Target<'a>) -> Self {
        match target.schema {
            Some(schema) => Self::Root(schema),
            None => Self::Known(builtin::kind(target.group, target.version, target.kind)),
        }
    }

    /// Returns the schema of the field `name`.
    pub(super) fn field(self, name: &str) -> Self {
        match self {
            Self::Known(structure) => {
                let field = structure.field(name);
                field.map_or(Self::Free, |field| Self::Known(&field.of))
            }
            Self::Root(_) if name == "metadata" => Self::Known(builtin::metadata()),
            Self::Root(schema) | Self::Defined(schema) => {
                let field = schema.get("properties").and_then(|fields| fields.get(name));
                let field = field.or_else(|| {
                    schema
                        .get("additionalProperties")
                        .filter(|rest| rest.is_object())
                });
                field.map_or(Self::Free, Self::Defined)
            }
            Self::Free => Self::Free,
        }
    }

    /// Returns the schema of the items of this list.
    pub(super) fn items(self) -> Self {
        match self {
            Self::Known(Structure::List { items, .. }) => Self::Known(items),
            Self::Root(schema) | Self::Defined(schema) => {
                schema.get("items").map_or(Self::Free, Self::Defined)
            }
            Self::Known(_) | Self::Free => Self::Free,
        }
    }

    /// Reports whether an object has the field `name` in Kubernetes even if it is absent here: an empty object, or null.
    pub(super) fn is_always_present(self, name: &str) -> bool {
        match self {
            Self::Known(structure) => structure
                .field(name)
                .is_some_and(|field| field.is_always_present),
            Self::Root(_) | Self::Defined(_) | Self::Free => false,
        }
    }

    /// Reports whether Kubernetes leaves out the field `name` if it has this value: an empty list, or an empty map.
    pub(super) fn leaves_out(self, name: &str, value: &Value) -> bool {
        let Self::Known(structure) = self else {
            return false;
        };
        let field = structure.field(name);
        match value {
            Value::Array(items) => {
                items.is_empty() && field.is_none_or(|field| !field.is_always_present)
            }
            Value::Object(map) => {
                map.is_empty()
                    && field
                        .is_some_and(|field| field.of == Structure::Map && !field.is_always_present)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    /// Reports whether the schema names the field `name`, instead of all fields of a map.
    pub(super) fn has_field(self, name: &str) -> bool {
        match self {
            Self::Known(structure) => !matches!(structure, Structure::Map),
            Self::Root(_) if matches!(name, "apiVersion" | "kind" | "metadata") => true,
            Self::Root(schema) | Self::Defined(schema) => schema
                .get("properties")
                .is_some_and(|fields| fields.get(name).is_some()),
            Self::Free => false,
        }
    }

    /// Returns the parts of `value` at this place that can have owners.
    pub(super) fn parts(self, value: &Value) -> ValueParts<'a> {
        match value {
            Value::Object(_) if self.is_whole() => ValueParts::Whole,
            Value::Object(_) => ValueParts::Fields,
            Value::Array(_) => self.list(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => ValueParts::Whole,
        }
    }

    /// Returns how a strategic merge patch merges this list.
    pub(super) fn list_merge(self) -> ListMerge {
        match self {
            Self::Known(Structure::List { merge, .. }) => *merge,
            Self::Known(_) | Self::Root(_) | Self::Defined(_) | Self::Free => ListMerge::Replace,
        }
    }

    fn is_whole(self) -> bool {
        match self {
            Self::Known(structure) => *structure == Structure::Whole,
            Self::Root(schema) | Self::Defined(schema) => {
                text(schema, "x-kubernetes-map-type") == Some("atomic")
            }
            Self::Free => false,
        }
    }

    fn list(self) -> ValueParts<'a> {
        match self {
            Self::Known(Structure::List { list, .. }) => match list {
                List::Whole => ValueParts::Whole,
                List::Values => ValueParts::Values,
                List::Keyed(keys) => ValueParts::Keyed(keys.clone()),
            },
            Self::Root(schema) | Self::Defined(schema) => {
                match text(schema, "x-kubernetes-list-type") {
                    Some("set") => ValueParts::Values,
                    Some("map") => ValueParts::Keyed(defined_keys(schema)),
                    _ => ValueParts::Whole,
                }
            }
            Self::Known(_) | Self::Free => ValueParts::Whole,
        }
    }
}

fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name).and_then(Value::as_str)
}

fn defined_keys(schema: &Value) -> Vec<KeyField<'_>> {
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let fields = schema.pointer("/items/properties");
    let with_default = |key| {
        let field = fields.and_then(|fields| fields.get(key));
        (key, field.and_then(|field| field.get("default")).cloned())
    };
    keys.filter_map(Value::as_str).map(with_default).collect()
}
