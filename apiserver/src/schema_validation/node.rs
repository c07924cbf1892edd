//! The compiled schema of each value in an object.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::rules::Validation;
use crate::string_formats;

/// A compiled `openAPIV3Schema`.
#[derive(Debug)]
pub(crate) struct SchemaValidator {
    pub(super) root: Node,
    /// Whether the schema has a rule anywhere.
    pub(super) has_rules: bool,
}

/// The schema of one value.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) type_: Option<Type>,
    pub(super) nullable: bool,
    /// An embedded object (`x-kubernetes-embedded-resource`): its type and metadata are known without being listed.
    pub(super) embedded: bool,
    pub(super) fields: BTreeMap<Box<str>, Node>,
    pub(super) rest: Rest,
    pub(super) items: Option<Box<Node>>,
    pub(super) default: Option<Value>,
    pub(super) list: ListType,
    /// Whether the object is atomic: it changes only as a whole.
    pub(super) is_atomic: bool,
    pub(super) rules: ValueConstraints,
    /// `x-kubernetes-validations`.
    pub(super) validations: Vec<Validation>,
    /// Whether this value, or one within, has rules.
    pub(super) has_rules_within: bool,
}

/// The schema of fields besides the known ones.
#[derive(Debug, Default)]
pub(super) enum Rest {
    /// None are allowed.
    #[default]
    Unknown,
    /// Any value is allowed.
    Any,
    /// Values like this: the object is a map.
    Values(Box<Node>),
}

/// Which items of a list must be unique.
#[derive(Debug, Default)]
pub(super) enum ListType {
    /// Atomic: duplicates are allowed.
    #[default]
    Atomic,
    /// A set: each value is unique.
    Set,
    /// A map: each combination of these fields is unique.
    Map(Vec<Box<str>>),
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

/// The constraints of a value of the right type.
#[derive(Debug, Default)]
pub(super) struct ValueConstraints {
    pub(super) required: Vec<Box<str>>,
    pub(super) allowed: Vec<Value>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    /// Lengths of strings, in characters.
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) pattern: Option<Regex>,
    pub(super) format: Option<Box<str>>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

/// A limit of a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) at: f64,
    /// Whether the limit itself is excluded.
    pub(super) exclusive: bool,
}

impl Node {
    /// Returns the format, if it is one of texts.
    pub(super) fn text_format(&self) -> Option<&str> {
        let format = self.rules.format.as_deref();
        format.filter(|format| string_formats::is_known(format, "string"))
    }

    /// Returns the schema of the field `name`, known or of a map.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        self.fields.get(name).or(match &self.rest {
            Rest::Values(values) => Some(values),
            Rest::Unknown | Rest::Any => None,
        })
    }
}
