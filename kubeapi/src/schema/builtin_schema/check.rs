//! Checks an object against its schema.

use std::fmt::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::{AdditionalFields, Node, Schema, Type};
use crate::object::quantity::Quantity;

/// The findings about an object. Paths are as in messages: `spec.containers[0].image`.
#[derive(Debug, Default, PartialEq)]
pub struct Findings {
    /// Values of the wrong type.
    pub mismatches: Vec<TypeMismatch>,
    /// Unknown fields.
    pub unknown: Vec<String>,
    /// The bytes of both lists.
    bytes: usize,
}

/// The most bytes of the findings about one object: a path may be nearly as long as the object, and is repeated for each of its fields.
const MAX_FINDINGS_BYTES: usize = 1024 * 1024;

/// A value of the wrong type.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    /// The path of the value.
    pub path: String,
    /// The type of the value, as Go names JSON types.
    pub found: String,
    /// The Go type of the field.
    pub expected: &'static str,
}

impl Schema {
    /// Returns the findings about `object`.
    pub fn check(&self, object: &Value) -> Findings {
        let mut findings = Findings::default();
        self.walk(self.root, object, &mut String::new(), &mut findings);
        findings
    }

    fn walk(&self, at: usize, value: &Value, path: &mut String, findings: &mut Findings) {
        match (self.node(at), value) {
            (Node::Any, _) => {}
            (Node::Object { fields, others, .. }, Value::Object(map)) => {
                for (name, value) in map {
                    let node = match (fields.get(name.as_str()), others) {
                        (Some(node), _) | (None, AdditionalFields::Map(node)) => *node,
                        (None, AdditionalFields::Kept) => continue,
                        (None, AdditionalFields::Unknown) => {
                            findings.unknown(path, name);
                            continue;
                        }
                    };
                    let length = path.len();
                    push_field(path, name);
                    self.walk(node, value, path, findings);
                    path.truncate(length);
                }
            }
            (Node::List { items, .. }, Value::Array(list)) => {
                for (index, value) in list.iter().enumerate() {
                    let length = path.len();
                    // writing to a text cannot fail
                    let _ = write!(path, "[{index}]");
                    self.walk(*items, value, path, findings);
                    path.truncate(length);
                }
            }
            // Go reads null as absent, everywhere
            (_, Value::Null) => {}
            (Node::Object { .. }, _) => findings.mismatch(path, value, "object"),
            (Node::List { .. }, _) => findings.mismatch(path, value, "array"),
            (Node::Scalar(scalar), _) => {
                if let Some(expected) = scalar.type_.refuses(value) {
                    findings.mismatch(path, value, expected);
                }
            }
        }
    }
}

impl Type {
    /// Returns the expected type where `value` has another one.
    fn refuses(self, value: &Value) -> Option<&'static str> {
        let (fits, expected) = match self {
            Self::String => (value.is_string(), "string"),
            Self::Bytes => (
                value
                    .as_str()
                    .is_some_and(|text| STANDARD.decode(without_line_breaks(text)).is_ok()),
                "base64 string",
            ),
            Self::Time => {
                let is_time = |text: &str| text.parse::<jiff::Timestamp>().is_ok();
                (value.as_str().is_some_and(is_time), "RFC 3339 time")
            }
            Self::Boolean => (value.is_boolean(), "boolean"),
            Self::Int32 => (
                value
                    .as_i64()
                    .is_some_and(|number| i32::try_from(number).is_ok()),
                "int32",
            ),
            Self::Int64 => (value.as_i64().is_some(), "int64"),
            Self::Number => (value.is_number(), "number"),
            Self::IntOrString => (
                value.is_string() || value.as_i64().is_some(),
                "integer or string",
            ),
            Self::Quantity => (is_quantity(value), "quantity"),
        };
        (!fits).then_some(expected)
    }
}

/// Returns base64 as Go reads it.
pub(super) fn without_line_breaks(text: &str) -> String {
    text.replace(['\r', '\n'], "")
}

fn is_quantity(value: &Value) -> bool {
    value.is_number()
        || value
            .as_str()
            .is_some_and(|text| Quantity::parse(text).is_some())
}

impl Findings {
    fn unknown(&mut self, path: &str, name: &str) {
        // one is told in any case: it says that there are unknown fields
        if self.unknown.is_empty() || self.bytes < MAX_FINDINGS_BYTES {
            let unknown = join(path, name);
            self.bytes += unknown.len();
            self.unknown.push(unknown);
        }
    }

    fn mismatch(&mut self, path: &str, value: &Value, expected: &'static str) {
        if self.bytes >= MAX_FINDINGS_BYTES && !self.mismatches.is_empty() {
            return;
        }
        self.bytes += path.len();
        let found = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            // of a number that is none of the type the API server names the value
            Value::Number(number) if expected.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(text) if matches!(expected, "RFC 3339 time" | "quantity") => {
                format!("string {}", json!(shorten(text)))
            }
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        self.mismatches.push(TypeMismatch {
            path: path.to_owned(),
            found,
            expected,
        });
    }
}

/// Truncates a value for a message.
fn shorten(text: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 40;
    if text.chars().count() <= MAX_SHOWN_CHARACTERS {
        text.to_owned()
    } else {
        text.chars()
            .take(MAX_SHOWN_CHARACTERS)
            .chain("…".chars())
            .collect()
    }
}

fn join(path: &str, name: &str) -> String {
    let mut path = path.to_owned();
    push_field(&mut path, name);
    path
}

fn push_field(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

/// Returns the schema of a field, for the check and for pruning alike.
pub(super) fn known_fields<'a>(
    fields: &'a std::collections::BTreeMap<Box<str>, usize>,
    others: &AdditionalFields,
    map: &'a mut Map<String, Value>,
) -> impl Iterator<Item = (usize, &'a mut Value)> {
    let rest = match others {
        AdditionalFields::Map(node) => Some(*node),
        AdditionalFields::Unknown | AdditionalFields::Kept => None,
    };
    map.iter_mut().filter_map(move |(name, value)| {
        Some((fields.get(name.as_str()).copied().or(rest)?, value))
    })
}
