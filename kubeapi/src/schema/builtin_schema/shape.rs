//! Normalises an object for storage: removes nulls, writes quantities and base64 in canonical form and prunes unknown fields.

use serde_json::Value;

use super::{
    AdditionalFields, Node, Scalar, Schema, Type, check::known_fields, check::without_line_breaks,
};
use crate::object::quantity::canonical;

impl Schema {
    /// Removes nulls of known fields (Go reads them as absent), and writes quantities and base64 in the canonical form of the API server.
    pub fn normalise(&self, object: &mut Value) {
        self.normalise_at(self.root, object);
    }

    fn normalise_at(&self, at: usize, value: &mut Value) {
        match (self.node(at), value) {
            (Node::Object { fields, others, .. }, Value::Object(map)) => {
                let rest = match others {
                    AdditionalFields::Map(node) => Some(node),
                    AdditionalFields::Unknown | AdditionalFields::Kept => None,
                };
                map.retain(|name, value| {
                    let node = fields.get(name.as_str()).or(rest);
                    !value.is_null() || node.is_none_or(|node| self.takes_null(*node))
                });
                for (node, value) in known_fields(fields, others, map) {
                    self.normalise_at(node, value);
                }
            }
            (Node::List { items, .. }, Value::Array(list)) => {
                list.iter_mut()
                    .for_each(|value| self.normalise_at(*items, value));
            }
            (
                Node::Scalar(Scalar {
                    type_: Type::Quantity,
                    ..
                }),
                value @ (Value::Number(_) | Value::String(_)),
            ) => {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                *value = Value::String(canonical(&text).unwrap_or(text));
            }
            (
                Node::Scalar(Scalar {
                    type_: Type::Bytes, ..
                }),
                Value::String(text),
            ) if text.contains(['\r', '\n']) => *text = without_line_breaks(text),
            _ => {}
        }
    }

    fn takes_null(&self, at: usize) -> bool {
        match self.node(at) {
            Node::Any => true,
            Node::Object { nullable, .. } | Node::List { nullable, .. } => *nullable,
            Node::Scalar(scalar) => scalar.nullable && scalar.type_ != Type::Quantity,
        }
    }

    /// Removes unknown fields.
    pub fn prune(&self, object: &mut Value) {
        self.prune_at(self.root, object);
    }

    fn prune_at(&self, at: usize, value: &mut Value) {
        match (self.node(at), value) {
            (Node::Object { fields, others, .. }, Value::Object(map)) => {
                if matches!(others, AdditionalFields::Unknown) {
                    map.retain(|name, _| fields.contains_key(name.as_str()));
                }
                for (node, value) in known_fields(fields, others, map) {
                    self.prune_at(node, value);
                }
            }
            (Node::List { items, .. }, Value::Array(list)) => {
                list.iter_mut()
                    .for_each(|value| self.prune_at(*items, value));
            }
            _ => {}
        }
    }
}
