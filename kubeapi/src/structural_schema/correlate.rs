//! Which value of the object as it was stands where one of the new object does.

use std::collections::HashMap;

use serde_json::Value;

use super::node::{ListType, Node};

impl Node {
    /// What was under `name`. What changes only as a whole has no parts to be compared.
    pub(super) fn old_field<'a>(&self, old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
        old.filter(|_| !self.is_atomic)?.get(name)
    }

    /// The items of the old list by their keys: only those of a list that is a map have any.
    pub(super) fn old_items<'a>(&self, old: Option<&'a Value>) -> HashMap<String, &'a Value> {
        let items = old.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(|item| Some((self.key(item)?, item))).collect()
    }

    /// What tells an item of this list from the others, if anything does.
    pub(super) fn key(&self, item: &Value) -> Option<String> {
        let ListType::Map(keys) = &self.list else { return None };
        let value = |key: &str| {
            let default = || self.items.as_ref()?.fields.get(key)?.default.as_ref();
            item.get(key).or_else(default).unwrap_or(&Value::Null)
        };
        Some(Value::Array(keys.iter().map(|key| value(key).clone()).collect()).to_string())
    }
}
