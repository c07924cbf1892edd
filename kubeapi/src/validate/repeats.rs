//! Finds what a list repeats, in one pass: lists of a request may be long.

use std::{collections::HashSet, hash::Hash};

use serde_json::Value;

use super::change::is_nothing;

/// Returns the items of `list`, with their indices, that equal an earlier one.
pub fn repeats(list: &[Value]) -> impl Iterator<Item = (usize, &Value)> {
    repeats_by(list, |item| item)
}

/// Returns the items of `list`, with their indices, whose `key` is that of an earlier one.
pub fn repeats_by<'a, K: Eq + Hash>(
    list: &'a [Value],
    key: impl Fn(&'a Value) -> K,
) -> impl Iterator<Item = (usize, &'a Value)> {
    let mut seen = HashSet::new();
    list.iter()
        .enumerate()
        .filter(move |(_, item)| !seen.insert(key(item)))
}

/// Returns `value` without fields that are like absent ones: the same for all values that mean the same in Go.
pub fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.iter().filter(|(_, value)| !is_nothing(value));
            fields
                .map(|(name, value)| (name.clone(), canonical(value)))
                .collect()
        }
        Value::Array(list) => list.iter().map(canonical).collect(),
        value if is_nothing(value) => Value::Null,
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn item_that_equals_an_earlier_one_is_found_whatever_the_order_of_its_fields() {
        let list = json!([{"a": 1, "b": [2]}, "a", {"b": [2], "a": 1}, "a", "b", null, {"a": 1}]);
        let found: Vec<_> = repeats(list.as_array().unwrap())
            .map(|(index, _)| index)
            .collect();
        assert_eq!(found, [2, 3]);
    }

    #[test]
    fn absent_and_empty_fields_are_the_same_in_canonical_values() {
        for (one, other, is_same) in [
            (
                json!({"a": "", "b": 0, "c": [], "d": 1}),
                json!({"d": 1}),
                true,
            ),
            (json!({"a": [{"b": false}]}), json!({"a": [{}]}), true),
            (json!({"a": [1]}), json!({"a": [2]}), false),
            (json!(null), json!([]), false),
        ] {
            assert_eq!(
                canonical(&one) == canonical(&other),
                is_same,
                "{one} {other}"
            );
        }
    }
}
