//! The result of an expression: a value or an error.

use super::value::Val;

/// The result of an expression.
pub(crate) type Evaluated<'a> = Result<Val<'a>, EvalError>;

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EvalError {
    /// The cost limit was exceeded; `||` and `&&` do not absorb this error.
    Cost,
    /// The deadline has passed; `||` and `&&` do not absorb this error.
    Timeout,
    /// Variables are nested too deeply; `||` and `&&` do not absorb this error.
    Deep,
    /// Anything else, in the words of cel-go.
    Failed(String),
}

impl EvalError {
    pub(crate) fn fail<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self::Failed(why.into()))
    }

    /// Reports whether the evaluation must stop.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}

impl std::fmt::Display for EvalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cost => "operation cancelled: actual cost limit exceeded",
            Self::Timeout => "operation interrupted",
            Self::Deep => "the expression and the variables in it nest too deeply",
            Self::Failed(why) => why,
        })
    }
}
