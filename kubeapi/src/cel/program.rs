//! A parsed and checked expression.

use cel::IdedExpr;

use super::{check, decl::Decl, parse};

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

impl Program {
    /// Parses and checks `source` with these variables.
    ///
    /// # Errors
    /// Returns the faults in the format of cel-go.
    pub(crate) fn compile(source: &str, variables: &[(&str, Decl)]) -> Result<Self, String> {
        parse::admit(source)?;
        // the parser goes down as deep as brackets are nested, and takes tens of kilobytes for each of them
        let compile = || {
            let (expr, places) = parse::parse(source)?;
            let (decl, variables) = check::check(&expr, &places, variables)?;
            Ok(Self { expr, decl, variables })
        };
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("cel".into()).stack_size(STACK_BYTES);
            let running = thread.spawn_scoped(scope, compile);
            let running = running.map_err(|error| format!("the expression cannot be read: {error}"))?;
            running.join().unwrap_or_else(|_| Err("the expression cannot be read".to_owned()))
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
