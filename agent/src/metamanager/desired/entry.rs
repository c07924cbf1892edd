//! What is stored of one object of the cloud.

use serde_json::Value;

use super::super::record::Record;

/// An object with its record, as they are stored.
#[derive(Clone, Debug, Default)]
pub(in crate::metamanager) struct DesiredEntry {
    pub(in crate::metamanager) object: Option<Value>,
    pub(in crate::metamanager) record: Option<Record>,
    pub(in crate::metamanager) object_revision: Option<u64>,
    pub(super) record_revision: Option<u64>,
    /// Whether the object, and whether the record, is stored but cannot be read. A damaged one counts as absent and is
    /// overwritten.
    pub(super) is_damaged: (bool, bool),
}

#[cfg(test)]
impl DesiredEntry {
    /// Returns an entry that was not read from a store.
    pub(in crate::metamanager) fn of(object: Option<Value>, record: Option<Record>) -> Self {
        Self {
            object,
            record,
            ..Self::default()
        }
    }
}
