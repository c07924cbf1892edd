//! What is known of an object beside its content: which revision of the cloud it is, and which status the cloud has confirmed.

use objectstore::{Key, Resource};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The group of the collections of records, which are in the same store as the objects.
pub(super) const GROUP: &str = "records.outrigger.dev";

/// The record of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// The metadata that the store requires; always empty here.
    pub(super) metadata: Map<String, Value>,
    /// The object's UID in the cloud; empty for a node that was never registered.
    pub(super) uid: String,
    /// The cloud's revision of the stored object.
    pub(super) revision: u64,
    /// The cloud has deleted the pod: it is removed when its containers have ended.
    #[serde(rename = "gone")]
    pub(super) deleted_in_cloud: bool,
    /// The pod has ended here and is no longer stored: the cloud has to delete it.
    #[serde(rename = "finished")]
    pub(super) terminated_here: bool,
    /// The pod's last status, if the cloud had not confirmed it when the pod ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_status: Option<Value>,
    /// How often the cloud has shown a status that is not ours. A confirmation of a report from before the last time does not
    /// count.
    #[serde(rename = "disagreements")]
    pub(super) conflicting_statuses: u64,
    /// The fingerprint of the status that the cloud has confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reported: Option<String>,
}

impl Record {
    /// Returns the record of a state that the cloud sent.
    pub(super) fn of(uid: &str, revision: u64) -> Self {
        Self {
            uid: uid.to_owned(),
            revision,
            ..Self::default()
        }
    }

    /// Returns this record with a status that the cloud has confirmed. `None` where that changes nothing: the cloud has shown
    /// another status since the report (`at_report` is the record at the time of the report), or has confirmed it before.
    pub(super) fn confirmed(&self, at_report: &Self, fingerprint: &str) -> Option<Self> {
        let is_news = self.reported.as_deref() != Some(fingerprint) || self.last_status.is_some();
        let holds = self.uid == at_report.uid
            && self.conflicting_statuses == at_report.conflicting_statuses;
        (is_news && holds).then(|| Self {
            reported: Some(fingerprint.to_owned()),
            last_status: None,
            ..self.clone()
        })
    }

    pub(super) fn read(object: Value) -> Self {
        let mut record: Self = serde_json::from_value(object).unwrap_or_default();
        record.metadata = Map::new();
        record
    }

    pub(super) fn write(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Returns the key of the record of the object at `key`.
pub(super) fn record_key(key: &Key) -> Key {
    Key::new(
        Resource::new(GROUP, key.resource.as_str()),
        key.namespace.as_str(),
        key.name.as_str(),
    )
}

/// Returns the key of the object whose record is at `key`.
pub(super) fn object_key(key: &Key) -> Option<Key> {
    let collection = key
        .resource
        .as_str()
        .strip_suffix(GROUP)?
        .strip_suffix('.')?;
    let (plural, group) = collection.split_once('.').unwrap_or((collection, ""));
    Some(Key {
        resource: Resource::new(group, plural),
        ..key.clone()
    })
}

/// Reports whether a collection holds records.
pub(super) fn is_record_collection(resource: &Resource) -> bool {
    resource.as_str().ends_with(GROUP)
}

/// Returns the fingerprint of a status.
pub(super) fn fingerprint(status: &Value) -> String {
    let digest = digest(&SHA256, status.to_string().as_bytes());
    digest
        .as_ref()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_counts_unless_the_cloud_has_disagreed_since() {
        let at_report = Record {
            last_status: Some(Value::Null),
            ..Record::of("u1", 5)
        };
        let noted = Record {
            revision: 6,
            ..at_report.clone()
        }
        .confirmed(&at_report, "f")
        .unwrap();
        assert_eq!(
            (
                noted.reported.as_deref(),
                &noted.last_status,
                noted.revision
            ),
            (Some("f"), &None, 6)
        );
        assert_eq!(
            noted.confirmed(&at_report, "f"),
            None,
            "it is known already"
        );
        let disagreed = Record {
            conflicting_statuses: 1,
            ..at_report.clone()
        };
        assert_eq!(disagreed.confirmed(&at_report, "f"), None);
        assert_eq!(
            Record::of("u2", 1).confirmed(&at_report, "f"),
            None,
            "another pod of its name"
        );
    }
}
