//! The structure of the built-in kinds: `patchStrategy`, `patchMergeKey`, `listType`, `listMapKey` and `mapType` of the published API.
//!
//! `structures.txt` has a line for each kind, `GROUP/VERSION/KIND TYPE`, and then one for each type with parts: its name and its fields,
//! `NAME:STRUCTURE`. With `NAME!` the field is always present, as an empty object or null. Structures: the name of a type, `{}` (a map),
//! `*` (an object with one owner), `[KEY=DEFAULT,…]ITEM` (a list by keys), `[=]` (a set), `[]` (a list with one owner).
//! After `~` stands the key by which a strategic merge patch merges the list; without a key it adds values.
//!
//! A field that is not in the table is a scalar, or a list that is replaced as a whole.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

/// The structures, as published with Kubernetes 1.36.
const STRUCTURES: &str = include_str!("structures.txt");

/// What a strategic merge patch does with a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::patch) enum ListMerge {
    /// Replaces the list.
    Replace,
    /// Adds values.
    Values,
    /// Merges items by this key.
    Key(&'static str),
}

/// Which parts of a list can have owners.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::patch) enum List {
    /// The whole list has one owner (`atomic`).
    Whole,
    /// Each value has owners (`set`).
    Values,
    /// Each item has owners; items are distinguished by these keys, which may have a default (`map`).
    Keyed(Vec<(&'static str, Option<Value>)>),
}

/// The structure of a value.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::patch) enum Structure {
    /// A scalar, or a list that is replaced.
    Scalar,
    /// An object that can have owners only as a whole (`mapType: atomic`).
    Whole,
    /// A map from any name to a scalar.
    Map,
    /// An object of the type at this place of the table.
    Object(usize),
    /// A list.
    List {
        list: List,
        merge: ListMerge,
        items: Box<Structure>,
    },
}

/// A field of a type.
#[derive(Debug)]
pub(super) struct Field {
    name: &'static str,
    /// Whether an object always has the field in Kubernetes, where it is empty or null instead of absent.
    pub(super) is_always_present: bool,
    pub(super) of: Structure,
}

/// The type of an object: its fields that are no scalars.
#[derive(Debug, Default)]
pub(super) struct Type(Vec<Field>);

impl Type {
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        self.0.iter().find(|field| field.name == name)
    }
}

/// All types, and which one a kind has.
struct Structures {
    types: Vec<Type>,
    kinds: HashMap<&'static str, Structure>,
    /// The metadata of an object.
    metadata: Structure,
    /// A kind of which nothing but the metadata is known.
    other: Structure,
}

static TABLE: LazyLock<Structures> = LazyLock::new(|| {
    let (kinds, types) = STRUCTURES.split_once("\n\n").unwrap_or_default();
    let words = |line: &'static str| line.split_once(' ').unwrap_or((line, ""));
    let places: HashMap<_, _> = types.lines().map(|line| words(line).0).zip(0..).collect();
    let mut types: Vec<_> = types
        .lines()
        .map(|line| {
            let fields = words(line).1.split(' ');
            Type(fields.map(|field| parse_field(field, &places)).collect())
        })
        .collect();
    let metadata = parse("meta.ObjectMeta", &places);
    let kinds = kinds.lines().map(words);
    let kinds = kinds.map(|(kind, name)| (kind, parse(name, &places)));
    let kinds = kinds.collect();
    types.push(Type(vec![Field {
        name: "metadata",
        is_always_present: true,
        of: metadata.clone(),
    }]));
    Structures {
        other: Structure::Object(types.len() - 1),
        types,
        kinds,
        metadata,
    }
});

/// Parses `NAME:STRUCTURE` or `NAME!:STRUCTURE`.
fn parse_field(text: &'static str, places: &HashMap<&str, usize>) -> Field {
    let (name, structure) = text.split_once(':').unwrap_or((text, ""));
    let present = name.strip_suffix('!');
    Field {
        name: present.unwrap_or(name),
        is_always_present: present.is_some(),
        of: parse(structure, places),
    }
}

fn parse(text: &'static str, places: &HashMap<&str, usize>) -> Structure {
    match text {
        "" => Structure::Scalar,
        "*" => Structure::Whole,
        _ if text.starts_with('{') => Structure::Map,
        _ => match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((keys, rest)) => parse_list(keys, rest, places),
            // a type without parts is not in the table
            None => Structure::Object(places.get(text).copied().unwrap_or(usize::MAX)),
        },
    }
}

fn parse_list(keys: &'static str, rest: &'static str, places: &HashMap<&str, usize>) -> Structure {
    let (items, merge) = rest
        .split_once('~')
        .map_or((rest, None), |(items, key)| (items, Some(key)));
    let key = |text: &'static str| match text.split_once('=') {
        Some((key, default)) => {
            let number = default.parse::<u32>().map(Value::from);
            (key, Some(number.unwrap_or_else(|_| Value::from(default))))
        }
        None => (text, None),
    };
    Structure::List {
        list: match keys {
            "" => List::Whole,
            "=" => List::Values,
            keys => List::Keyed(keys.split(',').map(key).collect()),
        },
        merge: match merge {
            None => ListMerge::Replace,
            Some("") => ListMerge::Values,
            Some(key) => ListMerge::Key(key),
        },
        items: Box::new(parse(items, places)),
    }
}

impl Structure {
    /// Returns the field of an object, if it is in the table.
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        match self {
            Self::Object(place) => TABLE.types.get(*place)?.field(name),
            Self::Scalar | Self::Whole | Self::Map | Self::List { .. } => None,
        }
    }
}

/// Returns the structure of a built-in kind's object.
pub(super) fn kind(group: &str, version: &str, kind: &str) -> &'static Structure {
    let found = TABLE
        .kinds
        .get(format!("{group}/{version}/{kind}").as_str());
    found.unwrap_or(&TABLE.other)
}

/// Returns the structure of the metadata of every object.
pub(super) fn metadata() -> &'static Structure {
    &TABLE.metadata
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::{registry::Registry, schema::builtin_schema::published};

    #[test]
    fn each_kind_of_kubernetes_has_a_structure() {
        let registry = Registry::builtin();
        let kinds = registry.kinds().iter().map(|kind| kind.type_name());
        let kinds = kinds.filter(|name| !name.group.contains("kubeedge"));
        let absent: Vec<_> = kinds
            .filter(|name| *kind(name.group, name.version, name.kind) == TABLE.other)
            .map(|name| format!("{}/{}", name.api_version(), name.kind))
            .collect();
        assert_eq!(absent, [""; 0]);
    }

    #[test]
    fn the_table_speaks_of_published_fields() {
        let (_, types) = STRUCTURES.split_once("\n\n").unwrap();
        for (line, found) in types.lines().zip(&TABLE.types) {
            let name = line.split(' ').next().unwrap();
            let mut schemas = Map::new();
            published::add(&format!("io.k8s.api.{name}"), &mut schemas);
            // the type may be of a later version of Kubernetes
            let Some(schema) = schemas.get(&format!("io.k8s.api.{name}")) else {
                continue;
            };
            let fields = schema["properties"].as_object().unwrap();
            for field in found.0.iter().filter(|field| field.of != Structure::Scalar) {
                let is_object = fields
                    .get(field.name)
                    .is_none_or(|schema| schema["type"] != "string" && schema["type"] != "integer");
                assert!(is_object, "{name}.{}", field.name);
            }
        }
    }
}
