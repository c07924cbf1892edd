//! What comes of an expression: a value, or why there is none.

use super::value::Val;

/// What comes of an expression.
pub(crate) type Evaluated<'a> = Result<Val<'a>, EvalError>;

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EvalError {
    /// It cost too much; no `||` saves it.
    Cost,
    /// It took too long; no `||` saves it.
    Late,
    /// It goes down too deep, from variable to variable; no `||` saves it.
    Deep,
    /// Anything else, in the words of cel-go.
    Failed(String),
}

impl EvalError {
    pub(crate) fn failed<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self::Failed(why.into()))
    }

    /// Whether nothing more may be evaluated.
    pub(crate) fn is_final(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}

impl std::fmt::Display for EvalError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cost => "operation cancelled: actual cost limit exceeded",
            Self::Late => "operation interrupted",
            Self::Deep => "the expression and the variables in it nest too deeply",
            Self::Failed(why) => why,
        })
    }
}
