//! Parses expressions. The parser is that of the crate `cel`; the macros are our own.

use std::sync::LazyLock;

use cel::{Env, IdedExpr, common::ast::SourceInfo};

use super::macros;

/// The longest expression, in bytes.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 16 * 1024;

/// The most operators and brackets of an expression, which bounds its nesting and so the recursion over its tree.
const MAX_OPERATORS: usize = 600;

/// The most relational operator characters of an expression: a chain of them is a tree of that depth.
const MAX_RELATIONS: usize = 1200;

/// Checks that an expression is short and shallow enough to be parsed.
///
/// # Errors
/// Fails where it is not.
pub(super) fn admit(source: &str) -> Result<(), String> {
    if source.len() > MAX_EXPRESSION_BYTES {
        return Err(format!(
            "the expression is longer than {MAX_EXPRESSION_BYTES} bytes"
        ));
    }
    let count = |of: &[u8]| source.bytes().filter(|byte| of.contains(byte)).count();
    let relations = count(b"=<>") + source.matches("in").count();
    if count(b"+-*/%!?([{.") > MAX_OPERATORS || relations > MAX_RELATIONS {
        return Err("the expression has too many operators or brackets".to_owned());
    }
    Ok(())
}

/// A tree, and where its parts are written, of an expression that was [admitted](admit).
pub(super) fn parse(source: &str) -> Result<(IdedExpr, SourceInfo), String> {
    ENV.parser()
        .parse_with_source_info(source)
        .map_err(|errors| {
            errors
                .errors
                .iter()
                .map(|error| error.to_string())
                .collect::<Vec<_>>()
                .join("\n")
        })
}

static ENV: LazyLock<Env> = LazyLock::new(|| {
    let mut env = Env::default().with_stdlib();
    for one in macros::all() {
        if let Err(error) = env.add_macro(one) {
            tracing::error!(%error, "failed to add a CEL macro: its name is taken");
        }
    }
    env
});
