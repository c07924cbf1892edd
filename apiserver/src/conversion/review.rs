//! `ConversionReview`: the question to a webhook and its answer. Pure.

use bytes::Bytes;
use kubeapi::{
    cause::Cause,
    object::{as_map, items, text_or_empty},
    validate::{labels::labels, metadata::annotations, place::Place},
};
use serde_json::{Map, Value, json};

use crate::review::{ReviewKind, ReviewVersion};

const REVIEW: ReviewKind = ReviewKind {
    group: "apiextensions.k8s.io",
    kind: "ConversionReview",
    no_response: "no response provided",
};

/// What is wrong with a converted object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The object has another version or kind.
    Type(String),
    /// The object is another one.
    Object(String),
    /// Its metadata cannot be taken over.
    Metadata(String),
}

impl Fault {
    /// Returns the end of the message about the object at `index`, which is `None` if there is only one.
    pub(super) fn describe(&self, index: Option<usize>) -> String {
        let index = index.map_or(String::new(), |index| format!(" at index {index}"));
        match self {
            Self::Type(why) if index.is_empty() => format!("invalid object at index 0: {why}"),
            Self::Object(why) if index.is_empty() => format!("invalid object: {why}"),
            Self::Metadata(why) if index.is_empty() => format!("invalid metadata: {why}"),
            Self::Type(why) | Self::Object(why) => {
                format!("invalid converted object{index}: {why}")
            }
            Self::Metadata(why) => format!("invalid metadata in object{index}: {why}"),
        }
    }
}

/// Returns the question.
pub(super) fn question(
    version: ReviewVersion,
    uid: &str,
    api_version: &str,
    objects: &[Value],
) -> Bytes {
    let request = json!({"uid": uid, "desiredAPIVersion": api_version, "objects": objects});
    REVIEW.question(version, request)
}

/// Returns the objects in the answer to the question `uid`.
///
/// # Errors
/// The message of the webhook, or why this is no answer.
pub(super) fn read(version: ReviewVersion, body: &[u8], uid: &str) -> Result<Vec<Value>, String> {
    let response = &REVIEW.response(version, body, uid)?;
    match (
        text_or_empty(response, "/result/status"),
        text_or_empty(response, "/result/message"),
    ) {
        ("Success", _) => Ok(items(response, "/convertedObjects").to_vec()),
        (status, "") => Err(format!(
            "response.result.status was '{status}', not 'Success'"
        )),
        (_, message) => Err(message.to_owned()),
    }
}

/// Returns `converted` with the metadata of `original`, except labels and annotations.
///
/// # Errors
/// Why it is not `original` in the version `api_version`.
pub(super) fn accept(
    original: &Value,
    mut converted: Value,
    api_version: &str,
) -> Result<Value, Fault> {
    if !converted.is_object() {
        return Err(Fault::Type("not an object".to_owned()));
    }
    let text = text_or_empty;
    let found = text(&converted, "/apiVersion");
    if found != api_version {
        return Err(Fault::Type(format!(
            "invalid groupVersion (expected {api_version}, received {found})"
        )));
    }
    let (expected, found) = (text(original, "/kind"), text(&converted, "/kind"));
    if expected != found {
        return Err(Fault::Type(format!(
            "invalid kind (expected {expected}, received {found})"
        )));
    }
    for (name, pointer) in [
        ("name", "/metadata/name"),
        ("namespace", "/metadata/namespace"),
        ("UID", "/metadata/uid"),
    ] {
        let (expected, found) = (text(original, pointer), text(&converted, pointer));
        if expected != found {
            return Err(Fault::Object(format!(
                "must have the same {name}: {expected} != {found}"
            )));
        }
    }
    let metadata = metadata(original, &converted).map_err(Fault::Metadata)?;
    as_map(&mut converted).insert("metadata".into(), Value::Object(metadata));
    Ok(converted)
}

/// Returns the metadata of the original with the labels and annotations of the converted object.
fn metadata(original: &Value, converted: &Value) -> Result<Map<String, Value>, String> {
    let new = match converted.get("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(new)) => new,
        Some(other) => {
            return Err(format!(
                "invalid metadata of type {} in converted object",
                go_type(other)
            ));
        }
    };
    let mut metadata = original
        .get("metadata")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    for field in ["labels", "annotations"] {
        let map = match new.get(field) {
            None | Some(Value::Null) => {
                metadata.shift_remove(field);
                continue;
            }
            Some(Value::Object(map)) => map,
            Some(other) => {
                return Err(format!(
                    "invalid metadata.{field} of type {} in converted object",
                    go_type(other)
                ));
            }
        };
        if let Some((name, value)) = map.iter().find(|(_, value)| !value.is_string()) {
            return Err(format!(
                "metadata.{field}[{name}] must be a string, but is {} in converted object",
                go_type(value)
            ));
        }
        if metadata.get(field).and_then(Value::as_object) != Some(map) {
            check(field, converted)?;
        }
        metadata.insert(field.into(), Value::Object(map.clone()));
    }
    Ok(metadata)
}

/// Checks the labels or annotations of a converted object.
fn check(field: &str, converted: &Value) -> Result<(), String> {
    let (root, mut causes) = (Place::root(converted), Vec::new());
    let place = root.child("metadata", "metadata");
    match field {
        "labels" => labels(&place.child("labels", "labels"), &mut causes),
        _ => annotations(&place.child("annotations", "annotation"), &mut causes),
    }
    let causes: Vec<_> = causes.iter().map(Cause::to_string).collect();
    match causes.as_slice() {
        [] => Ok(()),
        [cause] => Err(cause.clone()),
        causes => Err(format!("[{}]", causes.join(", "))),
    }
}

/// Returns the name of the value's type in Go.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
