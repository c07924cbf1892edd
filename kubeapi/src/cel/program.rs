//! An expression, read and checked.

use cel::IdedExpr;

use super::{check, decl::Decl, parse};

/// The stack of the thread that reads an expression: four times what the most deeply nested one that [`parse::admit`] lets pass was seen to
/// take without optimisation. Only what is used of it is memory.
const STACK_BYTES: usize = 64 << 20;

/// A checked expression.
#[derive(Debug)]
pub(crate) struct Program {
    pub(super) expr: IdedExpr,
    /// The type of its value.
    decl: Decl,
    /// The names of the variables in it.
    variables: Vec<String>,
}

impl Program {
    /// Reads and checks `source` with these variables.
    ///
    /// # Errors
    /// What is wrong with it, in the words of cel-go.
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

    /// The type of its value.
    pub(crate) fn decl(&self) -> &Decl {
        &self.decl
    }

    /// Whether the variable occurs in it.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        self.variables.iter().any(|used| used == variable)
    }
}
