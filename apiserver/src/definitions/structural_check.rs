//! Validates that an `openAPIV3Schema` is structural: it declares the type of each field once, and only narrows values under `allOf`,
//! `anyOf`, `oneOf` and `not`. Pure.

use serde_json::{Value, json};

use super::schema_parts::{flag, inner};
use crate::schema_validation;
use kubeapi::{
    cause::Cause,
    object::{items, text_or_empty},
};

/// Returns the keyword that cannot be part of a structural schema, as a message.
pub(super) fn unsupported_keyword(schema: &Value) -> Option<String> {
    let is_set = |name: &str| match schema.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(_) => true,
    };
    let known = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    if let Some((_, name)) = known.into_iter().find(|(keyword, _)| is_set(keyword)) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let why =
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(why.to_owned());
    }
    inner(schema)
        .into_iter()
        .find_map(|(_, inner)| unsupported_keyword(inner))
}

/// Returns what is not structural in the schema at `path`, in the order of the messages.
pub(super) fn check(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    field(schema, path, Level::Root, &mut causes);
    complete(schema, path, Some(schema), path, &mut causes);
    causes.sort_by_cached_key(ToString::to_string);
    causes
}

/// Where a schema is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn field(schema: &Value, path: &str, level: Level, causes: &mut Vec<Cause>) {
    let type_ = text_or_empty(schema, "/type");
    let at = |name: &str| format!("{path}.{name}");
    let items = schema.get("items").filter(|items| items.is_object());
    if type_ == "array" && items.is_none() {
        causes.push(Cause::required(at("items"), "must be specified"));
    }
    if let Some(items) = items {
        field(items, &at("items"), Level::Item, causes);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        field(
            property,
            &at(&format!("properties[{name}]")),
            Level::Field,
            causes,
        );
    }
    let rest = schema
        .get("additionalProperties")
        .filter(|rest| !rest.is_null());
    if rest.is_some() && level == Level::Root {
        causes.push(Cause::forbidden(
            at("additionalProperties"),
            "must not be used at the root",
        ));
    }
    if let Some(values) = rest.filter(|rest| rest.is_object()) {
        field(values, &at("additionalProperties"), Level::Field, causes);
    }
    let (is_free, keeps_unknown, is_embedded) = (
        flag(schema, "x-kubernetes-int-or-string"),
        flag(schema, "x-kubernetes-preserve-unknown-fields"),
        flag(schema, "x-kubernetes-embedded-resource"),
    );
    for (name, is_there) in [
        ("x-kubernetes-preserve-unknown-fields", keeps_unknown),
        ("x-kubernetes-embedded-resource", is_embedded),
    ] {
        if is_free && is_there {
            let why = "must be false if x-kubernetes-int-or-string is true";
            causes.push(Cause::invalid(at(name), &true.into(), why));
        }
    }
    values(schema, path, int_or_string(schema), causes);
    if is_embedded && type_ != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(match type_ {
            "" => Cause::required(at("type"), why),
            other => Cause::invalid(at("type"), &other.into(), why),
        });
    } else if type_.is_empty() && !is_free && !keeps_unknown {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        causes.push(Cause::required(at("type"), why));
    }
    if is_embedded && rest.is_some() {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        causes.push(Cause::forbidden(at("additionalProperties"), why));
    }
    if level == Level::Root && !type_.is_empty() && type_ != "object" {
        causes.push(Cause::invalid(
            at("type"),
            &type_.into(),
            "must be object at the root",
        ));
    }
    causes.extend(of_object(schema, path, level));
    if is_embedded && !keeps_unknown && properties.is_none_or(serde_json::Map::is_empty) {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.push(Cause::required(at("properties"), why));
    }
}

/// Checks what a schema of a whole object says of its type, version and metadata.
fn of_object(schema: &Value, path: &str, level: Level) -> Vec<Cause> {
    let is_object = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    let mut causes = Vec::new();
    if !is_object {
        return causes;
    }
    for (name, wanted) in [
        ("kind", "string"),
        ("apiVersion", "string"),
        ("metadata", "object"),
    ] {
        let Some(property) = schema
            .get("properties")
            .and_then(|properties| properties.get(name))
        else {
            continue;
        };
        let field = format!("{path}.properties[{name}]");
        let type_ = text_or_empty(property, "/type");
        if type_ != wanted {
            let why = format!("must be {wanted}");
            causes.push(Cause::invalid(format!("{field}.type"), &type_.into(), &why));
        }
        if name == "metadata" && level == Level::Root && !is_plain_metadata(property) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            causes.push(Cause::forbidden(field, why));
        }
    }
    causes
}

/// Reports whether nothing but the names is described.
fn is_plain_metadata(schema: &Value) -> bool {
    schema.as_object().is_none_or(|schema| {
        schema
            .iter()
            .all(|(keyword, value)| match (keyword.as_str(), value) {
                ("type" | "default", _) | (_, Value::Null | Value::Bool(false)) => true,
                ("properties", Value::Object(fields)) => fields
                    .keys()
                    .all(|name| matches!(name.as_str(), "name" | "generateName")),
                (_, Value::String(text)) => text.is_empty(),
                _ => false,
            })
    })
}

