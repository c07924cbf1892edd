//! Causes that many kinds have.

use serde_json::Value;

use crate::{cause::Cause, object::text_or_empty};

/// Returns one cause for each fault of the text at `field`.
pub(super) fn faults<'a>(
    field: &str,
    value: &str,
    faults: Vec<String>,
) -> impl Iterator<Item = Cause> + use<'a> {
    let (field, value) = (field.to_owned(), Value::from(value));
    faults.into_iter().map(move |fault| Cause::invalid(field.as_str(), &value, &fault))
}

/// Returns a cause if the text under `key` of the object at `path` is absent or empty.
pub(super) fn required(object: &Value, path: &str, key: &str) -> Option<Cause> {
    let missing = text_or_empty(object, &format!("/{key}")).is_empty();
    missing.then(|| Cause::required(format!("{path}.{key}"), ""))
}

/// Returns a cause if the text under `key` is none of `supported`.
pub(super) fn supported(object: &Value, path: &str, key: &str, supported: &[&str]) -> Option<Cause> {
    let text = text_or_empty(object, &format!("/{key}"));
    let field = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match text {
        "" => Some(Cause::required(field, "")),
        text if supported.contains(&text) => None,
        text => Some(Cause::unsupported(field, &text.into(), supported)),
    }
}

/// Returns a cause if there is a number and it is out of range.
pub(super) fn in_range(field: String, value: Option<&Value>, from: i64, to: i64) -> Option<Cause> {
    let value = value.filter(|value| value.as_i64().is_some_and(|number| !(from..=to).contains(&number)))?;
    let why = match (from, to) {
        (0, i64::MAX) => "must be greater than or equal to 0".to_owned(),
        (1, i64::MAX) => "must be greater than 0".to_owned(),
        _ => format!("must be between {from} and {to}, inclusive"),
    };
    Some(Cause::invalid(field, value, &why))
}
