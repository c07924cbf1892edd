//! The objects of this node in the store, each with its record. Only this module writes what the cloud sends.

pub(super) mod entry;
mod foreign_parts;
pub(super) mod merge;
mod schema;
pub(super) mod status_match;

use std::sync::Arc;

use objectstore::{
    Damaged, Expect, Key, Object, Page, Resource, Scope, Store, StoreError, Watch, Write,
};
use serde_json::Value;
use tokio::sync::Mutex;
use wire::{Change, Header, ResourcePath, ResourceType};

use self::merge::{StatusWriter, merge};
pub(super) use self::{
    entry::DesiredEntry,
    merge::{
        CloudVersion, EntryChange, StoreChange, equal_except_revision, unchanged_revision,
        without_server_fields,
    },
    schema::schema_error,
};
use super::{
    mirror,
    record::{Record, record_key},
};

/// A change of an object in the cloud, to be stored.
#[derive(Debug, PartialEq)]
pub(super) struct CloudChange {
    change: Change,
    key: Key,
    /// The object's UID; empty where the message does not say it (a delete without content).
    uid: String,
    revision: u64,
    object: Value,
}

/// Why a change of the cloud was not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApplyError {
    /// It is no object; the text names it.
    #[error("{0}")]
    Malformed(String),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
}

impl CloudChange {
    /// Reads the change of the object at `path` from a message.
    pub(super) fn new(
        change: Change,
        path: &ResourcePath,
        object: Value,
        header: &Header,
    ) -> Result<Self, ApplyError> {
        let malformed = |why: &str| {
            ApplyError::Malformed(format!("message {} about {path}: {why}", header.msg_id))
        };
        let place = path
            .as_object()
            .ok_or_else(|| malformed("its resource names no object"))?;
        let name = place
            .name
            .ok_or_else(|| malformed("its resource names no object"))?;
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        if change != Change::Delete && !object.get("metadata").is_some_and(Value::is_object) {
            return Err(malformed("its content is not an object with metadata"));
        }
        let claimed = text("/metadata/name");
        if !claimed.is_empty() && claimed != name {
            return Err(malformed("its content has another name"));
        }
        let key = Key::new(
            resource(&place.kind),
            place.namespace.unwrap_or_default(),
            name,
        );
        if change != Change::Delete
            && let Some(fault) = schema_error(&key, &object)
        {
            return Err(malformed(&fault));
        }
        Ok(Self::of(change, key, object, &header.resource_version))
    }

    /// Wraps an object that the cloud sent before this store existed.
    pub(super) fn stored(key: Key, object: Value) -> Self {
        Self::of(Change::Insert, key, object, "")
    }

    /// Reads UID and revision from the object; `revision` is used where the object has none.
    fn of(change: Change, key: Key, object: Value, revision: &str) -> Self {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let revision = [text("/metadata/resourceVersion"), revision];
        let revision = revision
            .iter()
            .find_map(|text| text.parse().ok())
            .unwrap_or_default();
        let uid = text("/metadata/uid").to_owned();
        Self {
            change,
            key,
            uid,
            revision,
            object,
        }
    }

    fn version(&self) -> CloudVersion<'_> {
        CloudVersion {
            uid: &self.uid,
            revision: self.revision,
        }
    }

    /// Returns the key under which the object is stored.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the object's UID; empty where the message does not say it.
    pub(super) fn uid(&self) -> &str {
        &self.uid
    }
}

/// Decides how the cloud's state of an object changes a copy that this node only reads.
pub(super) fn merge_copy(
    change: Change,
    object: &Value,
    version: CloudVersion<'_>,
    entry: &DesiredEntry,
) -> EntryChange {
    merge(
        change,
        object,
        version,
        entry,
        StatusWriter::Cloud,
        clock::now(),
    )
}

/// Returns the collection in which objects of this type are stored. Types that nothing on this node reads keep the type's name.
pub(super) fn resource(kind: &ResourceType) -> Resource {
    match kind {
        ResourceType::Pod => Resource::new("", "pods"),
        ResourceType::Node => Resource::new("", "nodes"),
        ResourceType::ConfigMap => Resource::new("", "configmaps"),
        ResourceType::Secret => Resource::new("", "secrets"),
        ResourceType::PersistentVolume => Resource::new("", "persistentvolumes"),
        ResourceType::PersistentVolumeClaim => Resource::new("", "persistentvolumeclaims"),
        other => Resource::new("kubeedge.io", other.as_str()),
    }
}

/// The handle of the store; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Desired {
    store: Arc<dyn Store>,
    node_name: Arc<str>,
    /// Allows one writer of records at a time. EdgeD writes objects at the same time; a conflict with it repeats the write.
    writing: Arc<Mutex<()>>,
}

impl Desired {
    pub(super) fn new(store: Arc<dyn Store>, node_name: String) -> Self {
        Self {
            store,
            node_name: node_name.into(),
            writing: Arc::default(),
        }
    }

    /// Returns the store itself, for values that are no objects of the cloud.
    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Returns this node's name.
    pub(super) fn node_name(&self) -> &str {
        &self.node_name
    }

    /// Stores a change of the cloud. The change is on disk when this returns.
    pub(super) async fn apply(&self, put: CloudChange) -> Result<(), ApplyError> {
        let key = put.key.clone();
        let status = if key.resource == resource(&ResourceType::Pod) {
            StatusWriter::NodeUntilEnded
        } else if key.resource == resource(&ResourceType::Node) && *key.name == *self.node_name {
            StatusWriter::Node
        } else {
            StatusWriter::Cloud
        };
        self.change(&key, |entry| {
            if status == StatusWriter::NodeUntilEnded
                && let Some(placement) =
                    mirror::merge(put.change, &put.object, put.version(), entry)
            {
                return placement;
            }
            merge(
                put.change,
                &put.object,
                put.version(),
                entry,
                status,
                clock::now(),
            )
        })
        .await
        .map_err(ApplyError::from)
    }

