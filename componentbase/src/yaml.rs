//! The YAML parser; no other file uses the YAML library.

use limits::excerpt;
use serde_json::Value;

/// A document that is not YAML.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}{message}")]
pub struct NotYaml {
    position: String,
    message: String,
}

/// Parses one document as Go's YAML does: `0400` is octal, `yes` is true, a key may occur only once.
pub fn parse(text: &str) -> Result<Value, NotYaml> {
    // no snippets: the lines around an error may hold the token
    let options = serde_saphyr::options! { legacy_octal_numbers: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| explain(text, &error))
}

/// Reports whether the text has only comments and empty lines.
pub fn is_empty(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    })
}

fn explain(text: &str, error: &serde_saphyr::Error) -> NotYaml {
    if let Some(line) = text.lines().position(indented_by_tab) {
        let message = "a tab in the indentation; indent with spaces".to_owned();
        return NotYaml {
            position: format!("line {}: ", line + 1),
            message,
        };
    }
    let place = error.location().filter(|place| place.line() > 0);
    let position = place.map(|place| format!("line {} column {}: ", place.line(), place.column()));
    NotYaml {
        position: position.unwrap_or_default(),
        message: excerpt(&plain(&error.without_snippet().to_string())),
    }
}

/// Returns the library's message without its position, which is shown in front, and without advice for programmers.
fn plain(message: &str) -> String {
    if message.starts_with("multiple YAML documents") {
        return "a second document begins here; remove all but one".to_owned();
    }
    let message = message
        .rsplit_once(" at line ")
        .map_or(message, |(message, _)| message);
    let message = message
        .split(", set DuplicateKeyPolicy")
        .next()
        .unwrap_or(message);
    message.to_owned()
}

fn indented_by_tab(line: &str) -> bool {
    line.chars()
        .take_while(|c| c.is_whitespace())
        .any(|c| c == '\t')
        && !line.trim().is_empty()
}
