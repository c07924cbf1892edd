//! The schemas of Kubernetes' own types, as data. To make them of the types while the program runs takes a megabyte and a half of
//! code, which every node would hold in memory.
//!
//! `published/shapes.txt` has a line for each type, sorted: its name, a space, its OpenAPI v3 schema without descriptions.
//! `published/descriptions.txt` has them, which only `kubectl explain` asks for: by field, that of the type itself under no name.
//! `make schemas` rewrites both from the types of `k8s-openapi` for the version that this program is built with.
//!
//! `published/newer-shapes.txt` and `published/newer-descriptions.txt` have the types of kinds that came with later versions. They
//! were made in the same way with the feature `v1_36` of `k8s-openapi`, of which one build takes a single version.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

/// The metadata of lists.
pub(crate) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// The answer to a request that returns no object.
pub(crate) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

const SHAPES: &str = include_str!("shapes.txt");
const NEWER_SHAPES: &str = include_str!("newer-shapes.txt");
const DESCRIPTIONS: &str = include_str!("descriptions.txt");
const NEWER_DESCRIPTIONS: &str = include_str!("newer-descriptions.txt");

/// The schema of the type of this name, such as `io.k8s.api.core.v1.Pod`, without descriptions.
pub(super) fn shape(name: &str) -> Option<Value> {
    serde_json::from_str(find(SHAPES, name).or_else(|| find(NEWER_SHAPES, name))?).ok()
}

/// Adds the schemas of the named type and of all that it is made of, with descriptions, by name.
pub(crate) fn add(name: &str, schemas: &mut Map<String, Value>) {
    if schemas.contains_key(name) {
        return;
    }
    let Some(schema) = described_schema(name) else {
        return;
    };
    let parts = references(&schema);
    schemas.insert(name.to_owned(), schema);
    for part in parts {
        add(&part, schemas);
    }
}

/// The schema of a type, with descriptions.
fn described_schema(name: &str) -> Option<Value> {
    let mut schema = shape(name)?;
    let text = find(DESCRIPTIONS, name).or_else(|| find(NEWER_DESCRIPTIONS, name));
    let descriptions = text.and_then(|text| serde_json::from_str::<Map<_, _>>(text).ok());
    for (field, description) in descriptions.into_iter().flatten() {
        let described = match field.as_str() {
            "" => Some(&mut schema),
            field => schema
                .get_mut("properties")
                .and_then(|fields| fields.get_mut(field)),
        };
        if let Some(Value::Object(described)) = described {
            described.insert("description".to_owned(), description);
        }
    }
    Some(schema)
}

/// The names of the types that a schema refers to.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(map) => {
            let own = map
                .get("$ref")
                .and_then(Value::as_str)
                .map(|path| type_name(path).to_owned());
            own.into_iter()
                .chain(map.values().flat_map(references))
                .collect()
        }
        Value::Array(list) => list.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// The name of the type at `path`: `#/components/schemas/<name>`.
pub(super) fn type_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What stands behind `name` in `text`, whose lines are sorted.
fn find<'a>(mut text: &'a str, name: &str) -> Option<&'a str> {
    while !text.is_empty() {
        let (before, behind) = text.split_at(text.floor_char_boundary(text.len() / 2));
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let end = behind.find('\n').map_or(text.len(), |at| before.len() + at);
        let (key, value) = text.get(start..end)?.split_once(' ')?;
        text = match name.cmp(key) {
            std::cmp::Ordering::Equal => return Some(value),
            std::cmp::Ordering::Less => text.get(..start)?,
            std::cmp::Ordering::Greater => text.get(end + 1..).unwrap_or_default(),
        };
    }
    None
}
