//! Kubernetes' expression language (CEL): expressions are read and checked once, and evaluated with a limit of what they cost.
//!
//! The parser is that of the crate `cel`. Evaluation is here: that crate's has no limit of cost, and its times are of another
//! calendar than ours. What this evaluation cannot do is refused where an expression is written.

mod authorizer;
mod budget;
mod check;
mod decl;
mod error;
mod eval;
mod functions;
mod library;
mod made;
mod parse;
mod program;
mod regexes;
#[cfg(test)]
mod tests;
mod value;
mod weight;

pub(crate) use authorizer::{Authorize, Check, Question};
pub(crate) use budget::{Budget, PER_OBJECT};
pub(crate) use decl::{Decl, escape};
pub(crate) use error::EvalError;
pub(crate) use eval::Activation;
pub(crate) use program::Program;
pub(crate) use value::Val;
