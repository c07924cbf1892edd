//! Cells that many kinds share.

use jiff::Timestamp;
use serde_json::Value;

use super::age;
use crate::object::{items, text_or_empty};

/// Returns the object's name, the first cell of nearly every row.
pub(super) fn name(object: &Value) -> Value {
    text_or_empty(object, "/metadata/name").into()
}

/// Returns how long ago the object was created.
pub(super) fn since_creation(object: &Value, now: Timestamp) -> Value {
    age::since(object.pointer("/metadata/creationTimestamp"), now).into()
}

/// Returns the text at `pointer`, or `instead` if it is empty.
pub(super) fn text_or<'a>(object: &'a Value, pointer: &str, instead: &'a str) -> &'a str {
    let text = text_or_empty(object, pointer);
    if text.is_empty() { instead } else { text }
}

/// Returns `k=v,k=v` in the order of the keys.
pub(super) fn pairs(map: Option<&Value>) -> String {
    let mut pairs: Vec<_> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .collect();
    pairs.sort_by_key(|(key, _)| *key);
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    }
}

/// Returns a label selector as text: `a=b,c in (d,e),f,!g`.
pub(super) fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else {
        return "<none>".to_owned();
    };
    let mut parts = match pairs(selector.get("matchLabels")) {
        none if none == "<none>" => Vec::new(),
        pairs => vec![pairs],
    };
    for requirement in items(selector, "/matchExpressions") {
        let key = text_or_empty(requirement, "/key");
        let values: Vec<_> = items(requirement, "/values")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let values = values.join(",");
        parts.push(match text_or_empty(requirement, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() {
        "<none>".to_owned()
    } else {
        parts.join(",")
    }
}
