//! The function library: functions of the language, of cel-go's extensions and of Kubernetes.

use super::{error::Evaluated, value::Val};

mod authorizer;
pub(super) mod context;
mod convert;
pub(super) mod format;
mod items;
mod lists;
mod messages;
mod named_formats;
mod net;
mod operators;
mod optional;
mod quantity;
mod quote;
mod semver;
mod sequences;
mod strings;
mod time;

use context::{Context, no_overload};

/// The namespaces of functions, such as `sets` in `sets.contains`.
pub(super) const NAMESPACES: [&str; 7] = [
    "sets",
    "optional",
    "ip",
    "format",
    "strings",
    "lists",
    "jsonpatch",
];

/// Calls a function; the target is the first argument. The texts that it reads, and whatever else is as long as one, are paid for here.
pub(super) fn call<'a>(name: &str, args: &[Val<'a>], context: &mut Context<'_>) -> Evaluated<'a> {
    for arg in args {
        if let Val::String(_) | Val::Bytes(_) | Val::Url(_) | Val::Semver(_) | Val::Check(_) = arg {
            context.budget.spend(arg.own_weight())?;
        }
    }
    let parts = [
        operators::call,
        lists::call,
        sequences::call,
        strings::call,
        optional::call,
        convert::call,
        time::call,
        quantity::call,
        semver::call,
        net::call,
        named_formats::call,
        authorizer::call,
        messages::call,
    ];
    parts
        .into_iter()
        .find_map(|part| part(name, args, context))
        .unwrap_or_else(no_overload)
}
