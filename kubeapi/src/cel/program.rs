//! A parsed and checked expression.

use std::fmt;

use cel::{IdedExpr, common::ast::SourceInfo};

use super::{
    check::{self, Fault, MAX_FAULTS},
    decl::Decl,
    literals, parse,
};

/// The stack of the thread that parses an expression: four times what the most deeply nested one that [`parse::admit`] allows needs
/// without optimisation. Only the used part takes memory.
const STACK_BYTES: usize = 64 << 20;

/// A checked expression.
#[derive(Debug)]
pub(crate) struct Program {
    pub(super) expr: IdedExpr,
    /// Returns the type of the result.
    decl: Decl,
    /// The names of the variables in it.
    variables: Vec<String>,
}

/// Why an expression cannot be stored, in the words of cel-go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CompileError {
    /// It is not written well, or its types do not fit.
    Compilation(String),
    /// A constant in it cannot be evaluated.
    Instantiation(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compilation(why) => write!(f, "compilation failed: {why}"),
            Self::Instantiation(why) => write!(f, "instantiation failed: {why}"),
        }
    }
}

impl CompileError {
    /// Returns the message for an expression that is a rule.
    pub(crate) fn of_rule(&self) -> String {
        match self {
            Self::Compilation(_) => self.to_string(),
            Self::Instantiation(_) => format!("program {self}"),
        }
    }
}

impl Program {
    /// Parses and checks `source` with these variables.
    ///
    /// # Errors
    /// Returns the faults in the format of cel-go.
    pub(crate) fn compile(source: &str, variables: &[(&str, Decl)]) -> Result<Self, CompileError> {
        parse::admit(source).map_err(CompileError::Compilation)?;
        // the parser goes down as deep as brackets are nested, and takes tens of kilobytes for each of them
        let compile = || {
            let (expr, places) = parse::parse(source).map_err(CompileError::Compilation)?;
            let faulty = |faults| CompileError::Compilation(located(&places, faults));
            let checked = check::check(&expr, variables).map_err(faulty)?;
            let literals = literals::check(&expr, &checked);
            if !literals.faults.is_empty() {
                return Err(faulty(literals.faults));
            }
            match literals.plan {
                Some(why) => Err(CompileError::Instantiation(why)),
                None => Ok(Self {
                    expr,
                    decl: checked.decl,
                    variables: checked.variables,
                }),
            }
        };
        let unreadable = |why: String| CompileError::Compilation(why);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("cel".into())
                .stack_size(STACK_BYTES);
            let running = thread.spawn_scoped(scope, compile);
            let running = running
                .map_err(|error| unreadable(format!("the expression cannot be read: {error}")))?;
            running
                .join()
                .unwrap_or_else(|_| Err(unreadable("the expression cannot be read".to_owned())))
        })
    }

    /// Returns the type of the result.
    pub(crate) fn decl(&self) -> &Decl {
        &self.decl
    }

    /// Reports whether the expression uses the variable.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.variables.iter().any(|used| used == variable)
    }
}

/// Formats faults with their positions, as cel-go does: in the order of their places.
fn located(source: &SourceInfo, faults: Vec<Fault>) -> String {
    let start = |id: u64| source.offset_for(id).map_or(0, |(start, _)| start as usize);
    let mut faults: Vec<_> = faults
        .into_iter()
        .map(|(id, what)| (start(id), what))
        .collect();
    faults.sort_by_key(|(start, _)| *start);
    faults.truncate(MAX_FAULTS);
    let shown = faults.into_iter().map(|(start, what)| {
        let before: String = source.source.chars().take(start).collect();
        let line = before.matches('\n').count();
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count();
        let text = source.source.lines().nth(line).unwrap_or_default();
        format!(
            "ERROR: <input>:{}:{}: {what}\n | {text}\n | {}^",
            line + 1,
            column + 1,
            ".".repeat(column)
        )
    });
    shown.collect::<Vec<_>>().join("\n")
}
