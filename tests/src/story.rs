//! Formats errors as people read them.

use std::error::Error;

/// Returns the error and its causes in one line, as the programs show them.
pub fn story(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
