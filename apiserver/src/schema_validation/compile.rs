//! Compiles an `openAPIV3Schema`. Invalid parts, which the definition's validation refuses, are skipped.

use regex::Regex;
use serde_json::Value;

use super::{
    node::{Bound, ListType, Node, Rest, Type, ValueConstraints},
    rules::validations,
};

/// The largest compiled pattern in bytes: `[a-z]{1,500}` takes 60 KiB.
const LARGEST_PATTERN: usize = 1 << 20;

/// Compiles a pattern within the size limit.
pub(crate) fn pattern(text: &str) -> Result<Regex, regex::Error> {
    crate::go_regex::compile(text, LARGEST_PATTERN)
}

/// Compiles the schema of a whole object.
pub(super) fn root(schema: &Value) -> Node {
    compile_root(schema, true)
}

/// Compiles a node. The JSON parser of bodies limits the nesting.
pub(super) fn node(schema: &Value) -> Node {
    compile_root(schema, false)
}

fn compile_root(schema: &Value, is_root: bool) -> Node {
    let fields = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let mut node = Node {
        type_: type_of(schema),
        nullable: flag(schema, "nullable"),
        embedded: flag(schema, "x-kubernetes-embedded-resource"),
        fields: fields
            .map(|(name, field)| (name.as_str().into(), node(field)))
            .collect(),
        rest: rest(schema),
        items: schema
            .get("items")
            .filter(|items| items.is_object())
            .map(|items| Box::new(node(items))),
        default: schema
            .get("default")
            .filter(|default| !default.is_null())
            .cloned(),
        list: list_type(schema),
        is_atomic: text(schema, "x-kubernetes-map-type") == Some("atomic"),
        rules: rules(schema),
        validations: validations(schema, is_root),
        has_rules_within: false,
    };
    let inner = node
        .fields
        .values()
        .chain(node.items.as_deref())
        .chain(match &node.rest {
            Rest::Values(values) => Some(&**values),
            Rest::Unknown | Rest::Any => None,
        });
    node.has_rules_within =
        !node.validations.is_empty() || inner.into_iter().any(|node| node.has_rules_within);
    node
}

fn type_of(schema: &Value) -> Option<Type> {
    if flag(schema, "x-kubernetes-int-or-string") {
        return Some(Type::IntOrString);
    }
    match text(schema, "type")? {
        "object" => Some(Type::Object),
        "array" => Some(Type::Array),
        "string" => Some(Type::String),
        "integer" => Some(Type::Integer),
        "number" => Some(Type::Number),
        "boolean" => Some(Type::Boolean),
        _ => None,
    }
}

fn rest(schema: &Value) -> Rest {
    match schema.get("additionalProperties") {
        Some(Value::Bool(true)) => Rest::Any,
        Some(values @ Value::Object(_)) => Rest::Values(Box::new(node(values))),
        _ => Rest::Unknown,
    }
}

fn list_type(schema: &Value) -> ListType {
    match text(schema, "x-kubernetes-list-type") {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(texts(schema, "x-kubernetes-list-map-keys")),
        _ => ListType::Atomic,
    }
}

fn rules(schema: &Value) -> ValueConstraints {
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    let size = |name: &str| schema.get(name).and_then(Value::as_u64);
    let nodes = |name: &str| {
        schema
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(node)
            .collect()
    };
    let bound = |name: &str, exclusive: &str| {
        number(name).map(|at| Bound {
            at,
            exclusive: flag(schema, exclusive),
        })
    };
    ValueConstraints {
        required: texts(schema, "required"),
        allowed: schema
            .get("enum")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
        minimum: bound("minimum", "exclusiveMinimum"),
        maximum: bound("maximum", "exclusiveMaximum"),
        multiple_of: number("multipleOf").filter(|step| *step > 0.0),
        min_length: size("minLength"),
        max_length: size("maxLength"),
        min_items: size("minItems"),
        max_items: size("maxItems"),
        min_properties: size("minProperties"),
        max_properties: size("maxProperties"),
        pattern: text(schema, "pattern").and_then(|text| pattern(text).ok()),
        format: text(schema, "format").map(Into::into),
        all_of: nodes("allOf"),
        any_of: nodes("anyOf"),
        one_of: nodes("oneOf"),
        not: schema
            .get("not")
            .filter(|not| not.is_object())
            .map(|not| Box::new(node(not))),
    }
}

fn texts(schema: &Value, name: &str) -> Vec<Box<str>> {
    let texts = schema
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    texts.filter_map(Value::as_str).map(Into::into).collect()
}

fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    schema.get(name).and_then(Value::as_str)
}

fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}
