//! Patterns of expressions, which run in time linear to the text. Those compiled are kept for the evaluation.

use std::collections::HashMap;

use regex::Regex;

use super::{budget::Budget, error::EvalError};

/// How large a compiled pattern may be, in bytes.
const LARGEST: usize = 1 << 18;

/// How many compiled patterns are kept.
const KEPT: usize = 64;

/// Reads a pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let built = crate::go_regex::compile(pattern, LARGEST);
    built.map_err(|error| format!("error parsing regexp: {}", error.to_string().replace('\n', " ").trim()))
}

/// The patterns that an evaluation has met.
#[derive(Debug, Default)]
pub(super) struct Patterns(HashMap<Box<str>, Regex>);

impl Patterns {
    /// The pattern, ready for a text of this length; it is paid for.
    pub(super) fn get(
        &mut self,
        pattern: &str,
        length: usize,
        budget: &mut Budget,
    ) -> Result<Regex, EvalError> {
        budget.spend((1 + length as u64 / 10).saturating_mul(1 + pattern.len() as u64 / 4))?;
        if let Some(known) = self.0.get(pattern) {
            return Ok(known.clone());
        }
        // as many steps as a compilation takes
        budget.spend(500 + pattern.len() as u64 * 20)?;
        let compiled = compile(pattern).map_err(EvalError::Failed)?;
        if self.0.len() < KEPT {
            self.0.insert(pattern.into(), compiled.clone());
        }
        Ok(compiled)
    }
}
