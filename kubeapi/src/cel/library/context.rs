//! What functions need beside their arguments, and what they answer to those that they do not take.

use crate::cel::{
    budget::Budget,
    error::{EvalError, Evaluated},
    regexes::Patterns,
};

/// What an evaluation has left to spend, and the patterns that it has met.
pub(in crate::cel) struct Context<'b> {
    pub(in crate::cel) budget: &'b mut Budget,
    pub(in crate::cel) patterns: &'b mut Patterns,
}

/// The answer to arguments that no function of the name takes.
pub(in crate::cel) fn no_overload<'a>() -> Evaluated<'a> {
    EvalError::failed("no such overload")
}
