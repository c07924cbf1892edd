//! Checks what is applied: no field may be undeclared, and none repeated.

use kubeapi::{
    object::text_or_empty,
    registry::{Kind, KindSchema},
    request::{call::Call, duplicates::DuplicateFields},
    status::StatusError,
    validate::{FieldValidation, unknown_metadata},
};
use serde_json::Value;

/// Refuses unknown fields in an apply, whatever `fieldValidation` says, since they could have no owner.
/// An object of another kind is refused later as such.
pub(crate) fn check_declared(kind: &Kind, object: &Value) -> Result<(), StatusError> {
    if text_or_empty(object, "/kind") != kind.kind
        || text_or_empty(object, "/apiVersion") != kind.api_version()
    {
        return Ok(());
    }
    let Some(fault) = undeclared_fields(kind, object) else {
        return Ok(());
    };
    let (namespace, name) = (
        text_or_empty(object, "/metadata/namespace"),
        text_or_empty(object, "/metadata/name"),
    );
    Err(StatusError::unexpected(format!(
        "failed to create typed patch object ({namespace}/{name}; {}/{}, Kind={}): {fault}",
        kind.group, kind.version, kind.kind
    )))
}

/// Returns a message about the unknown fields of an object, if there are any.
pub(crate) fn undeclared_fields(kind: &Kind, object: &Value) -> Option<String> {
    let mut unknown = match kind.schema() {
        KindSchema::Published(schema) => schema.check(object).unknown,
        KindSchema::Defined(schema) => {
            let mut unknown = schema.prune(&mut object.clone());
            unknown.extend(unknown_metadata(object));
            unknown
        }
    };
    unknown.sort_unstable();
    let faults: Vec<_> = unknown
        .iter()
        .map(|path| format!("{}: field not declared in schema", keyed_path(object, path)))
        .collect();
    match faults.as_slice() {
        [] => None,
        [fault] => Some(fault.clone()),
        faults => Some(format!("errors:\n  {}", faults.join("\n  "))),
    }
}

/// Returns a path in the form of server-side apply: `.spec.containers[name="c"].image` for `spec.containers[0].image`.
fn keyed_path(object: &Value, path: &str) -> String {
    let (mut at, mut written) = (Some(object), String::new());
    for step in path.split('.') {
        let (field, indices) = step.split_once('[').unwrap_or((step, ""));
        written.push('.');
        written.push_str(field);
        at = at.and_then(|value| value.get(field));
        for index in indices.split(['[', ']']).filter(|index| !index.is_empty()) {
            at = at.and_then(|value| value.get(index.parse::<usize>().ok()?));
            match at.and_then(|item| item.get("name")) {
                Some(name) => written.push_str(&format!("[name={name}]")),
                None => written.push_str(&format!("[{index}]")),
            }
        }
    }
    written
}

/// Returns 400 under `Strict` for duplicate keys in an apply.
pub(crate) fn check_repeated(call: &Call) -> Result<(), StatusError> {
    if FieldValidation::parse(call.query.get("fieldValidation"))? != FieldValidation::Strict {
        return Ok(());
    }
    let repeated = DuplicateFields::Yaml(&call.body);
    let told = repeated.messages();
    if told.is_empty() {
        return Ok(());
    }
    let why = repeated.into_refusal(&told);
    Err(StatusError::bad_request(format!(
        "error strict decoding YAML: error converting YAML to JSON: {why}"
    )))
}
