//! The generation of an object: how often its desired state has changed.

use serde_json::Value;

use super::metadata;
use crate::registry::Kind;

/// Increments the generation if the desired state has changed. Defaults must be set: an update that leaves them out changes nothing.
pub fn count_generation(kind: &Kind, old: &Value, new: &mut Value) {
    if kind.counts_generations() && !has_same_state(kind, old, new) {
        next_generation(new);
    }
}

/// Counts the generation up.
pub fn next_generation(object: &mut Value) {
    let metadata = metadata(object);
    let generation = metadata
        .get("generation")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    metadata.insert("generation".into(), (generation + 1).into());
}

/// Compares all fields but the metadata, and the status where it is a subresource.
fn has_same_state(kind: &Kind, old: &Value, new: &Value) -> bool {
    let is_state = |name: &str| match name {
        "metadata" | "apiVersion" | "kind" => false,
        "status" => !kind.status,
        _ => true,
    };
    let fields = |object| {
        let all = Value::as_object(object).into_iter().flatten();
        all.filter(|(name, _)| is_state(name))
    };
    fields(old).count() == fields(new).count()
        && fields(old).all(|(name, value)| new.get(name) == Some(value))
}