    /// Reports whether the object of `put` is stored here, or a record of it is.
    pub(super) async fn is_known(&self, put: &CloudChange) -> Result<bool, StoreError> {
        let entry = self.entry(&put.key).await?;
        Ok(entry.object.is_some() || entry.record.is_some())
    }

    /// Changes the object and its record at `key` by `change`, which is called again after a conflict with another writer.
    pub(super) async fn change(
        &self,
        key: &Key,
        change: impl Fn(&DesiredEntry) -> EntryChange,
    ) -> Result<(), StoreError> {
        let _writing = self.writing.lock().await;
        loop {
            let entry = self.entry(key).await?;
            let writes = writes(key, &entry, change(&entry));
            if writes.is_empty() {
                return Ok(());
            }
            match self.store.commit(writes).await {
                Ok(_) => return Ok(()),
                Err(
                    StoreError::Conflict { .. } | StoreError::Exists(_) | StoreError::Missing(_),
                ) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the object and its record at `key`. The record of a damaged object only says whether the pod has ended, so that
    /// whatever the cloud sends is stored.
    pub(super) async fn entry(&self, key: &Key) -> Result<DesiredEntry, StoreError> {
        let (object, is_damaged) = self.read(key).await?;
        let (record, is_record_damaged) = self.read(&record_key(key)).await?;
        let says =
            |record: &Record| !is_damaged || record.deleted_in_cloud || record.terminated_here;
        Ok(DesiredEntry {
            object_revision: object.as_ref().map(|object| object.revision),
            record_revision: record.as_ref().map(|record| record.revision),
            object: object.as_ref().map(Object::value).transpose()?,
            record: record
                .as_ref()
                .map(Object::value)
                .transpose()?
                .map(Record::read)
                .filter(says),
            is_damaged: (is_damaged, is_record_damaged),
        })
    }

    /// Returns the stored object at `key`, and whether one is stored that cannot be read.
    async fn read(&self, key: &Key) -> Result<(Option<Object>, bool), StoreError> {
        match self.store.get(key).await {
            Ok(object) => Ok((object, false)),
            Err(StoreError::Damaged { .. }) => Ok((None, true)),
            Err(error) => Err(error),
        }
    }

    /// Returns the stored object at `key`; a damaged one counts as absent.
    pub(super) async fn get(&self, key: &Key) -> Result<Option<Value>, StoreError> {
        self.read(key)
            .await?
            .0
            .map(|object| object.value())
            .transpose()
    }

    /// Reports whether the object at `key` is stored but cannot be read.
    pub(super) async fn is_damaged(&self, key: &Key) -> Result<bool, StoreError> {
        Ok(self.read(key).await?.1)
    }

    /// Returns the objects that cannot be read.
    pub(super) fn damaged_objects(&self) -> Damaged {
        self.store.damaged_objects()
    }

    /// Stores `value` at `key`, whatever is stored there; `None` deletes.
    pub(super) async fn set(&self, key: &Key, value: Option<Value>) -> Result<(), StoreError> {
        match self
            .store
            .commit(vec![Write {
                key: key.clone(),
                expect: Expect::Anything,
                value,
            }])
            .await
        {
            Ok(_) | Err(StoreError::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the revision from which a watch sees every later change.
    pub(super) fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// Returns every object of a collection, and the revision from which to watch it.
    pub(super) async fn list(&self, resource: &Resource) -> Result<(Vec<Object>, u64), StoreError> {
        let listing = self.store.list(&scope(resource), &Page::default()).await?;
        Ok((listing.items, listing.revision))
    }

    /// Returns the bytes that each collection takes.
    pub(super) async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        self.store.sizes().await
    }

    /// Watches a collection for changes after `revision`.
    pub(super) fn watch(&self, resource: &Resource, revision: u64) -> Result<Watch, StoreError> {
        self.store.watch(scope(resource), revision)
    }
}

fn scope(resource: &Resource) -> Scope {
    Scope {
        resource: resource.clone(),
        namespace: None,
    }
}

fn writes(key: &Key, entry: &DesiredEntry, placement: EntryChange) -> Vec<Write> {
    // a damaged object counts as absent here, too
    let expect = |revision: Option<u64>| revision.map_or(Expect::Absent, Expect::Revision);
    let mut writes = Vec::new();
    let write = |key: Key, expect: Expect, value: Option<Value>| Write { key, expect, value };
    match placement.object {
        StoreChange::Keep => {}
        StoreChange::Remove if entry.object.is_none() && !entry.is_damaged.0 => {}
        StoreChange::Remove => writes.push(write(key.clone(), expect(entry.object_revision), None)),
        StoreChange::Set(value) => writes.push(write(
            key.clone(),
            expect(entry.object_revision),
            Some(value),
        )),
        // watchers see the old object deleted and the new one added
        StoreChange::Replace(value) => {
            writes.push(write(key.clone(), expect(entry.object_revision), None));
            writes.push(write(key.clone(), Expect::Absent, Some(value)));
        }
    }
    let record = record_key(key);
    match placement.record {
        StoreChange::Keep => {}
        StoreChange::Remove if entry.record_revision.is_none() && !entry.is_damaged.1 => {}
        StoreChange::Remove => writes.push(write(record, expect(entry.record_revision), None)),
        StoreChange::Set(value) | StoreChange::Replace(value) => {
            writes.push(write(
                record,
                expect(entry.record_revision),
                Some(value.write()),
            ));
        }
    }
    writes
}
