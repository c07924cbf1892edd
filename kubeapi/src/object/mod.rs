//! Reading and writing objects as raw JSON. Nothing here fails: what is absent or of another type reads as absent.

pub(crate) mod autoscalers;
pub mod conversion;
pub mod definition_status;
pub mod deletion;
pub(crate) mod events;
pub mod generation;
pub mod go_duration;
pub mod names;
pub mod object_size;
pub mod quantity;
pub mod resources;
pub mod scale;
pub mod timestamp;
pub mod value_path;

use serde_json::{Map, Value};

/// What stands at `pointer` (JSON Pointer). `Value::pointer` writes every step anew to read its escapes, which nearly none has.
fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') {
        return object.pointer(pointer);
    }
    pointer
        .split('/')
        .skip(1)
        .try_fold(object, |value, step| match value {
            Value::Object(map) => map.get(step),
            Value::Array(list) => list.get(step.parse::<usize>().ok()?),
            _ => None,
        })
}

/// The string at `pointer` (JSON Pointer).
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    at(object, pointer).and_then(Value::as_str)
}

/// The string at `pointer`, or nothing as an empty one: how the Kubernetes API reads an absent string.
pub fn text_or_empty<'a>(object: &'a Value, pointer: &str) -> &'a str {
    text(object, pointer).unwrap_or_default()
}

/// The items of the list at `pointer`.
pub fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns `value` as a map, and replaces any other value by an empty map.
pub fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made a map just above"),
    }
}

/// Returns the map under `key`, and creates it if it is missing.
pub fn child<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    as_map(map.entry(key).or_insert(Value::Null))
}

/// Returns the object's `metadata`, and creates it if it is missing.
pub fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    child(as_map(object), "metadata")
}

/// Sets `key`, or removes it for `None`.
pub fn assign(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            map.insert(key.to_owned(), value);
        }
        None => {
            map.shift_remove(key);
        }
    }
}

/// Removes all that is null in `patch` at once, in the order that stays: one by one each would move all that come behind it.
pub fn remove_nulled(map: &mut Map<String, Value>, patch: &Map<String, Value>) {
    if patch.values().any(Value::is_null) {
        map.retain(|name, _| !patch.get(name).is_some_and(Value::is_null));
    }
}

/// Sets `key` unless there is something already.
pub fn default_to(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// The annotation of a mirror pod, with any value. The node's file defines such a pod, and the pod has no service account.
pub const MIRROR: &str = "kubernetes.io/config.mirror";

/// Whether the pod is a mirror pod.
pub fn is_mirror(pod: &Value) -> bool {
    pod.pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(MIRROR))
        .is_some()
}

/// Whether a deletion has begun.
pub fn is_deleting(object: &Value) -> bool {
    text(object, "/metadata/deletionTimestamp").is_some()
}

/// Whether the object has finalizers.
pub fn has_finalizers(object: &Value) -> bool {
    !items(object, "/metadata/finalizers").is_empty()
}

/// The JSON pointer of a simple path, `.spec.replicas`.
pub fn pointer_of(path: &str) -> String {
    path.replace('~', "~0").replace('/', "~1").replace('.', "/")
}
