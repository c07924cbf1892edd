//! The copies that clients read: objects of the cloud that they have requested, and this node's own objects.
//!
//! The copies are in a store of their own, because EdgeD runs what it finds in the other one. The `resourceVersion` that
//! clients see is this store's revision, so that lists and watches fit together whatever the source of a change. The cloud's
//! revision is in the record of each copy.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use objectstore::{Key, Object, Resource, Store, StoreError};
use parking_lot::Mutex;
use serde_json::Value;
use wire::{Change, ResourceType};

use super::super::{
    desired::{
        self, CloudVersion, Desired, DesiredEntry, EntryChange, StoreChange, equal_except_revision,
        merge_copy, without_server_fields,
    },
    record::Record,
    response::ApiError,
};
use super::{keys::text, listed_collections::ListedCollections};

/// The most bytes that the copies may take.
pub(super) const MAX_COPIES_BYTES: u64 = 64 << 20;
/// The most deletions that are remembered: a list that was made before a deletion must not bring the object back.
const MAX_REMEMBERED_DELETIONS: usize = 4096;

/// The copies; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    stored: Desired,
    /// The objects of this node.
    own: Desired,
    node: Arc<str>,
    /// The collections that can be listed without the cloud.
    pub(super) listed: ListedCollections,
    deleted: Arc<Mutex<VecDeque<String>>>,
}

impl Copies {
    /// Creates the copies in `store`, and with the objects in `own` of the node `node`.
    pub(super) fn new(store: Arc<dyn Store>, own: Desired, node: &str) -> Self {
        let stored = Desired::new(store, String::new());
        Self {
            listed: ListedCollections::new(stored.clone()),
            stored,
            own,
            node: node.into(),
            deleted: Arc::default(),
        }
    }

    /// Returns the copy at `key`.
    pub(super) async fn get(&self, key: &Key) -> Result<Option<Value>, StoreError> {
        self.stored.get(key).await
    }

    /// Returns all copies of a collection.
    pub(super) async fn all(&self, resource: &Resource) -> Result<Vec<Object>, StoreError> {
        Ok(self.stored.list(resource).await?.0)
    }

