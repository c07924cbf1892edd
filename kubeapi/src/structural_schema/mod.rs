//! The schema of a kind from a definition (a structural schema): checks objects with the real server's texts, prunes them and
//! fills in their defaults, at every level.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

mod check;
mod compile;
mod correlate;
mod formats;
mod lists;
mod rules;
mod shape;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use check::Late;
pub(crate) use compile::pattern;
pub(crate) use formats::fits;
pub(crate) use rules::{Outcome, RuleFault, check_rules};

/// A compiled `openAPIV3Schema`.
#[derive(Debug)]
pub(crate) struct Structural {
    root: Node,
    /// Whether a rule stands anywhere in it.
    has_rules: bool,
}

/// What one value may be.
#[derive(Debug, Default)]
struct Node {
    type_: Option<Type>,
    nullable: bool,
    /// Fields that the schema does not have stay.
    keeps_unknown: bool,
    /// An object of another kind: its type and metadata are known without being listed.
    embedded: bool,
    fields: BTreeMap<Box<str>, Node>,
    rest: Rest,
    items: Option<Box<Node>>,
    default: Option<Value>,
    list: ListType,
    /// Whether the object changes only as a whole.
    is_atomic: bool,
    rules: Rules,
    /// `x-kubernetes-validations`.
    validations: Vec<rules::Validation>,
    /// Whether it, or a value within, has some.
    has_rules_within: bool,
}

/// What an object may hold beside its known fields.
#[derive(Debug, Default)]
enum Rest {
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
enum ListType {
    /// Nothing is said.
    #[default]
    Atomic,
    /// No value.
    Set,
    /// No combination of these fields.
    Map(Vec<Box<str>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
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
struct Rules {
    required: Vec<Box<str>>,
    allowed: Vec<Value>,
    minimum: Option<Bound>,
    maximum: Option<Bound>,
    multiple_of: Option<f64>,
    /// Lengths of strings, in characters.
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
    pattern: Option<Regex>,
    format: Option<Box<str>>,
    all_of: Vec<Node>,
    any_of: Vec<Node>,
    one_of: Vec<Node>,
    not: Option<Box<Node>>,
}

/// A limit of a number.
#[derive(Clone, Copy, Debug)]
struct Bound {
    at: f64,
    /// Whether the limit itself is out.
    exclusive: bool,
}

impl Structural {
    /// Of an `openAPIV3Schema` that was found to be one.
    pub(crate) fn new(document: &Value) -> Self {
        Self { root: compile::root(document), has_rules: rules::has_rules(document) }
    }
}

/// The fields that every object has.
fn is_type_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}
