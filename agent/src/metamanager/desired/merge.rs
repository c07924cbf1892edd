//! Merges a message of the cloud into what is stored. Pure.
//!
//! A message with the same UID and the same or an older revision changes nothing, because it is a repetition. With the same
//! UID, the status that this node writes is kept, but a pod that others have put into its last phase ends. Another UID under the same
//! name is another object. A pod that the cloud has deleted stays until its containers have ended.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};
use wire::Change;

use super::{
    super::record::Record, entry::DesiredEntry, foreign_parts::with_foreign_parts,
    status_match::status_agrees,
};

/// The change of one stored value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::metamanager) enum StoreChange<T> {
    /// The value stays as it is.
    #[default]
    Keep,
    /// The value is overwritten with this one.
    Set(T),
    /// The value is deleted, and this one is created under the same name.
    Replace(T),
    /// The value is deleted.
    Remove,
}

/// The UID and revision of an object in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::metamanager) struct CloudVersion<'a> {
    /// The object's UID; empty where the cloud does not say it.
    pub(in crate::metamanager) uid: &'a str,
    /// The object's `resourceVersion` in the cloud; 0 where there is none.
    pub(in crate::metamanager) revision: u64,
}

/// The changes of an object and its record.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::metamanager) struct EntryChange {
    pub(in crate::metamanager) object: StoreChange<Value>,
    pub(in crate::metamanager) record: StoreChange<Record>,
}

/// Who writes an object's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusWriter {
    /// The cloud writes it.
    Cloud,
    /// This node writes it: the object is the node itself.
    Node,
    /// This node writes it, and also ends the object: it is a pod.
    NodeUntilEnded,
}

/// Decides how a message changes an object and its record.
pub(super) fn merge(
    change: Change,
    object: &Value,
    version: CloudVersion<'_>,
    entry: &DesiredEntry,
    status: StatusWriter,
    now: Timestamp,
) -> EntryChange {
    let CloudVersion { uid, revision } = version;
    match (&entry.record, change) {
        (record, Change::Delete) => remove(record.as_ref(), uid, entry, status, now),
        (Some(record), _) if record.uid == uid && record.revision >= revision => {
            EntryChange::default()
        }
        (Some(record), _) if record.uid == uid => update(record, object, revision, entry, status),
        // the node registers itself before the cloud sends its UID, and stays the same node when the cloud creates it anew
        (record, _) if status == StatusWriter::Node && entry.object.is_some() => {
            let record = Record {
                uid: uid.to_owned(),
                ..record.clone().unwrap_or_default()
            };
            update(&record, object, revision, entry, status)
        }
        _ => {
            let object = without_server_fields(object);
            let object = if entry.object.is_some() {
                StoreChange::Replace(object)
            } else {
                StoreChange::Set(object)
            };
            EntryChange {
                object,
                record: StoreChange::Set(Record::of(uid, revision)),
            }
        }
    }
}

fn update(
    record: &Record,
    object: &Value,
    revision: u64,
    entry: &DesiredEntry,
    status: StatusWriter,
) -> EntryChange {
    let mut record = Record {
        revision,
        ..record.clone()
    };
    let Some(current) = &entry.object else {
        // the pod has ended here: the cloud is told so, and the pod is not started again
        return EntryChange {
            object: StoreChange::Keep,
            record: StoreChange::Set(record),
        };
    };
    let mut object = without_server_fields(object);
    if status != StatusWriter::Cloud {
        let clouds = object.get("status").cloned().unwrap_or_default();
        // nobody but this node writes the status of a node
        let ours = current.get("status").map(|ours| match status {
            StatusWriter::NodeUntilEnded => with_foreign_parts(ours, &clouds),
            StatusWriter::Node | StatusWriter::Cloud => ours.clone(),
        });
        if !status_agrees(ours.as_ref().unwrap_or(&Value::Null), &clouds) {
            record.reported = None;
            record.conflicting_statuses += 1;
        }
        if let (Some(map), Some(ours)) = (object.as_object_mut(), ours) {
            map.insert("status".to_owned(), ours);
        }
    }
    let object = if equal_except_revision(current, &object) {
        StoreChange::Keep
    } else {
        StoreChange::Set(object)
    };
    EntryChange {
        object,
        record: StoreChange::Set(record),
    }
}

fn remove(
    record: Option<&Record>,
    uid: &str,
    entry: &DesiredEntry,
    status: StatusWriter,
    now: Timestamp,
) -> EntryChange {
    let another =
        record.is_some_and(|record| !uid.is_empty() && !record.uid.is_empty() && record.uid != uid);
    match (record, &entry.object) {
        _ if another => EntryChange::default(),
        (Some(record), Some(pod)) if status == StatusWriter::NodeUntilEnded => {
            let mut pod = pod.clone();
            if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
                let stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                metadata
                    .entry("deletionTimestamp")
                    .or_insert_with(|| stamp.into());
                metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
            }
            let object = if entry.object.as_ref() == Some(&pod) {
                StoreChange::Keep
            } else {
                StoreChange::Set(pod)
            };
            EntryChange {
                object,
                record: StoreChange::Set(Record {
                    deleted_in_cloud: true,
                    ..record.clone()
                }),
            }
        }
        _ => EntryChange {
            object: StoreChange::Remove,
            record: StoreChange::Remove,
        },
    }
}

/// Returns the revision of a pod in the cloud where all that it says is stored already: such a message needs no write.
pub(in crate::metamanager) fn unchanged_revision(
    entry: &DesiredEntry,
    clouds: &Value,
) -> Option<u64> {
    let ours = entry.object.as_ref()?;
    let (status, clouds_status) = (ours.get("status")?, clouds.get("status")?);
    let is_known = equal_except(
        &["resourceVersion", "managedFields"],
        ours.get("metadata"),
        clouds.get("metadata"),
    ) && ours.get("spec") == clouds.get("spec")
        && with_foreign_parts(status, clouds_status) == *status
        && status_agrees(status, clouds_status);
    let revision = clouds
        .pointer("/metadata/resourceVersion")?
        .as_str()?
        .parse()
        .ok()?;
    is_known.then_some(revision)
}

/// Returns the object without the fields that only an API server needs.
pub(in crate::metamanager) fn without_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
    object
}

/// Reports whether two states differ in nothing but their revision.
pub(in crate::metamanager) fn equal_except_revision(one: &Value, other: &Value) -> bool {
    equal_except(&["metadata"], Some(one), Some(other))
        && equal_except(
            &["resourceVersion"],
            one.get("metadata"),
            other.get("metadata"),
        )
}

/// Reports whether two maps are equal but for these fields.
fn equal_except(fields: &[&str], one: Option<&Value>, other: Option<&Value>) -> bool {
    match (
        one.and_then(Value::as_object),
        other.and_then(Value::as_object),
    ) {
        (Some(one), Some(other)) => fields_except(one, fields) == fields_except(other, fields),
        _ => one == other,
    }
}

fn fields_except<'a>(
    map: &'a Map<String, Value>,
    without: &[&str],
) -> BTreeMap<&'a str, &'a Value> {
    map.iter()
        .map(|(name, value)| (name.as_str(), value))
        .filter(|(name, _)| !without.contains(name))
        .collect()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
