//! Computes the smallest merge patch (RFC 7386) between two statuses.

use serde::Serialize;
use serde_json::{Map, Value};

/// Returns the patch from `old` to `new`, `None` if they are equal.
pub(crate) fn difference<T: Serialize>(
    old: &T,
    new: &T,
) -> Result<Option<Value>, serde_json::Error> {
    Ok(between(
        &serde_json::to_value(old)?,
        &serde_json::to_value(new)?,
    ))
}

fn between(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Some(new.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        let changed = old
            .get(key)
            .map_or_else(|| Some(value.clone()), |old| between(old, value));
        patch.extend(changed.map(|changed| (key.clone(), changed)));
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patch_contains_changes_and_null_for_removed_fields() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": 1});
        let new = json!({"a": 1, "b": {"c": 1, "d": 3}, "e": [1, 2], "g": {"h": 1}});
        let wanted = json!({"b": {"d": 3}, "e": [1, 2], "g": {"h": 1}, "f": null});
        assert_eq!(difference(&old, &new).unwrap(), Some(wanted));
        assert_eq!(difference(&old, &old).unwrap(), None);
    }
}
