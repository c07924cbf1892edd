//! Validates that an `openAPIV3Schema` is structural: that it declares the type of each field. Pure.

use serde_json::Value;

use super::expressions;
use crate::{
    cause::Cause,
    structural_schema::{self, Structural},
};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Keywords that are allowed in schemas of fields only, not under `allOf`, `anyOf`, `oneOf` and `not`.
const ONLY_OF_FIELDS: [&str; 7] = [
    "type",
    "description",
    "title",
    "default",
    "nullable",
    "additionalProperties",
    "x-kubernetes-validations",
];

/// Returns what is invalid in the schema at `path`.
pub(super) fn check(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {}
        None | Some("") => {
            causes.push(Cause::required(format!("{path}.type"), "must not be empty at the root"))
        }
        Some(other) => {
            causes.push(Cause::invalid(format!("{path}.type"), &other.into(), "must be object at the root"));
        }
    }
    let root = SchemaContext { needs_type: None, is_root: true, uncorrelatable: None };
    field(schema, path, root, &mut causes);
    causes
}

/// The context of a field's schema.
#[derive(Clone, Copy)]
struct SchemaContext<'a> {
    /// The message where the type is missing; `None` at the root, which is checked separately.
    needs_type: Option<&'static str>,
    is_root: bool,
    /// The path of the enclosing list whose items cannot be correlated with old ones.
    uncorrelatable: Option<&'a str>,
}

fn field(schema: &Value, path: &str, place: SchemaContext<'_>, causes: &mut Vec<Cause>) {
    let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
    let type_ = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_free = flag("x-kubernetes-int-or-string") || flag("x-kubernetes-preserve-unknown-fields");
    match place.needs_type {
        Some(why) if type_.is_empty() && !is_free => {
            causes.push(Cause::required(format!("{path}.type"), why))
        }
        _ if !type_.is_empty() && !TYPES.contains(&type_) => {
            causes.push(Cause::unsupported(format!("{path}.type"), &type_.into(), &TYPES));
        }
        _ => {}
    }
    if type_ == "array" && schema.get("items").is_none() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    if schema.get("$ref").is_some() {
        causes.push(Cause::forbidden(format!("{path}.$ref"), "$ref is not supported"));
    }
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_some() {
        let why = "must not be used if additionalProperties are specified";
        causes.push(Cause::forbidden(format!("{path}.properties"), why));
    }
    if flag("uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(format!("{path}.uniqueItems"), why));
    }
    if flag("x-kubernetes-embedded-resource") && type_ != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(Cause::invalid(format!("{path}.type"), &type_.into(), why));
    }
    list_type(schema, path, type_, causes);
    pattern(schema, path, causes);
    default(schema, path, causes);
    causes.extend(expressions::check(schema, path, place.is_root, place.uncorrelatable));
    let is_uncorrelatable = type_ == "array"
        && schema.get("x-kubernetes-list-type").and_then(Value::as_str) != Some("map")
        || schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
    let uncorrelatable = place.uncorrelatable.or(is_uncorrelatable.then_some(path));
    for (step, inner) in inner(schema) {
        let path = format!("{path}.{step}");
        match step.split(['[', '.']).next().unwrap_or_default() {
            "properties" | "additionalProperties" => {
                let place = SchemaContext {
                    needs_type: Some("must not be empty for specified object fields"),
                    is_root: false,
                    uncorrelatable,
                };
                field(inner, &path, place, causes);
            }
            "items" => {
                let place = SchemaContext {
                    needs_type: Some("must not be empty for specified array items"),
                    is_root: false,
                    uncorrelatable,
                };
                field(inner, &path, place, causes);
            }
            _ => junction(inner, &path, flag("x-kubernetes-int-or-string"), causes),
        }
    }
}

/// Checks a schema under `allOf`, `anyOf`, `oneOf` or `not`, which may only narrow values. `is_free`: the types of an `int-or-string`
/// may be named there.
fn junction(schema: &Value, path: &str, is_free: bool, causes: &mut Vec<Cause>) {
    for name in ONLY_OF_FIELDS.into_iter().filter(|name| !(is_free && *name == "type")) {
        if schema.get(name).is_some_and(|value| value != &Value::Bool(false)) {
            causes.push(Cause::forbidden(format!("{path}.{name}"), "must be empty to be structural"));
        }
    }
    pattern(schema, path, causes);
    for (step, inner) in inner(schema) {
        junction(inner, &format!("{path}.{step}"), false, causes);
    }
}

/// Returns the nested schemas, each with the step to it.
fn inner(schema: &Value) -> Vec<(String, &Value)> {
    let mut inner = Vec::new();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    inner.extend(properties.map(|(name, field)| (format!("properties[{name}]"), field)));
    for name in ["additionalProperties", "items", "not"] {
        inner
            .extend(schema.get(name).filter(|value| value.is_object()).map(|field| (name.to_owned(), field)));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let list = schema.get(name).and_then(Value::as_array).into_iter().flatten().enumerate();
        inner.extend(list.map(|(index, field)| (format!("{name}[{index}]"), field)));
    }
    inner
}

fn list_type(schema: &Value, path: &str, type_: &str, causes: &mut Vec<Cause>) {
    const LIST_TYPE: &str = "x-kubernetes-list-type";
    let field = format!("{path}.{LIST_TYPE}");
    let Some(list_type) = schema.get(LIST_TYPE).and_then(Value::as_str) else { return };
    if type_ != "array" {
        causes.push(Cause::invalid(
            format!("{path}.type"),
            &type_.into(),
            "must be array if x-kubernetes-list-type is specified",
        ));
    }
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    match (list_type, keys) {
        ("map", None) => {
            let why = "must not be empty if x-kubernetes-list-type is map";
            causes.push(Cause::required(format!("{path}.x-kubernetes-list-map-keys"), why));
        }
        ("map", Some(keys)) => {
            let properties = schema.pointer("/items/properties");
            for (index, key) in keys.iter().enumerate() {
                let name = key.as_str().unwrap_or_default();
                if properties.and_then(|properties| properties.get(name)).is_none() {
                    let field = format!("{path}.x-kubernetes-list-map-keys[{index}]");
                    causes.push(Cause::invalid(field, key, "entries must all be names of item properties"));
                }
            }
        }
        ("atomic" | "set", _) => {}
        (other, _) => causes.push(Cause::unsupported(field, &other.into(), &["atomic", "map", "set"])),
    }
}

fn pattern(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(pattern) = schema.get("pattern").and_then(Value::as_str) else { return };
    if let Err(error) = structural_schema::pattern(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        causes.push(Cause::invalid(format!("{path}.pattern"), &pattern.into(), &why));
    }
}

/// Checks that a default satisfies the schema; else each object would be invalid.
fn default(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(default) = schema.get("default").filter(|default| !default.is_null()) else { return };
    let compiled = Structural::new(schema);
    if !compiled.prune(&mut default.clone()).is_empty() {
        causes.push(Cause::invalid(format!("{path}.default"), default, "must not have unknown fields"));
    }
    match compiled.check_all(default, None) {
        Ok(found) => {
            causes.extend(found.causes.into_iter().map(|cause| cause.at(&format!("{path}.default"))))
        }
        Err(structural_schema::DeadlineExceeded) => {
            causes.push(Cause::invalid(format!("{path}.default"), default, "takes too long to be checked"));
        }
    }
}
