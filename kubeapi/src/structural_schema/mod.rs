//! The structural schema of a kind from a definition: checks objects with the API server's texts, prunes them and fills in their
//! defaults, at every level.

use serde_json::Value;

mod check;
mod compile;
mod correlate;
mod evaluate;
mod lists;
mod node;
mod path;
mod rules;
mod shape;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use check::DeadlineExceeded;
pub(crate) use compile::pattern;
pub(crate) use evaluate::Outcome;
pub(crate) use node::Structural;
pub(crate) use rules::{RuleFault, check_rules, valid_field_path};

impl Structural {
    /// Compiles an `openAPIV3Schema` that has been validated.
    pub(crate) fn new(document: &Value) -> Self {
        Self {
            root: compile::root(document),
            has_rules: rules::has_rules(document),
        }
    }
}
