//! Correlates values of the new object with those of the old one.

use std::collections::HashMap;

use serde_json::Value;

use super::node::{ListType, Node};

impl Node {
    /// Returns the old value of the field `name`. Parts of atomic values are not correlated.
    pub(super) fn old_field<'a>(&self, old: Option<&'a Value>, name: &str) -> Option<&'a Value> {
        old.filter(|_| !self.is_atomic)?.get(name)
    }

    /// Returns the items of the old list by their keys, which only lists of type map have.
    pub(super) fn old_items<'a>(&self, old: Option<&'a Value>) -> HashMap<String, &'a Value> {
        let items = old.and_then(Value::as_array).into_iter().flatten();
        items
            .filter_map(|item| Some((self.key(item)?, item)))
            .collect()
    }

    /// Returns the key of an item, if the list has keys.
    pub(super) fn key(&self, item: &Value) -> Option<String> {
        let ListType::Map(keys) = &self.list else {
            return None;
        };
        let value = |key: &str| {
            let default = || self.items.as_ref()?.fields.get(key)?.default.as_ref();
            item.get(key).or_else(default).unwrap_or(&Value::Null)
        };
        Some(Value::Array(keys.iter().map(|key| value(key).clone()).collect()).to_string())
    }
}
