//! The Common Expression Language (CEL) as Kubernetes uses it: expressions are parsed and checked once, and evaluated with a cost
//! limit.
//!
//! The parser is that of the crate `cel`; macros, types and functions are those of kube-apiserver 1.36. The evaluator is our own: that
//! crate's has no cost limit, and its timestamps use another calendar library. What this evaluator does not support is refused when an
//! expression is written.

mod authorizer;
mod budget;
mod check;
mod decl;
mod error;
mod eval;
mod functions;
mod library;
mod literals;
mod macros;
mod moment;
mod parse;
mod program;
mod regexes;
mod semver;
#[cfg(test)]
mod tests;
mod value;
mod weight;
mod with_depth;

pub(crate) use authorizer::{AuthorizationAttributes, Authorize, Check};
pub(crate) use budget::{Budget, MAX_OBJECT_COST};
pub(crate) use decl::{Decl, escape};
pub(crate) use error::EvalError;
pub(crate) use eval::Activation;
pub(crate) use program::Program;
pub(crate) use value::Val;
