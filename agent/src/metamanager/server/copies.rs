//! Copies of the cloud's objects that clients of this server have asked for, and of this node's own: what they read.
//!
//! They stand in a store of their own: EdgeD runs what it finds in the other one. What clients see as `resourceVersion` is this
//! store's revision, so that lists and watches fit together whoever has told of a change; the cloud's is in the record beside
//! each copy.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use kubeapi::store::{Key, Object, Resource, Store, StoreError};
use parking_lot::Mutex;
use serde_json::Value;
use wire::Change;

use super::super::{
    answer::Refusal,
    desired::{CloudVersion, Desired, Entry, Placement, StoreChange, copy, same, stripped},
    record::Record,
};
use super::{held::Held, keys::text};

/// Bytes that the copies may take.
pub(super) const MAX_COPIES_BYTES: u64 = 64 << 20;
/// So many deletions are remembered: a list that was made before one of them must not bring the object back.
const MAX_REMEMBERED_DELETIONS: usize = 4096;

/// The copies; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    kept: Desired,
    /// What this node has of its own.
    own: Desired,
    node: Arc<str>,
    /// What can be listed without the cloud.
    pub(super) held: Held,
    deleted: Arc<Mutex<VecDeque<String>>>,
}

impl Copies {
    /// Copies in `store`, beside what `node` has of its own.
    pub(super) fn new(store: Arc<dyn Store>, own: Desired, node: &str) -> Self {
        let kept = Desired::new(store, String::new());
        Self { held: Held::new(kept.clone()), kept, own, node: node.into(), deleted: Arc::default() }
    }

    /// The copy at `key`.
    pub(super) async fn get(&self, key: &Key) -> Result<Option<Value>, StoreError> {
        self.kept.get(key).await
    }

    /// All copies of a collection.
    pub(super) async fn all(&self, resource: &Resource) -> Result<Vec<Object>, StoreError> {
        Ok(self.kept.list(resource).await?.0)
    }

    /// The bytes that each collection takes, records included.
    pub(super) async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        self.kept.sizes().await
    }

    /// Removes the copies of a collection, but for what this node has of its own.
    pub(super) async fn forget(&self, resource: &Resource) -> Result<(), StoreError> {
        self.held.forget(resource).await?;
        for copy in self.all(resource).await? {
            if self.own.get(&copy.key).await?.is_none() {
                self.drop(&copy.key).await?;
            }
        }
        Ok(())
    }

    /// Removes the copy at `key`, and what is known of it.
    async fn drop(&self, key: &Key) -> Result<(), StoreError> {
        let gone = |_: &Entry| Placement { object: StoreChange::Remove, record: StoreChange::Remove };
        self.kept.change(key, gone).await
    }

    /// Takes over the cloud's state of an object. What this node has of its own is newer here than there.
    pub(super) async fn put(&self, key: &Key, object: &Value) -> Result<(), StoreError> {
        let uid = text(object, "/metadata/uid");
        if self.is_own(key).await? || self.deleted.lock().iter().any(|deleted| deleted == uid) {
            return Ok(());
        }
        let revision = text(object, "/metadata/resourceVersion").parse().unwrap_or_default();
        self.kept
            .change(key, |entry| copy(Change::Update, object, CloudVersion { uid, revision }, entry))
            .await
    }

    /// The object with this UID is gone; an empty one is whichever it is.
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
        self.kept
            .change(key, |entry| copy(Change::Delete, &Value::Null, CloudVersion { uid, revision: 0 }, entry))
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
        self.kept
            .change(key, |entry| match &entry.record {
                Some(record) if listed.contains(&record.uid) || record.revision > revision => {
                    Placement::default()
                }
                _ => Placement { object: StoreChange::Remove, record: StoreChange::Remove },
            })
            .await
    }

    /// Takes over what this node has of its own at `key`, or that it has nothing there any more.
    pub(super) async fn follow(&self, key: &Key) -> Result<(), StoreError> {
        let own = self.own.entry(key).await?;
        let record = own.record.unwrap_or_default();
        let Some(object) = own.object.as_ref().map(stripped) else {
            return self.drop(key).await;
        };
        let is_ours_to_tell = is_told_here(key);
        self.kept
            .change(key, |entry| match &entry.object {
                Some(current) if same(current, &object) && entry.record.as_ref() == Some(&record) => {
                    Placement::default()
                }
                // the cloud has told of a newer state since
                Some(_) if !is_ours_to_tell && is_older(&record, entry.record.as_ref()) => {
                    Placement::default()
                }
                Some(current) if text(current, "/metadata/uid") != text(&object, "/metadata/uid") => {
                    Placement {
                        object: StoreChange::Exchange(object.clone()),
                        record: StoreChange::Set(record.clone()),
                    }
                }
                Some(current) if same(current, &object) => {
                    Placement { object: StoreChange::Keep, record: StoreChange::Set(record.clone()) }
                }
                _ => Placement {
                    object: StoreChange::Set(object.clone()),
                    record: StoreChange::Set(record.clone()),
                },
            })
            .await
    }

    /// Removes the copy of a pod of this node that has ended, or of this node itself.
    pub(super) async fn forget_own(&self, key: &Key) -> Result<(), StoreError> {
        let Some(object) = self.get(key).await? else { return Ok(()) };
        if text(&object, "/spec/nodeName") == &*self.node
            || (key.resource.as_str() == "nodes" && *key.name == *self.node)
        {
            self.follow(key).await?;
        }
        Ok(())
    }

    /// Whether the object at `key` is this node itself or one of its pods.
    pub(super) async fn is_own(&self, key: &Key) -> Result<bool, StoreError> {
        Ok(is_told_here(key) && self.own.get(key).await?.is_some())
    }

    /// The cloud's revision of what a client has read at this server's `revision`.
    pub(super) async fn clouds_revision(&self, key: &Key, revision: &str) -> Result<String, Refusal> {
        let entry = self.kept.entry(key).await?;
        let stands = entry.object_revision.is_some_and(|stands| stands.to_string() == revision);
        match entry.record.filter(|record| stands && record.revision > 0) {
            Some(record) => Ok(record.revision.to_string()),
            None => Err(Refusal::conflict(&format!(
                "Operation cannot be fulfilled on {} \"{}\": the object has been modified; please apply your changes to the \
                 latest version and try again",
                key.resource, key.name
            ))),
        }
    }
}

/// Whether this node is who tells how the object is: it, or a pod.
fn is_told_here(key: &Key) -> bool {
    matches!(key.resource.as_str(), "pods" | "nodes")
}

fn is_older(ours: &Record, kept: Option<&Record>) -> bool {
    kept.is_some_and(|kept| kept.uid == ours.uid && kept.revision > ours.revision)
}
