//! A compiled schema: for each value in an object what it may be.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::rules::Validation;

/// A compiled `openAPIV3Schema`.
#[derive(Debug)]
pub(crate) struct Structural {
    pub(super) root: Node,
    /// Whether a rule stands anywhere in it.
    pub(super) has_rules: bool,
}

/// What one value may be.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) type_: Option<Type>,
    pub(super) nullable: bool,
    /// Fields that the schema does not have stay.
    pub(super) keeps_unknown: bool,
    /// An object of another kind: its type and metadata are known without being listed.
    pub(super) embedded: bool,
    pub(super) fields: BTreeMap<Box<str>, Node>,
    pub(super) rest: Rest,
    pub(super) items: Option<Box<Node>>,
    pub(super) default: Option<Value>,
    pub(super) list: ListType,
    /// Whether the object changes only as a whole.
    pub(super) is_atomic: bool,
    pub(super) rules: Rules,
    /// `x-kubernetes-validations`.
    pub(super) validations: Vec<Validation>,
    /// Whether it, or a value within, has some.
    pub(super) has_rules_within: bool,
}

/// What an object may hold beside its known fields.
#[derive(Debug, Default)]
pub(super) enum Rest {
    /// Nothing.
    #[default]
    Unknown,
    /// Anything.
    Any,
    /// Values like this: the object is a map.
    Values(Box<Node>),
}

/// What may not occur twice in a list.
#[derive(Debug, Default)]
pub(super) enum ListType {
    /// Nothing is said.
    #[default]
    Atomic,
    /// No value.
    Set,
    /// No combination of these fields.
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

/// What a value of the right type must be like.
#[derive(Debug, Default)]
pub(super) struct Rules {
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
    /// Whether the limit itself is out.
    pub(super) exclusive: bool,
}
