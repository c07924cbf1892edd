//! Why a case did not pass.

use std::{error::Error, fmt::Write};

/// Why a case did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The implementation does something else than expected.
    Failed(String),
    /// The implementation does not offer what the case needs, or the caller did not say how to reach it.
    Skipped(String),
}

// `Failure` is no error itself, so that every error can be converted with `?`.
impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            // Writing to a `String` does not fail.
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        Self::Failed(text)
    }
}

/// Returns from a case that failed, with a message as `format!` takes it.
macro_rules! fail {
    ($($message:tt)+) => {
        return Err($crate::Failure::Failed(format!($($message)+)))
    };
}

/// Returns from a case unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            $crate::failure::fail!($($message)+);
        }
    };
}

pub(crate) use {ensure, fail};
