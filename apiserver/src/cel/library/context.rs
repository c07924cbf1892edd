//! The context of a function call besides its arguments, and the error for arguments of the wrong types.

use crate::cel::{
    budget::Budget,
    error::{EvalError, Evaluated},
    regexes::Patterns,
};

/// The remaining budget of an evaluation, and its compiled patterns.
pub(in crate::cel) struct Context<'b> {
    pub(in crate::cel) budget: &'b mut Budget,
    pub(in crate::cel) patterns: &'b mut Patterns,
}

/// Returns the error for arguments that no overload takes.
pub(in crate::cel) fn no_overload<'a>() -> Evaluated<'a> {
    EvalError::fail("no such overload")
}
