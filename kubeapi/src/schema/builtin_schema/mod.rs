//! The compact compiled schema of a published type: checks objects, prunes and normalises them.

mod check;
mod compile;
pub mod published;
mod shape;

use std::{collections::BTreeMap, sync::OnceLock};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, schemars::JsonSchema};

pub use check::{Findings, TypeMismatch};

/// Returns the schema of the metadata that all kinds share.
pub fn metadata_schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::published(&ObjectMeta::schema_name()))
}

/// A compiled schema: nodes that refer to each other by index, since some types are recursive.
#[derive(Debug)]
pub struct Schema {
    nodes: Vec<Node>,
    root: usize,
}

/// The schema of one value.
#[derive(Debug)]
enum Node {
    /// Anything.
    Any,
    /// An object.
    Object {
        /// Its known fields.
        fields: BTreeMap<Box<str>, usize>,
        /// The schema of other fields.
        others: AdditionalFields,
        nullable: bool,
    },
    /// A list of values of this node.
    List { items: usize, nullable: bool },
    /// A scalar.
    Scalar(Scalar),
}

/// The schema of fields besides the known ones.
#[derive(Clone, Copy, Debug)]
enum AdditionalFields {
    /// None are allowed.
    Unknown,
    /// Anything.
    Kept,
    /// Values of this node: the object is a map.
    Map(usize),
}

/// A value that is neither object nor list.
#[derive(Clone, Copy, Debug)]
struct Scalar {
    type_: Type,
    nullable: bool,
}

/// The types of scalars that clients can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    String,
    /// base64
    Bytes,
    /// RFC 3339
    Time,
    Boolean,
    Int32,
    Int64,
    Number,
    IntOrString,
    /// A quantity; a number is accepted and turned into the string that typed clients expect.
    Quantity,
}

impl Schema {
    fn node(&self, at: usize) -> &Node {
        self.nodes.get(at).unwrap_or(&Node::Any)
    }
}

#[cfg(test)]
mod tests;
