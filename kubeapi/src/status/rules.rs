//! Causes that rules in CEL have.

use super::Cause;

impl Cause {
    /// The same for a value that is written as Go writes it.
    pub(crate) fn invalid_written(field: impl Into<String>, written: &str, why: &str) -> Self {
        let message = format!("Invalid value: {written}: {why}");
        Self { reason: "FieldValueInvalid", field: field.into(), message }
    }

    /// Whether nothing can be said of an object that has this wrong: values that are missing, of the wrong type or too large.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(
            self.reason,
            "FieldValueRequired"
                | "FieldValueTypeInvalid"
                | "FieldValueTooLong"
                | "FieldValueTooMany"
                | "FieldValueNotSupported"
        )
    }
}
