//! Why something with a peer was not possible, or a test case did not pass.

use std::{error::Error, fmt::Write};

/// Why something with a peer was not possible, or a test case did not pass.
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

impl Failure {
    /// Returns the reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Failed(reason) | Self::Skipped(reason) => reason,
        }
    }
}

/// Returns from a function that failed, with a message as `format!` takes it.
#[macro_export]
macro_rules! fail {
    ($($message:tt)+) => {
        return Err($crate::Failure::Failed(format!($($message)+)))
    };
}

/// Returns from a function that failed unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            $crate::fail!($($message)+);
        }
    };
}
