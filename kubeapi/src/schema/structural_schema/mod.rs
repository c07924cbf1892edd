//! The structural schema of a kind from a definition, as far as stored objects are read with it: prunes unknown fields, removes nulls and
//! fills in defaults. Whether an object is valid is not checked here.

use std::collections::BTreeMap;

use serde_json::Value;

use super::builtin_schema::metadata_schema;
use crate::object::{
    object_size::{MAX_OBJECT_BYTES, ObjectTooLarge, encoded_bytes},
    value_path::{field_step, within},
};

/// The compiled shape of an `openAPIV3Schema`.
#[derive(Debug)]
pub struct Structural {
    root: Node,
}

/// The shape of one value.
#[derive(Debug, Default)]
struct Node {
    nullable: bool,
    /// Unknown fields are kept (`x-kubernetes-preserve-unknown-fields`).
    keeps_unknown: bool,
    /// An embedded object (`x-kubernetes-embedded-resource`): its type and metadata are known without being listed.
    embedded: bool,
    fields: BTreeMap<Box<str>, Node>,
    rest: Rest,
    items: Option<Box<Node>>,
    default: Option<Value>,
}

/// The shape of fields besides the known ones.
#[derive(Debug, Default)]
enum Rest {
    /// None are allowed.
    #[default]
    Unknown,
    /// Any value is allowed.
    Any,
    /// Values like this: the object is a map.
    Values(Box<Node>),
}

impl Structural {
    /// Compiles an `openAPIV3Schema` that has been validated; invalid parts are skipped.
    pub fn new(document: &Value) -> Self {
        Self {
            root: Node::new(document),
        }
    }

    /// Removes unknown fields, and returns their paths.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut pruned = Vec::new();
        self.root
            .prune(object, true, &mut String::new(), &mut pruned);
        pruned
    }

    /// Removes unknown fields from a value that is no whole object, and returns their paths.
    pub fn prune_part(&self, value: &mut Value) -> Vec<String> {
        let mut pruned = Vec::new();
        self.root
            .prune(value, false, &mut String::new(), &mut pruned);
        pruned
    }

    /// Fills in defaults where the enclosing object exists. A null that is not allowed counts as an absent value.
    ///
    /// # Errors
    /// The defaults make the object larger than may be stored; the rest of them is not filled in.
    pub fn fill_defaults(&self, object: &mut Value) -> Result<(), ObjectTooLarge> {
        self.root
            .fill_defaults(object, &mut DefaultsBudget(MAX_OBJECT_BYTES))
    }
}

/// The bytes that defaults may still take.
struct DefaultsBudget(usize);

impl DefaultsBudget {
    /// Returns a copy of a field's default, and counts it.
    fn take(&mut self, name: &str, default: &Value) -> Result<Value, ObjectTooLarge> {
        // the quotes of the name, a colon and a comma
        let field = name.len() + 4;
        let left = self
            .0
            .checked_sub(field)
            .ok_or(ObjectTooLarge { bytes: None })?;
        let value = encoded_bytes(default, left).ok_or(ObjectTooLarge { bytes: None })?;
        self.0 = left - value;
        Ok(default.clone())
    }
}

/// The most removed fields that are reported. Further ones are removed all the same.
const PRUNED: usize = 1000;

impl Node {
    /// Compiles a node. The JSON parser of bodies limits the nesting.
    fn new(schema: &Value) -> Self {
        let fields = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let rest = match schema.get("additionalProperties") {
            Some(Value::Bool(true)) => Rest::Any,
            Some(values @ Value::Object(_)) => Rest::Values(Box::new(Self::new(values))),
            _ => Rest::Unknown,
        };
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or(false);
        Self {
            nullable: flag("nullable"),
            keeps_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            fields: fields
                .map(|(name, field)| (name.as_str().into(), Self::new(field)))
                .collect(),
            rest,
            items: schema
                .get("items")
                .filter(|items| items.is_object())
                .map(|items| Box::new(Self::new(items))),
            default: schema
                .get("default")
                .filter(|default| !default.is_null())
                .cloned(),
        }
    }

    /// Returns the shape of the field `name`, known or of a map.
    fn field(&self, name: &str) -> Option<&Self> {
        self.fields.get(name).or(match &self.rest {
            Rest::Values(values) => Some(values),
            Rest::Unknown | Rest::Any => None,
        })
    }

    /// Prunes a value. `is_object`: it is a whole object, whose type and metadata the schema does not define.
    fn prune(
        &self,
        value: &mut Value,
        is_object: bool,
        path: &mut String,
        pruned: &mut Vec<String>,
    ) {
        match value {
            Value::Object(map) => {
                let is_object = is_object || self.embedded;
                map.retain(|name, value| {
                    if is_object && is_type_meta(name) {
                        if self.embedded && name == "metadata" {
                            prune_metadata(
                                value,
                                &format!("{path}{}", field_step(path, name)),
                                pruned,
                            );
                        }
                        return true;
                    }
                    if let Some(node) = self.field(name) {
                        within(path, &field_step(path, name), |path| {
                            node.prune(value, false, path, pruned)
                        });
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
                    within(path, &format!("[{index}]"), |path| {
                        items.prune(value, false, path, pruned)
                    });
                }
            }
            _ => {}
        }
    }

    fn fill_defaults(
        &self,
        value: &mut Value,
        budget: &mut DefaultsBudget,
    ) -> Result<(), ObjectTooLarge> {
        match value {
            Value::Object(map) => {
                for (name, node) in &self.fields {
                    let is_absent = map
                        .get(name.as_ref())
                        .is_none_or(|value| value.is_null() && !node.nullable);
                    if let Some(default) = node.default.as_ref().filter(|_| is_absent) {
                        map.insert(name.to_string(), budget.take(name, default)?);
                    }
                }
                // a null without a default counts as absent
                map.retain(|name, value| {
                    let node = self.field(name);
                    !node.is_some_and(|node| {
                        value.is_null() && !node.nullable && node.default.is_none()
                    })
                });
                for (name, value) in map.iter_mut() {
                    let Some(node) = self.field(name) else {
                        continue;
                    };
                    if let Some(default) = node
                        .default
                        .as_ref()
                        .filter(|_| value.is_null() && !node.nullable)
                    {
                        *value = budget.take(name, default)?;
                    }
                    node.fill_defaults(value, budget)?;
                }
            }
            Value::Array(list) => {
                if let Some(items) = &self.items {
                    list.iter_mut()
                        .try_for_each(|value| items.fill_defaults(value, budget))?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Removes unknown fields from the metadata of an embedded object.
fn prune_metadata(metadata: &mut Value, path: &str, pruned: &mut Vec<String>) {
    let found = metadata_schema().check(metadata).unknown;
    if !found.is_empty() {
        metadata_schema().prune(metadata);
        pruned.extend(found.iter().map(|field| format!("{path}.{field}")));
    }
}

/// Reports whether every object has this field, and no schema describes it.
pub fn is_type_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

#[cfg(test)]
mod tests;
