//! Validates the types of lists and maps in a schema: `x-kubernetes-list-type`, its keys, and `x-kubernetes-map-type`. Pure.

use serde_json::Value;

use super::schema_parts::flag;
use kubeapi::{
    cause::Cause,
    object::{items, text, text_or_empty},
};

const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const KEYS: &str = "x-kubernetes-list-map-keys";
const KEEPS_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";

/// Returns what is invalid in the schema at `path`, without those within. `atomic_sets`: items of sets must be atomic; `sure_keys`: keys of
/// lists must be there.
pub(super) fn check(schema: &Value, path: &str, atomic_sets: bool, sure_keys: bool) -> Vec<Cause> {
    let mut causes = Vec::new();
    if schema.get(KEEPS_UNKNOWN) == Some(&Value::Bool(false)) {
        let field = format!("{path}.{KEEPS_UNKNOWN}");
        causes.push(Cause::invalid(
            field,
            &false.into(),
            "must be true or undefined",
        ));
    }
    let (list_type, map_type) = (
        text(schema, "/x-kubernetes-list-type"),
        text(schema, "/x-kubernetes-map-type"),
    );
    causes.extend(map_type.and_then(|_| needs_type(schema, path, "object", MAP_TYPE)));
    if let Some(other) = map_type.filter(|type_| !matches!(*type_, "atomic" | "granular")) {
        let field = format!("{path}.{MAP_TYPE}");
        causes.push(Cause::unsupported(
            field,
            &other.into(),
            &["atomic", "granular"],
        ));
    }
    match list_type.and_then(|_| needs_type(schema, path, "array", LIST_TYPE)) {
        Some(cause) => causes.push(cause),
        None if atomic_sets => causes.extend(item_of_set(schema, path)),
        None => {}
    }
    let field = format!("{path}.{LIST_TYPE}");
    if let Some(other) = list_type.filter(|type_| !matches!(*type_, "atomic" | "set" | "map")) {
        causes.push(Cause::unsupported(
            field.as_str(),
            &other.into(),
            &["atomic", "set", "map"],
        ));
    }
    if !items(schema, "/x-kubernetes-list-map-keys").is_empty() && list_type != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        causes.push(match list_type {
            None => Cause::required(field, why),
            Some(other) => Cause::invalid(field, &other.into(), why),
        });
    }
    if list_type == Some("map") {
        causes.extend(of_map(schema, path));
    }
    if sure_keys {
        causes.extend(keys(schema, path));
    }
    causes
}

fn needs_type(schema: &Value, path: &str, wanted: &str, keyword: &str) -> Option<Cause> {
    let field = format!("{path}.type");
    let why = format!("must be {wanted} if {keyword} is specified");
    match text_or_empty(schema, "/type") {
        type_ if type_ == wanted => None,
        "" => Some(Cause::required(field, &why)),
        other => Some(Cause::invalid(field, &other.into(), &why)),
    }
}

/// Returns the fault of a set whose items are not atomic.
pub(super) fn item_of_set(schema: &Value, path: &str) -> Option<Cause> {
    let items = schema.get("items").filter(|items| items.is_object())?;
    if text(schema, "/x-kubernetes-list-type") != Some("set") {
        return None;
    }
    let list_type = items.get(LIST_TYPE).cloned().unwrap_or_default();
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let is_faulty = |keyword: &str, may_be_absent: bool| match text(items, &format!("/{keyword}")) {
        None => !may_be_absent,
        Some(type_) => type_ != "atomic",
    };
    let keyword = match text_or_empty(items, "/type") {
        "array" if is_faulty(LIST_TYPE, true) => LIST_TYPE,
        "object" if is_faulty(MAP_TYPE, false) => MAP_TYPE,
        _ => return None,
    };
    Some(Cause::invalid(
        format!("{path}.items.{keyword}"),
        &list_type,
        why,
    ))
}

fn of_map(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let keys = items(schema, "/x-kubernetes-list-map-keys");
    let field = format!("{path}.{KEYS}");
    if keys.is_empty() {
        causes.push(Cause::required(
            field.as_str(),
            "must not be empty if x-kubernetes-list-type is map",
        ));
    }
    let item = match schema.get("items") {
        None | Some(Value::Null) => {
            let why = "must have a schema if x-kubernetes-list-type is map";
            causes.push(Cause::required(format!("{path}.items"), why));
            return causes;
        }
        Some(list @ Value::Array(_)) => {
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            causes.push(Cause::invalid(format!("{path}.items"), list, why));
            return causes;
        }
        Some(item) => item,
    };
    let type_ = text_or_empty(item, "/type");
    if type_ != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(
            format!("{path}.items.type"),
            &type_.into(),
            why,
        ));
        return causes;
    }
    let all = Value::from(keys.to_vec());
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match item
            .get("properties")
            .and_then(|properties| properties.get(name))
        {
            Some(property) if matches!(text_or_empty(property, "/type"), "array" | "object") => {
                let field = format!("{path}.items.properties[{name}].type");
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                causes.push(Cause::invalid(field, &type_.into(), why));
            }
            Some(_) => {}
            None => {
                let why = "entries must all be names of item properties";
                causes.push(Cause::invalid(field.as_str(), &all, why));
            }
        }
        if keys.iter().take(index).any(|before| before == key) {
            causes.push(Cause::invalid(
                field.as_str(),
                &all,
                "must not contain duplicate entries",
            ));
        }
    }
    causes
}

/// Returns the faults of items of sets and of maps by key: those that may be null, and keys that may be absent.
pub(super) fn keys(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let Some(item) = schema.get("items").filter(|items| items.is_object()) else {
        return causes;
    };
    let list_type = text_or_empty(schema, "/x-kubernetes-list-type");
    if !matches!(list_type, "set" | "map") {
        return causes;
    }
    if flag(item, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        causes.push(Cause::forbidden(format!("{path}.items.nullable"), &why));
    }
    if list_type == "set" {
        return causes;
    }
    for key in items(schema, "/x-kubernetes-list-map-keys") {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = item
            .get("properties")
            .and_then(|properties| properties.get(name))
        else {
            continue;
        };
        let field = |part: &str| format!("{path}.items.properties[{name}].{part}");
        let has_default = property
            .get("default")
            .is_some_and(|default| !default.is_null());
        if !items(item, "/required").contains(key) && !has_default {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(field("default"), why));
        }
        if flag(property, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(field("nullable"), why));
        }
    }
    causes
}
