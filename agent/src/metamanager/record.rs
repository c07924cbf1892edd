//! What is known about an object beside the object: which state of the cloud's it is, and what the cloud knows of ours.

use kubeapi::store::{Key, Resource};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Where the records stand, beside the objects in the same store.
pub(super) const GROUP: &str = "records.outrigger.dev";

/// One object's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// The store's own, always empty here.
    pub(super) metadata: Map<String, Value>,
    /// The object's UID in the cloud; empty for a node that was never registered.
    pub(super) uid: String,
    /// The cloud's revision that is stored.
    pub(super) revision: u64,
    /// The cloud has deleted the pod: it goes as soon as its containers have ended.
    pub(super) gone: bool,
    /// The pod has ended here and is no longer stored: the cloud is to delete it.
    pub(super) finished: bool,
    /// The pod's last status, where the cloud had not confirmed it when the pod ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_status: Option<Value>,
    /// How often the cloud has shown a status that is not ours: a confirmation from before the last time says nothing.
    pub(super) disagreements: u64,
    /// The fingerprint of the status that the cloud has confirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reported: Option<String>,
}

impl Record {
    /// A record of a state that the cloud sent.
    pub(super) fn of(uid: &str, revision: u64) -> Self {
        Self { uid: uid.to_owned(), revision, ..Self::default() }
    }

    /// The same, with a status that the cloud has confirmed; `None` where nothing new is known, because the cloud has shown
    /// another status since that one was told (`told` is the record of then), or has confirmed it before.
    pub(super) fn confirmed(&self, told: &Self, fingerprint: &str) -> Option<Self> {
        let is_news = self.reported.as_deref() != Some(fingerprint) || self.last_status.is_some();
        let holds = self.uid == told.uid && self.disagreements == told.disagreements;
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

/// Where the record of the object at `key` stands.
pub(super) fn record_key(key: &Key) -> Key {
    Key::new(Resource::new(GROUP, key.resource.as_str()), key.namespace.as_str(), key.name.as_str())
}

/// Where the object stands whose record is at `key`.
pub(super) fn object_key(key: &Key) -> Option<Key> {
    let collection = key.resource.as_str().strip_suffix(GROUP)?.strip_suffix('.')?;
    let (plural, group) = collection.split_once('.').unwrap_or((collection, ""));
    Some(Key { resource: Resource::new(group, plural), ..key.clone() })
}

/// Whether records stand in this collection.
pub(super) fn is_records(resource: &Resource) -> bool {
    resource.as_str().ends_with(GROUP)
}

/// The fingerprint of a status.
pub(super) fn fingerprint(status: &Value) -> String {
    let digest = digest(&SHA256, status.to_string().as_bytes());
    digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_counts_unless_the_cloud_has_disagreed_since() {
        let told = Record { last_status: Some(Value::Null), ..Record::of("u1", 5) };
        let noted = Record { revision: 6, ..told.clone() }.confirmed(&told, "f").unwrap();
        assert_eq!((noted.reported.as_deref(), &noted.last_status, noted.revision), (Some("f"), &None, 6));
        assert_eq!(noted.confirmed(&told, "f"), None, "it is known already");
        let disagreed = Record { disagreements: 1, ..told.clone() };
        assert_eq!(disagreed.confirmed(&told, "f"), None);
        assert_eq!(Record::of("u2", 1).confirmed(&told, "f"), None, "another pod of its name");
    }
}
