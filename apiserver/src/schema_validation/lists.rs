//! Checks that lists declared as sets or maps have no duplicate items.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::node::ListType;
use kubeapi::cause::Cause;

/// Returns a cause for each duplicate item of the list at `path`.
pub(super) fn duplicates(type_: &ListType, list: &[Value], path: &str) -> Vec<Cause> {
    let key: Box<dyn Fn(&Value) -> Value> = match type_ {
        ListType::Atomic => return Vec::new(),
        ListType::Set => Box::new(Value::clone),
        ListType::Map(keys) => Box::new(|item| Value::Object(key_of(keys, item))),
    };
    let mut seen = HashSet::with_capacity(list.len());
    let mut causes = Vec::new();
    for (index, item) in list.iter().enumerate() {
        let key = key(item);
        // values have no hash of their own
        if !seen.insert(key.to_string()) {
            causes.push(Cause::duplicate_value(format!("{path}[{index}]"), &key));
        }
    }
    causes
}

fn key_of(keys: &[Box<str>], item: &Value) -> Map<String, Value> {
    let value = |key: &str| item.get(key).cloned();
    keys.iter()
        .filter_map(|key| Some((key.to_string(), value(key)?)))
        .collect()
}
