//! Normalises an object for storage: prunes unknown fields, removes nulls and fills in defaults.

use serde_json::Value;

use super::{
    node::{Node, Rest, Structural},
    path::{field_step, within},
    types::is_type_meta,
};

impl Structural {
    /// Removes unknown fields, and returns their paths.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruned = Vec::new();
        self.root.prune(object, true, &mut String::new(), &mut pruned);
        pruned
    }

    /// Removes unknown fields from a value that is no whole object, and returns their paths.
    pub(crate) fn prune_part(&self, value: &mut Value) -> Vec<String> {
        let mut pruned = Vec::new();
        self.root.prune(value, false, &mut String::new(), &mut pruned);
        pruned
    }

    /// Fills in defaults where the enclosing object exists. A null that is not allowed counts as an absent value.
    pub(crate) fn fill_defaults(&self, object: &mut Value) {
        self.root.fill_defaults(object);
    }
}

/// The most removed fields that are reported. Further ones are removed all the same.
const PRUNED: usize = 1000;

impl Node {
    /// Returns the schema of the field `name`, known or of a map.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        self.fields.get(name).or(match &self.rest {
            Rest::Values(values) => Some(values),
            Rest::Unknown | Rest::Any => None,
        })
    }

    /// Prunes a value. `is_object`: it is a whole object, whose type and metadata the schema does not define.
    fn prune(&self, value: &mut Value, is_object: bool, path: &mut String, pruned: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                let is_object = is_object || self.embedded;
                map.retain(|name, value| {
                    if is_object && is_type_meta(name) {
                        return true;
                    }
                    if let Some(node) = self.field(name) {
                        within(path, &field_step(path, name), |path| node.prune(value, false, path, pruned));
                        return true;
                    }
                    let stays = self.keeps_unknown || matches!(self.rest, Rest::Any);
                    if !stays && pruned.len() < PRUNED {
                        pruned.push(format!("{path}{}", field_step(path, name)));
                    }
                    stays
                });
            }
            Value::Array(list) => {
                let Some(items) = &self.items else { return };
                for (index, value) in list.iter_mut().enumerate() {
                    within(path, &format!("[{index}]"), |path| items.prune(value, false, path, pruned));
                }
            }
            _ => {}
        }
    }

    fn fill_defaults(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, node) in &self.fields {
                    let is_absent =
                        map.get(name.as_ref()).is_none_or(|value| value.is_null() && !node.nullable);
                    if let Some(default) = node.default.as_ref().filter(|_| is_absent) {
                        map.insert(name.to_string(), default.clone());
                    }
                }
                map.retain(|name, value| {
                    let Some(node) = self.field(name) else { return true };
                    if value.is_null() && !node.nullable {
                        match &node.default {
                            Some(default) => *value = default.clone(),
                            None => return false,
                        }
                    }
                    node.fill_defaults(value);
                    true
                });
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    list.iter_mut().for_each(|value| items.fill_defaults(value));
                }
            }
            _ => {}
        }
    }
}
