//! Admission plugins: rules that need other objects than the written one, provided by the program that builds the API.

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

use objectstore::{Store, StoreError};

/// A write under review.
#[derive(Debug)]
pub struct Review<'a> {
    /// The API group.
    pub group: &'a str,
    /// The kind; its objects are reviewed in their storage version.
    pub kind: &'a str,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The old object; `None` for a creation.
    pub old: Option<&'a Value>,
    /// The new object.
    pub new: &'a Value,
    /// The store with the other objects.
    pub store: &'a dyn Store,
}

/// An invalid field (`field.Error`).
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The path of the field: `spec.properties[0].name`.
    pub field: String,
    /// The invalid value.
    pub value: Value,
    /// What is wrong with the value.
    pub why: String,
}

/// Reviews writes.
#[async_trait]
pub trait Admission: Send + Sync + fmt::Debug + 'static {
    /// Returns each invalid field of the new object.
    async fn review(&self, review: Review<'_>) -> Result<Vec<FieldError>, StoreError>;
}
