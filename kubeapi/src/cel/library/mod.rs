//! The functions: those of the language, of cel-go's extensions and of Kubernetes.

use super::{
    authorizer,
    budget::{Budget, EvalError},
    eval::Evaluated,
    regexes::Patterns,
    value::Val,
};

mod convert;
pub(super) mod duration;
mod format;
mod lists;
mod named_formats;
mod net;
mod operators;
mod optional;
mod quantity;
mod strings;
mod time;

/// What stands before the dot in the names of functions.
pub(super) const NAMESPACES: [&str; 5] = ["sets", "optional", "ip", "format", "strings"];

/// What functions need beside their arguments.
pub(super) struct Context<'b> {
    pub(super) budget: &'b mut Budget,
    pub(super) patterns: &'b mut Patterns,
}

/// The answer to arguments that no function of the name takes.
pub(super) fn no_overload<'a>() -> Evaluated<'a> {
    EvalError::failed("no such overload")
}

/// Calls a function; the target is the first argument. The texts that it reads, and whatever else is as long as one, are paid for here.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], context: &mut Context<'_>) -> Evaluated<'a> {
    for arg in args {
        if let Val::String(_) | Val::Bytes(_) | Val::Url(_) | Val::Check(_) = arg {
            context.budget.spend(arg.own_weight())?;
        }
    }
    let parts = [
        operators::call,
        lists::call,
        strings::call,
        optional::call,
        convert::call,
        time::call,
        quantity::call,
        net::call,
        named_formats::call,
        authorizer::call,
    ];
    parts.into_iter().find_map(|part| part(name, args, context)).unwrap_or_else(no_overload)
}
