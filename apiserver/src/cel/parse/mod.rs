//! Parses expressions: a lexer, a parser by recursive descent, and macros, which are expanded where they are called. The grammar is
//! that of cel-spec.

mod ast;
mod fault;
mod grammar;
mod lexer;
mod macros;
pub(super) mod operators;
mod parser;
mod strings;
#[cfg(test)]
mod tests;
mod token;

pub(super) use ast::{
    CallExpr, ComprehensionExpr, Expr, ExprKind, ListExpr, Literal, MapEntry, MapExpr, SelectExpr,
    StructExpr,
};
pub(super) use fault::{Fault, MAX_FAULTS, format_faults};
pub(super) use macros::{INSERT, INSERT_ALL, SORT_BY};

/// The longest expression, in bytes.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 16 * 1024;

/// The most operators and brackets of an expression, which bounds the depth of its tree.
const MAX_OPERATORS: usize = 600;

/// The most relational operator characters of an expression: a chain of them is a tree of that depth.
const MAX_RELATIONS: usize = 1200;

/// A tree, and the places of its parts.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) expr: Expr,
    pub(super) places: Places,
}

/// Where the parts of a tree are in the source, as bytes.
#[derive(Debug, Default)]
pub(super) struct Places(Vec<u32>);

impl Places {
    /// Returns the place of the part with this number.
    pub(super) fn of(&self, id: u32) -> u32 {
        self.0.get(id as usize).copied().unwrap_or_default()
    }

    /// Numbers a part at this place.
    fn add(&mut self, place: u32) -> u32 {
        self.0.push(place);
        u32::try_from(self.0.len() - 1).unwrap_or(u32::MAX)
    }
}

/// Parses an expression.
///
/// # Errors
/// Fails in the words of cel-go.
pub(super) fn parse(source: &str) -> Result<Parsed, String> {
    admit(source)?;
    let (tokens, mut faults) = lexer::tokens(source);
    let mut parser = parser::Parser::new(source, tokens);
    let expr = parser.whole();
    let (places, found) = parser.finish();
    faults.extend(found);
    match expr {
        Some(expr) if faults.is_empty() => Ok(Parsed { expr, places }),
        _ => Err(format_faults(source, faults)),
    }
}

/// Checks that an expression is short enough to be parsed, and that its tree cannot be deep.
fn admit(source: &str) -> Result<(), String> {
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
