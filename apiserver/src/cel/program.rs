//! A parsed and checked expression.

use std::fmt;

use super::{
    check,
    decl::Decl,
    literals,
    parse::{self, Expr, Fault, Parsed},
};

/// A checked expression.
#[derive(Debug)]
pub(crate) struct Program {
    pub(super) expr: Expr,
    /// Returns the type of the result.
    decl: Decl,
    /// The names of the variables in it.
    variables: Vec<String>,
    /// Messages that are in a field of another name.
    misplaced: Vec<String>,
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
        let Parsed { expr, places } = parse::parse(source).map_err(CompileError::Compilation)?;
        let faulty = |faults: Vec<check::Fault>| {
            let faults = faults.into_iter();
            let faults = faults.map(|(id, what)| Fault::new(places.of(id), what));
            CompileError::Compilation(parse::format_faults(source, faults.collect()))
        };
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
                misplaced: checked.misplaced,
            }),
        }
    }

    /// Returns the type of the result.
    pub(crate) fn decl(&self) -> &Decl {
        &self.decl
    }

    /// Returns what is wrong with the places of messages in it.
    pub(crate) fn misplaced_messages(&self) -> Option<String> {
        (!self.misplaced.is_empty()).then(|| self.misplaced.join("\n"))
    }

    /// Reports whether the expression uses the variable.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.variables.iter().any(|used| used == variable)
    }
}
