//! Why an object is invalid, field by field: what Kubernetes calls a `StatusCause`, with the texts of its `field.Error`.

use std::fmt;

use serde_json::{Value, json};

/// One reason why an object is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    /// The reason of Kubernetes, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The path of the field.
    pub field: String,
    /// The text, without the path.
    pub message: String,
}

impl Cause {
    /// `field: Required value: why`
    pub fn required(field: impl Into<String>, why: &str) -> Self {
        let message = if why.is_empty() {
            "Required value".to_owned()
        } else {
            format!("Required value: {why}")
        };
        Self {
            reason: "FieldValueRequired",
            field: field.into(),
            message,
        }
    }

    /// `field: Invalid value: "value": why`
    pub fn invalid(field: impl Into<String>, value: &Value, why: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {value}: {why}"),
        }
    }

    /// `field: Invalid value: why`
    pub fn invalid_without_value(field: impl Into<String>, why: &str) -> Self {
        Self {
            reason: "FieldValueInvalid",
            field: field.into(),
            message: format!("Invalid value: {why}"),
        }
    }

    /// `field: Forbidden: why`
    pub fn forbidden(field: impl Into<String>, why: &str) -> Self {
        Self {
            reason: "FieldValueForbidden",
            field: field.into(),
            message: format!("Forbidden: {why}"),
        }
    }

    /// An update without a resourceVersion.
    pub fn unversioned() -> Self {
        let message = "Invalid value: 0: must be specified for an update".to_owned();
        Self {
            reason: "FieldValueInvalid",
            field: "metadata.resourceVersion".into(),
            message,
        }
    }

    /// The same for a value of the wrong type; `found` is that type, or the text that has not the right format.
    pub fn type_invalid(field: impl Into<String>, found: &str, why: &str) -> Self {
        Self {
            reason: "FieldValueTypeInvalid",
            ..Self::invalid(field, &found.into(), why)
        }
    }

    /// `field: Too many: 3: must have at most 2 items`
    pub fn too_many(field: impl Into<String>, count: u64, limit: u64) -> Self {
        let items = if limit == 1 { "item" } else { "items" };
        let message = format!("Too many: {count}: must have at most {limit} {items}");
        Self {
            reason: "FieldValueTooMany",
            field: field.into(),
            message,
        }
    }

    /// `field: Duplicate value: "value"`
    pub fn duplicate(field: impl Into<String>, value: &str) -> Self {
        Self::duplicate_value(field, &value.into())
    }

    /// The same for a value of any type.
    pub fn duplicate_value(field: impl Into<String>, value: &Value) -> Self {
        let message = format!("Duplicate value: {value}");
        Self {
            reason: "FieldValueDuplicate",
            field: field.into(),
            message,
        }
    }

    /// `field: Unsupported value: "value": supported values: "a", "b"`
    pub fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let supported: Vec<_> = supported.iter().map(|value| format!("{value:?}")).collect();
        let message = format!(
            "Unsupported value: {value}: supported values: {}",
            supported.join(", ")
        );
        Self {
            reason: "FieldValueNotSupported",
            field: field.into(),
            message,
        }
    }

    /// `field: Not found: "value"`
    pub fn not_found(field: impl Into<String>, value: &str) -> Self {
        let message = format!("Not found: {}", json!(value));
        Self {
            reason: "FieldValueNotFound",
            field: field.into(),
            message,
        }
    }

    /// `field: Too long: may not be more than 262144 bytes`
    pub fn too_long(field: impl Into<String>, limit: usize) -> Self {
        let message = format!("Too long: may not be more than {limit} bytes");
        Self {
            reason: "FieldValueTooLong",
            field: field.into(),
            message,
        }
    }

    /// The same, of the part at `path` or within; a cause of the whole part has no field of its own.
    pub fn at(mut self, path: &str) -> Self {
        self.field = if self.field == "<nil>" {
            path.to_owned()
        } else {
            format!("{path}.{}", self.field)
        };
        self
    }

    /// Whether nothing can be said of an object that has this wrong: values that are missing, of the wrong type or too large.
    pub fn is_blocking(&self) -> bool {
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

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}
