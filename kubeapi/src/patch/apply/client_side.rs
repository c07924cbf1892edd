//! The change from client-side to server-side apply. `kubectl apply` keeps what it applied last in an annotation. An apply by the manager
//! `kubectl` may take these fields from all managers while they still have the values of then, and updates the annotation.

use serde_json::{Map, Value};

use super::{
    set::Set,
    walk::{self, Source},
};
use crate::{
    object::text, patch::merge_schema::MergeSchema, validate::metadata::ANNOTATIONS_BYTES,
};

/// The manager of kubectl's server-side apply; others have chosen not to be treated like this.
pub(super) const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const POINTER: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// Returns the fields that the client applied and nobody has changed since.
pub(super) fn unchanged_fields(live: &Value, api_version: &str, at: MergeSchema<'_>) -> Set {
    let fields = || {
        let last: Value = serde_json::from_str(text(live, POINTER)?).ok()?;
        if text(&last, "/apiVersion") != Some(api_version) || walk::fault(&last, at, "").is_some() {
            return None;
        }
        let mut fields = walk::fields(&last, at);
        let changes = walk::changes(&last, live, at, Source::Merge);
        fields.subtract(&changes.set);
        fields.remove_below(&changes.gone);
        Some(fields)
    };
    fields().unwrap_or_default()
}

/// Replaces the annotation of `object`, if it has one, by the configuration that was applied. Without room for it, it is removed.
pub(super) fn update_annotation(object: &mut Value, configuration: &Value) {
    if text(object, POINTER).is_none_or(str::is_empty) {
        return;
    }
    let mut configuration = sort_keys(configuration);
    if let Some(Value::Object(annotations)) = configuration.pointer_mut("/metadata/annotations") {
        annotations.shift_remove(LAST_APPLIED);
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else {
        return;
    };
    annotations.insert(LAST_APPLIED.into(), go_json(&configuration).into());
    let bytes = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(bytes).sum::<usize>() > ANNOTATIONS_BYTES {
        annotations.shift_remove(LAST_APPLIED);
    }
}

/// Returns a value with the fields of all objects in order.
fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sort_keys).collect(),
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name.clone(), sort_keys(value)));
            Value::Object(Map::from_iter(fields))
        }
        other => other.clone(),
    }
}

/// Returns JSON as Go's encoder writes it: a line, without the characters that have a meaning in HTML.
fn go_json(value: &Value) -> String {
    let mut json = value.to_string();
    for (character, escaped) in [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        json = json.replace(character, escaped);
    }
    json.push('\n');
    json
}
