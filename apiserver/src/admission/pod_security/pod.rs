//! A pod as the checks see it, and what they find in it.

use serde_json::Value;

/// What stands where nothing does.
pub(super) static NONE: Value = Value::Null;

/// A pod, or what pods are made from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod<'a> {
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// The pod in an object with `metadata` and `spec`.
    pub(super) fn of(object: &'a Value) -> Self {
        let part = |name| object.get(name).unwrap_or(&NONE);
        Self {
            metadata: part("metadata"),
            spec: part("spec"),
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// `hostPort`
    pub(super) reason: &'static str,
    /// `container "a" uses hostPort 80`
    pub(super) detail: String,
}
