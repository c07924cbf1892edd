//! Rules that need other objects than the one that is written, given to the API by whoever builds it.

use std::fmt;

use async_trait::async_trait;
use serde_json::Value;

use crate::store::{Store, StoreError};

/// A write that is about to take place.
#[derive(Debug)]
pub struct Review<'a> {
    /// The API group.
    pub group: &'a str,
    /// The kind, whose objects are reviewed in the version in which they are stored.
    pub kind: &'a str,
    /// Empty for kinds without.
    pub namespace: &'a str,
    /// What stands; `None` for something new.
    pub old: Option<&'a Value>,
    /// What is to stand.
    pub new: &'a Value,
    /// The other objects.
    pub store: &'a dyn Store,
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Objection {
    /// Where it stands: `spec.properties[0].name`.
    pub field: String,
    /// What stands there.
    pub value: Value,
    /// What is wrong with it.
    pub why: String,
}

/// Says what stands against a write.
#[async_trait]
pub trait Admission: Send + Sync + fmt::Debug + 'static {
    /// Nothing, or each field that is wrong.
    async fn review(&self, review: Review<'_>) -> Result<Vec<Objection>, StoreError>;
}
