//! Regular expressions, which run in time linear in the text. Compiled ones are cached during an evaluation.

use std::collections::HashMap;

use regex::Regex;

use super::{budget::Budget, error::EvalError};

/// The largest compiled pattern in bytes.
const MAX_COMPILED_BYTES: usize = 1 << 18;

/// The most compiled patterns in the cache.
const MAX_CACHED_PATTERNS: usize = 64;

/// Compiles a pattern.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    let built = crate::go_regex::compile(pattern, MAX_COMPILED_BYTES);
    built.map_err(|error| {
        format!(
            "error parsing regexp: {}",
            error.to_string().replace('\n', " ").trim()
        )
    })
}

/// The cache of an evaluation's compiled patterns.
#[derive(Debug, Default)]
pub(super) struct Patterns(HashMap<Box<str>, Regex>);

impl Patterns {
    /// Pays for matching a text of this length, and returns the compiled pattern.
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
        if self.0.len() < MAX_CACHED_PATTERNS {
            self.0.insert(pattern.into(), compiled.clone());
        }
        Ok(compiled)
    }
}
