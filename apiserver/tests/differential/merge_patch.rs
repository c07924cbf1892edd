//! JSON merge patches: how one value becomes another.

use serde_json::{Map, Value};

/// Applies a patch; `null` removes a field.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Map::new().into();
    }
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.as_object_mut().and_then(|map| map.remove(key))),
            value => merge(&mut target[key], value),
        }
    }
}

/// Returns the patch that makes `to` of `from`.
pub(crate) fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let removed = from
        .keys()
        .filter(|key| !to.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let changed = to
        .iter()
        .filter(|(key, value)| from.get(*key) != Some(value));
    let changed = changed.map(|(key, value)| {
        (
            key.clone(),
            difference(from.get(key).unwrap_or(&Value::Null), value),
        )
    });
    removed.chain(changed).collect::<Map<_, _>>().into()
}
