//! The Common Expression Language (CEL) as Kubernetes uses it: expressions are parsed and checked once, and evaluated with a cost
//! limit.
//!
//! Macros, types and functions are those of kube-apiserver 1.36. What the evaluator does not support is refused when an expression is
//! written.

mod authorizer;
mod budget;
mod check;
mod decl;
mod error;
mod eval;
mod functions;
mod library;
mod literals;
mod moment;
mod parse;
mod program;
mod regexes;
mod semver;
#[cfg(test)]
mod tests;
mod to_json;
mod value;
mod weight;
mod with_depth;

pub(crate) use authorizer::{AuthorizationAttributes, Authorize, Check};
pub(crate) use budget::{Budget, MAX_OBJECT_COST};
pub(crate) use check::{JSON_PATCH, OBJECT, PATCH_TYPES};
pub(crate) use decl::{Decl, escape};
pub(crate) use error::EvalError;
pub(crate) use eval::Activation;
pub(crate) use program::Program;
pub(crate) use to_json::to_json;
pub(crate) use value::Val;