    /// Returns the bytes that each collection takes, including its records.
    pub(super) async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        self.stored.sizes().await
    }

    /// Removes the copies of a collection, but for copies of this node's own objects.
    pub(super) async fn forget(&self, resource: &Resource) -> Result<(), StoreError> {
        self.listed.forget(resource).await?;
        for copy in self.all(resource).await? {
            if self.own.get(&copy.key).await?.is_none() {
                self.drop(&copy.key).await?;
            }
        }
        Ok(())
    }

    /// Removes the copy at `key` and its record.
    async fn drop(&self, key: &Key) -> Result<(), StoreError> {
        let gone = |_: &DesiredEntry| EntryChange {
            object: StoreChange::Remove,
            record: StoreChange::Remove,
        };
        self.stored.change(key, gone).await
    }

    /// Stores the cloud's state of an object, unless the object is this node's own, whose state here is newer.
    pub(super) async fn put(&self, key: &Key, object: &Value) -> Result<(), StoreError> {
        let uid = text(object, "/metadata/uid");
        if self.is_own(key).await? || self.deleted.lock().iter().any(|deleted| deleted == uid) {
            return Ok(());
        }
        let revision = text(object, "/metadata/resourceVersion")
            .parse()
            .unwrap_or_default();
        self.stored
            .change(key, |entry| {
                merge_copy(
                    Change::Update,
                    object,
                    CloudVersion { uid, revision },
                    entry,
                )
            })
            .await
    }

    /// Removes the copy of a deleted object with this UID, or of any UID if that is empty.
    pub(super) async fn remove(&self, key: &Key, uid: &str) -> Result<(), StoreError> {
        if self.is_own(key).await? {
            return Ok(());
        }
        if !uid.is_empty() {
            let mut deleted = self.deleted.lock();
            deleted.push_back(uid.to_owned());
            if deleted.len() > MAX_REMEMBERED_DELETIONS {
                deleted.pop_front();
            }
        }
        self.stored
            .change(key, |entry| {
                merge_copy(
                    Change::Delete,
                    &Value::Null,
                    CloudVersion { uid, revision: 0 },
                    entry,
                )
            })
            .await
    }

    /// Removes the copy at `key` unless its UID is among `listed` or it is newer than the list of `revision`.
    pub(super) async fn remove_unlisted(
        &self,
        key: &Key,
        listed: &HashSet<String>,
        revision: u64,
    ) -> Result<(), StoreError> {
        if self.is_own(key).await? {
            return Ok(());
        }
        self.stored
            .change(key, |entry| match &entry.record {
                Some(record) if listed.contains(&record.uid) || record.revision > revision => {
                    EntryChange::default()
                }
                _ => EntryChange {
                    object: StoreChange::Remove,
                    record: StoreChange::Remove,
                },
            })
            .await
    }

    /// Copies this node's own object at `key`, or removes the copy if the node has none any more.
    pub(super) async fn follow(&self, key: &Key) -> Result<(), StoreError> {
        let own = self.own.entry(key).await?;
        let record = own.record.unwrap_or_default();
        let Some(object) = own.object.as_ref().map(without_server_fields) else {
            return self.drop(key).await;
        };
        let is_ours_to_tell = is_node_owned(key);
        self.stored
            .change(key, |entry| match &entry.object {
                Some(current)
                    if equal_except_revision(current, &object)
                        && entry.record.as_ref() == Some(&record) =>
                {
                    EntryChange::default()
                }
                // the cloud has sent a newer state since
                Some(_) if !is_ours_to_tell && is_older(&record, entry.record.as_ref()) => {
                    EntryChange::default()
                }
                Some(current)
                    if text(current, "/metadata/uid") != text(&object, "/metadata/uid") =>
                {
                    EntryChange {
                        object: StoreChange::Replace(object.clone()),
                        record: StoreChange::Set(record.clone()),
                    }
                }
                Some(current) if equal_except_revision(current, &object) => EntryChange {
                    object: StoreChange::Keep,
                    record: StoreChange::Set(record.clone()),
                },
                _ => EntryChange {
                    object: StoreChange::Set(object.clone()),
                    record: StoreChange::Set(record.clone()),
                },
            })
            .await
    }

    /// Copies what this node has of its own devices, for a cloud that lets the node read none, and removes copies of others if `all`.
    /// Returns `false` for other collections.
    pub(super) async fn renew_devices(
        &self,
        resource: &Resource,
        all: bool,
    ) -> Result<bool, StoreError> {
        let Some((kind, own)) = own_devices(resource) else {
            return Ok(false);
        };
        let mut keys = Vec::new();
        for device in self.own.list(&own).await?.0 {
            let key = Key::new(resource.clone(), &*device.key.namespace, &*device.key.name);
            if let Ok(mut object) = device.value() {
                object["apiVersion"] = "devices.kubeedge.io/v1beta1".into();
                object["kind"] = kind.into();
                self.put(&key, &object).await?;
                keys.push(key);
            }
        }
        let known = if all {
            self.all(resource).await?
        } else {
            Vec::new()
        };
        for copy in known.iter().filter(|copy| !keys.contains(&copy.key)) {
            self.drop(&copy.key).await?;
        }
        Ok(true)
    }

    /// Renews the copies of this node's own devices when they change; ends only if the store fails.
    pub(super) async fn follow_devices(&self, resource: &Resource) -> Result<(), StoreError> {
        let Some((_, own)) = own_devices(resource) else {
            return Ok(());
        };
        let (_, revision) = self.own.list(&own).await?;
        let mut changes = self.own.watch(&own, revision)?;
        loop {
            self.renew_devices(resource, true).await?;
            changes.next().await?;
        }
    }

    /// Removes the copy of a pod of this node that has ended, or of this node itself.
    pub(super) async fn forget_own(&self, key: &Key) -> Result<(), StoreError> {
        let Some(object) = self.get(key).await? else {
            return Ok(());
        };
        if text(&object, "/spec/nodeName") == &*self.node
            || (key.resource.as_str() == "nodes" && *key.name == *self.node)
        {
            self.follow(key).await?;
        }
        Ok(())
    }

    /// Reports whether the object at `key` is this node itself or one of its pods.
    pub(super) async fn is_own(&self, key: &Key) -> Result<bool, StoreError> {
        Ok(is_node_owned(key) && self.own.get(key).await?.is_some())
    }

    /// Returns the cloud's revision of an object that a client has read at this server's `revision`.
    pub(super) async fn cloud_revision(
        &self,
        key: &Key,
        revision: &str,
    ) -> Result<String, ApiError> {
        let entry = self.stored.entry(key).await?;
        let stands = entry
            .object_revision
            .is_some_and(|stands| stands.to_string() == revision);
        match entry.record.filter(|record| stands && record.revision > 0) {
            Some(record) => Ok(record.revision.to_string()),
            None => Err(ApiError::conflict(&format!(
                "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the \
                 latest version and try again",
                key.resource, key.name
            ))),
        }
    }
}

/// Returns the kind of devices or their models, and the collection of those of this node; `None` for other collections.
fn own_devices(resource: &Resource) -> Option<(&'static str, Resource)> {
    let (kind, own) = match resource.as_str() {
        "devices.devices.kubeedge.io" => ("Device", ResourceType::Device),
        "devicemodels.devices.kubeedge.io" => ("DeviceModel", ResourceType::DeviceModel),
        _ => return None,
    };
    Some((kind, desired::resource(&own)))
}

/// Reports whether this node writes the object's status: it is a node or a pod.
fn is_node_owned(key: &Key) -> bool {
    matches!(key.resource.as_str(), "pods" | "nodes")
}

fn is_older(ours: &Record, stored: Option<&Record>) -> bool {
    stored.is_some_and(|stored| stored.uid == ours.uid && stored.revision > ours.revision)
}
