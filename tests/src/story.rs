//! What a person reads of an error.

use std::error::Error;

/// The error and its causes in one line, as the programs show them.
pub fn story(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
