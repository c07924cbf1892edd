//! The parts of an `openAPIV3Schema`. Pure.

use serde_json::{Map, Value};

/// Returns the nested schemas, each with the step to it.
pub(super) fn inner(schema: &Value) -> Vec<(String, &Value)> {
    let mut inner = Vec::new();
    inner.extend(part(schema, "additionalProperties"));
    inner.extend(keyed_schemas(schema, "properties"));
    inner.extend(part(schema, "not"));
    for name in ["allOf", "oneOf", "anyOf"] {
        inner.extend(listed_schemas(schema, name));
    }
    inner.extend(keyed_schemas(schema, "definitions"));
    inner.extend(part(schema, "items"));
    inner.extend(listed_schemas(schema, "items"));
    inner.extend(keyed_schemas(schema, "dependencies"));
    inner
}

fn part<'a>(schema: &'a Value, name: &str) -> Option<(String, &'a Value)> {
    schema
        .get(name)
        .filter(|value| value.is_object())
        .map(|value| (name.to_owned(), value))
}

fn keyed_schemas<'a>(
    schema: &'a Value,
    name: &str,
) -> impl Iterator<Item = (String, &'a Value)> + use<'a> {
    let name = name.to_owned();
    let entries = schema
        .get(&name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    entries
        .filter(|(_, value)| value.is_object())
        .map(move |(key, value)| (format!("{name}[{key}]"), value))
}

fn listed_schemas<'a>(
    schema: &'a Value,
    name: &str,
) -> impl Iterator<Item = (String, &'a Value)> + use<'a> {
    let name = name.to_owned();
    let items = schema
        .get(&name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate();
    items.map(move |(index, value)| (format!("{name}[{index}]"), value))
}

/// Returns the nested schemas to change. A list of `items` has several.
pub(super) fn inner_mut(schema: &mut Map<String, Value>) -> Vec<&mut Map<String, Value>> {
    let mut inner: Vec<&mut Value> = Vec::new();
    for (name, value) in schema {
        match (name.as_str(), value) {
            (
                "properties" | "definitions" | "dependencies" | "patternProperties",
                Value::Object(map),
            ) => {
                inner.extend(map.values_mut());
            }
            ("items" | "allOf" | "anyOf" | "oneOf", Value::Array(list)) => inner.extend(list),
            ("items" | "additionalProperties" | "not", value) => inner.push(value),
            _ => {}
        }
    }
    inner.into_iter().filter_map(Value::as_object_mut).collect()
}

/// Reports whether a keyword is true.
pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}