/// Which alternatives may name the types of an int-or-string.
#[derive(Clone, Copy, Default)]
struct IntOrString {
    any_of: bool,
    first_of_all: bool,
}

fn int_or_string(schema: &Value) -> IntOrString {
    let is_pattern = |schema: &Value| {
        schema.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]))
    };
    IntOrString {
        any_of: is_pattern(schema),
        first_of_all: items(schema, "/allOf").first().is_some_and(is_pattern),
    }
}

/// Checks what narrows the values of a schema.
fn values(schema: &Value, path: &str, free: IntOrString, causes: &mut Vec<Cause>) {
    let mut each = |name: &str, skipped: bool, first: IntOrString| {
        if skipped {
            return;
        }
        for (index, inner) in items(schema, &format!("/{name}")).iter().enumerate() {
            let free = if index == 0 {
                first
            } else {
                IntOrString::default()
            };
            narrowing(inner, &format!("{path}.{name}[{index}]"), free, causes);
        }
    };
    each("anyOf", free.any_of, IntOrString::default());
    each(
        "allOf",
        false,
        IntOrString {
            any_of: free.first_of_all,
            first_of_all: false,
        },
    );
    each("oneOf", false, IntOrString::default());
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        narrowing(not, &format!("{path}.not"), IntOrString::default(), causes);
    }
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Err(error) = schema_validation::pattern(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        causes.push(Cause::invalid(
            format!("{path}.pattern"),
            &pattern.into(),
            &why,
        ));
    }
}

/// Keywords that schemas which only narrow values must not have, and what they must be there.
const ONLY_OF_FIELDS: [(&str, &str); 13] = [
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("x-kubernetes-validations", "empty"),
];

/// Checks a schema under `allOf`, `anyOf`, `oneOf` or `not`.
fn narrowing(schema: &Value, path: &str, free: IntOrString, causes: &mut Vec<Cause>) {
    values(schema, path, free, causes);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        narrowing(
            items,
            &format!("{path}.items"),
            IntOrString::default(),
            causes,
        );
    }
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        narrowing(
            property,
            &format!("{path}.properties[{name}]"),
            IntOrString::default(),
            causes,
        );
    }
    for (name, wanted) in ONLY_OF_FIELDS {
        let is_there = match (wanted, schema.get(name)) {
            (_, None | Some(Value::Null)) => false,
            ("empty", Some(Value::String(text))) => !text.is_empty(),
            ("empty", Some(Value::Array(list))) => !list.is_empty(),
            ("false", Some(value)) => value != &Value::Bool(false),
            _ => true,
        };
        if is_there {
            let why = format!("must be {wanted} to be structural");
            causes.push(Cause::forbidden(format!("{path}.{name}"), &why));
        }
    }
    if schema.pointer("/properties/metadata").is_some() {
        let why = "must not be specified in a nested context";
        causes.push(Cause::forbidden(
            format!("{path}.properties[metadata]"),
            why,
        ));
    }
}

/// Checks that each field that is narrowed is declared: `declared` is the schema of the value at the path `at`.
fn complete(
    schema: &Value,
    path: &str,
    declared: Option<&Value>,
    at: &str,
    causes: &mut Vec<Cause>,
) {
    let Some(declared) = declared.filter(|declared| declared.is_object()) else {
        causes.push(Cause::required(
            at,
            &format!("because it is defined in {path}"),
        ));
        return;
    };
    let narrowed = inner(schema).into_iter().filter(|(step, _)| {
        ["not", "allOf", "anyOf", "oneOf"].contains(&step.split('[').next().unwrap_or_default())
    });
    for (step, narrowing) in narrowed {
        let path = format!("{path}.{step}");
        complete(narrowing, &path, Some(declared), at, causes);
        if let Some(items) = narrowing.get("items").filter(|items| items.is_object()) {
            let (path, at) = (format!("{path}.items"), format!("{at}.items"));
            within(items, &path, declared.get("items"), &at, causes);
        }
        fields(narrowing, &path, declared, at, causes);
    }
}

/// Checks a part of what narrows values.
fn within(schema: &Value, path: &str, declared: Option<&Value>, at: &str, causes: &mut Vec<Cause>) {
    complete(schema, path, declared, at, causes);
    let Some(declared) = declared.filter(|declared| declared.is_object()) else {
        return;
    };
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        let (path, at) = (format!("{path}.items"), format!("{at}.items"));
        within(items, &path, declared.get("items"), &at, causes);
    }
    fields(schema, path, declared, at, causes);
}

fn fields(schema: &Value, path: &str, declared: &Value, at: &str, causes: &mut Vec<Cause>) {
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let step = format!("properties[{name}]");
        let declared = declared
            .get("properties")
            .and_then(|properties| properties.get(name));
        within(
            property,
            &format!("{path}.{step}"),
            declared,
            &format!("{at}.{step}"),
            causes,
        );
    }
}
