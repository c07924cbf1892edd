//! Checks objects against the structural schema of their definition and its rules, with the API server's texts.

use serde_json::Value;

mod check;
mod compile;
mod correlate;
mod evaluate;
mod lists;
mod node;
mod rules;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use check::DeadlineExceeded;
pub(crate) use compile::pattern;
pub(crate) use evaluate::Outcome;
pub(crate) use node::SchemaValidator;
pub(crate) use rules::{RuleFault, check_rules, valid_field_path};

impl SchemaValidator {
    /// Compiles an `openAPIV3Schema` that has been validated.
    pub(crate) fn new(document: &Value) -> Self {
        Self {
            root: compile::root(document),
            has_rules: rules::has_rules(document),
        }
    }
}
