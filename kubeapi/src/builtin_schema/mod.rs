//! The schema of a published type, compiled small: what a field may hold, which fields there are. Checks objects, prunes and
//! normalises them.

mod check;
mod compile;
pub(crate) mod published;
mod shape;

use std::collections::BTreeMap;

pub(crate) use check::{Findings, Mismatch};

/// A compiled schema: nodes that name each other by place, since some types contain themselves.
#[derive(Debug)]
pub(crate) struct Schema {
    nodes: Vec<Node>,
    root: usize,
}

/// What one value may be.
#[derive(Debug)]
enum Node {
    /// Anything.
    Any,
    /// An object.
    Object {
        /// Its known fields.
        fields: BTreeMap<Box<str>, usize>,
        /// What stands under other names.
        others: Others,
        nullable: bool,
    },
    /// A list of these.
    List { items: usize, nullable: bool },
    /// Neither.
    Scalar(Scalar),
}

/// What an object may hold beside its known fields.
#[derive(Clone, Copy, Debug)]
enum Others {
    /// Nothing.
    Unknown,
    /// Anything.
    Kept,
    /// Values of this kind: the object is a map.
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
    /// A number is taken and turned into the string that typed clients expect.
    Quantity,
}

impl Schema {
    fn node(&self, at: usize) -> &Node {
        self.nodes.get(at).unwrap_or(&Node::Any)
    }
}

#[cfg(test)]
mod tests;
