//! Helpers that read and fill the fields of an object.

use serde_json::{Map, Value};

/// Returns the maps in the list under `key`.
pub fn maps<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    map.get_mut(key)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

/// Returns the map under `key`, if there is one.
pub fn map_at<'a>(
    map: &'a mut Map<String, Value>,
    key: &str,
) -> Option<&'a mut Map<String, Value>> {
    map.get_mut(key).and_then(Value::as_object_mut)
}

/// Returns the text under `key`, or an empty one.
pub fn text_at<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Sets `key` unless it is a non-empty text; Go does not distinguish an empty text from none.
pub fn default_text(map: &mut Map<String, Value>, key: &str, value: &str) {
    if text_at(map, key).is_empty() {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets `key` unless there is a number other than 0.
pub fn default_number(map: &mut Map<String, Value>, key: &str, value: i64) {
    if map.get(key).and_then(Value::as_i64).unwrap_or_default() == 0 {
        map.insert(key.to_owned(), value.into());
    }
}
