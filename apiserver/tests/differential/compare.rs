//! The differences between two answers.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

/// A field that differs.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) story: String,
    pub(crate) request: String,
    /// `code`, `warnings`, or a path such as `.spec.replicas` or `.rows[0].cells[1]`.
    pub(crate) field: String,
    /// What a kube-apiserver has, as JSON; `absent` if it has none.
    pub(crate) real: String,
    pub(crate) ours: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            story,
            request,
            field,
            real,
            ours,
        } = self;
        write!(
            f,
            "{story}: {request}\n    {field}\n      real {real}\n      ours {ours}"
        )
    }
}

/// Calls `found` with each field that differs.
pub(crate) fn compare(
    field: &str,
    real: Option<&Value>,
    ours: Option<&Value>,
    found: &mut dyn FnMut(&str, String, String),
) {
    match (real, ours) {
        (Some(Value::Object(real)), Some(Value::Object(ours))) => {
            let keys: BTreeSet<_> = real.keys().chain(ours.keys()).collect();
            for key in keys {
                compare(
                    &format!("{field}.{key}"),
                    real.get(key),
                    ours.get(key),
                    found,
                );
            }
        }
        (Some(Value::Array(real)), Some(Value::Array(ours))) => {
            for index in 0..real.len().max(ours.len()) {
                compare(
                    &format!("{field}[{index}]"),
                    real.get(index),
                    ours.get(index),
                    found,
                );
            }
        }
        _ if real == ours => {}
        _ => {
            let text =
                |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), Value::to_string);
            found(
                if field.is_empty() { "body" } else { field },
                text(real),
                text(ours),
            );
        }
    }
}
