//! What is stored of one object of the cloud.

use serde_json::Value;

use super::super::record::Record;

/// An object with its record, as stored.
#[derive(Clone, Debug, Default)]
pub(in crate::metamanager) struct Entry {
    pub(in crate::metamanager) object: Option<Value>,
    pub(in crate::metamanager) record: Option<Record>,
    pub(in crate::metamanager) object_revision: Option<u64>,
    pub(super) record_revision: Option<u64>,
    /// Whether there is an object that cannot be read, and the same of its record: each counts as not there, and is written over.
    pub(super) is_damaged: (bool, bool),
}

#[cfg(test)]
impl Entry {
    /// One that was never read from a store.
    pub(in crate::metamanager) fn of(object: Option<Value>, record: Option<Record>) -> Self {
        Self { object, record, ..Self::default() }
    }
}
