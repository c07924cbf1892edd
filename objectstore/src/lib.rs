//! An object store: raw JSON objects under (resource, namespace, name), one revision counter, atomic commits, watches.
//!
//! In: [`Write`]s with preconditions ([`Store::commit`]), a [`Scope`] to list or watch. Out: [`Object`]s, [`Event`]s in the order of
//! revisions, and the [`Damaged`] objects by name. Two implementations, one behaviour (the same test suite runs against both):
//! [`MemoryStore`], and [`SqliteStore`] with encryption ([`Seal`]), inspection and repair ([`Inspection`], [`RepairReport`]).
//! The store knows nothing of Kubernetes but `metadata.resourceVersion`, which it writes.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use uuid::Uuid;

mod damage;
mod frozen;
mod image;
mod lock;
mod log;
mod memory;
mod parts;
mod plan;
mod sqlite;
mod watch;

#[cfg(test)]
mod model;
#[cfg(test)]
mod suite;

pub use damage::{Damage, Damaged};
pub use frozen::{Frozen, freeze};
pub use image::Image;
pub use lock::{LockError, LockHolder, StoreLock};
pub use log::LogLimits;
pub use memory::MemoryStore;
pub use sqlite::{
    Health, Inspection, LostObject, RESERVE_SUFFIX, Recovered, RepairHook, RepairReport, Seal,
    SealError, SqliteOptions, SqliteStore,
};
pub use watch::Watch;

/// A collection of objects: the API's group-resource notation, `pods` or `leases.coordination.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Resource(Arc<str>);

impl Resource {
    /// `plural` alone for the core group, else `plural.group`.
    pub fn new(group: &str, plural: &str) -> Self {
        Self(if group.is_empty() {
            plural.into()
        } else {
            format!("{plural}.{group}").into()
        })
    }

    /// Makes a resource from its notation.
    pub fn named(notation: &str) -> Self {
        Self(notation.into())
    }

    /// Returns the notation.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key of an object. `namespace` is empty for cluster-scoped objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The collection.
    pub resource: Resource,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
}

impl Key {
    /// Makes a key from its three parts.
    pub fn new(resource: Resource, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            resource,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.resource, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.resource, self.name),
        }
    }
}

/// What a list or a watch covers: a collection, in one namespace or in all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The collection.
    pub resource: Resource,
    /// `None` covers every namespace.
    pub namespace: Option<String>,
}

/// An object as stored: raw JSON in which `metadata.resourceVersion` is `revision` in decimal.
#[derive(Clone, Debug)]
pub struct Object {
    /// The object's key.
    pub key: Key,
    /// The store's revision of the commit that wrote it.
    pub revision: u64,
    /// The whole object.
    pub json: Bytes,
    labels: parts::KnownLabels,
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        (&self.key, self.revision, &self.json) == (&other.key, other.revision, &other.json)
    }
}

impl Eq for Object {}

impl Object {
    /// Makes an object.
    pub fn new(key: Key, revision: u64, json: Bytes) -> Self {
        Self {
            key,
            revision,
            json,
            labels: parts::KnownLabels::default(),
        }
    }

    /// Returns the object with other content.
    pub fn with_json(self, json: Bytes) -> Self {
        Self::new(self.key, self.revision, json)
    }

    /// Parses the object. Fails only where the stored bytes are damaged.
    pub fn value(&self) -> Result<Value, StoreError> {
        serde_json::from_slice(&self.json).map_err(|error| self.not_json(&error))
    }

    /// Makes an object of which only the key and the revision could be read: what a commit finds in place of a damaged one.
    fn unreadable(key: Key, revision: u64) -> Self {
        Self::new(key, revision, Bytes::new())
    }

    /// Reports whether the object could not be read. A JSON object has at least two bytes.
    fn is_unreadable(&self) -> bool {
        self.json.is_empty()
    }

    /// Turns the parser's error into one that names the object.
    pub fn not_json(&self, error: &serde_json::Error) -> StoreError {
        StoreError::Damaged {
            key: self.key.clone(),
            source: Damage::NotJson(error.to_string()),
        }
    }

    /// Reports whether a deletion has begun; parses no more of the object than it must.
    pub fn is_deleting(&self) -> Result<bool, StoreError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            #[serde(default)]
            deletion_timestamp: Option<IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct Head {
            metadata: Metadata,
        }
        serde_json::from_slice(&self.json)
            .map(|head: Head| head.metadata.deletion_timestamp.is_some())
            .map_err(|error| self.not_json(&error))
    }
}

/// The precondition of a write. Of a damaged object only the revision is known: it may be deleted, and replaced as if there were none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No precondition: create, replace, or delete the object (deleting a missing one is [`StoreError::Missing`] all the same).
    Anything,
    /// There is no object yet, or a damaged one.
    Absent,
    /// The object has exactly this revision.
    Revision(u64),
}

/// One write of a commit.
#[derive(Clone, Debug)]
pub struct Write {
    /// The key of the object.
    pub key: Key,
    /// The precondition; if it does not hold, the whole commit fails.
    pub expect: Expect,
    /// The new object (the store sets `metadata.resourceVersion` in it), or `None` to delete.
    pub value: Option<Value>,
}

/// A page of a list, in the order of (namespace, name).
#[derive(Clone, Debug)]
pub struct Listing {
    /// The objects that can be read.
    pub items: Vec<Object>,
    /// The damaged objects among the rows of this page. They exist: nobody may act as if they were deleted.
    pub damaged: Vec<Key>,
    /// The store's revision that the list shows.
    pub revision: u64,
    /// How many objects follow the last item; 0 on the last page.
    pub remaining: usize,
}

/// Where a list starts and how many items it has at most.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Start after this (namespace, name).
    pub after: Option<(String, String)>,
    /// The most items; `None` for all.
    pub limit: Option<usize>,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The object was created.
    Added,
    /// The object replaced an older state.
    Modified,
    /// The object was deleted; the event holds its last state, with the revision of the deletion.
    Deleted,
}

/// One change, in the order of revisions.
#[derive(Clone, Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The state after the change (before it, for [`EventKind::Deleted`]).
    pub object: Object,
    /// The state before the change: selectors need it to tell "left the selection" from "changed". `None` for
    /// [`EventKind::Added`], and where the object that was changed or deleted could not be read.
    pub previous: Option<Object>,
}

/// Why the store refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A write expected no object and found one.
    #[error("{0} exists already")]
    Exists(Key),
    /// A write or delete expected an object and found none.
    #[error("{0} does not exist")]
    Missing(Key),
    /// A write expected another revision.
    #[error("{key} is at revision {found}, not {expected}")]
    Conflict {
        /// The object.
        key: Key,
        /// What the write expected.
        expected: u64,
        /// The actual revision.
        found: u64,
    },
    /// The revision asked for is no longer kept: list again and watch from there.
    #[error("revision {asked} is too old; the oldest stored is {oldest}")]
    Expired {
        /// The revision asked for.
        asked: u64,
        /// The oldest that a watch can start after.
        oldest: u64,
    },
    /// A stored object is not what was written.
    #[error("stored object {key} is damaged; delete it, or write it again")]
    Damaged {
        /// The object.
        key: Key,
        /// What is wrong with it.
        source: Damage,
    },
    /// The value handed in is not a JSON object with a `metadata` object.
    #[error("{0} has no metadata object")]
    NotAnObject(Key),
    /// The disk or the database failed.
    #[error("store {path}: cannot {step}; {cure}")]
    Disk {
        /// The database file.
        path: String,
        /// The operation that failed.
        step: &'static str,
        /// What the user can do about it.
        cure: &'static str,
        /// The database's error, shared by all commits of the transaction.
        source: Arc<sqlx::Error>,
    },
}

impl StoreError {
    /// Returns the error of a write to this file on a disk without space.
    pub fn full_disk(file: &Path) -> Self {
        sqlite::fault::ErrorContext::of(file).full()
    }

    /// Reports whether the file itself is damaged, or is not one of this program.
    pub fn is_damaged_file(&self) -> bool {
        matches!(self, Self::Disk { source, .. } if sqlite::result_code::is_damage(source))
    }
}

/// The store. Cheap to share as `Arc<dyn Store>`; reads never wait for a watcher.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Returns the object at `key`, or [`StoreError::Damaged`] where it is not what was written.
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError>;

    /// Lists the objects of `scope` in the order of (namespace, name).
    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError>;

    /// Returns a damaged object, if its bytes are JSON all the same. Any value in it may be wrong.
    async fn damaged_value(&self, _key: &Key) -> Result<Option<Value>, StoreError> {
        Ok(None)
    }

    /// Returns the uid of a damaged object, if it can still be read.
    async fn damaged_uid(&self, key: &Key) -> Result<Option<String>, StoreError> {
        let value = self.damaged_value(key).await?;
        let uid = value
            .as_ref()
            .and_then(|value| value.pointer("/metadata/uid")?.as_str());
        Ok(uid
            .and_then(|uid| Uuid::parse_str(uid).ok())
            .map(|uid| uid.to_string()))
    }

    /// Returns the damaged objects that were found: by opening the store, and by reading since.
    fn damaged_objects(&self) -> Damaged {
        Damaged::default()
    }

    /// Returns the collections that hold objects, each with the bytes of its objects.
    async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError>;

    /// Carries out all writes or none, each at a revision of its own, in order. When it returns, the writes are as durable
    /// as the store can make them and watchers can see them. Answers the objects written (the last state of deleted ones),
    /// one for each write. A later write of a commit sees the earlier ones. Dropping the future before it ends leaves open
    /// whether the commit takes place.
    async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Object>, StoreError>;

    /// Checks that the store accepts writes.
    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Reports whether the disk is full, so that objects can be deleted and not created.
    fn is_full(&self) -> bool {
        false
    }

    /// Completes when nothing can be written any more: the task that writes has ended by a bug of this program.
    async fn closed(&self) {
        std::future::pending().await
    }

    /// Watches the changes of `scope` after the revision `after`. Fails with [`StoreError::Expired`] where they are no longer kept, and
    /// where `after` lies in the future: such a client has seen another store.
    fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError>;

    /// Returns the revision of the newest commit: at least that of everything which was read before.
    fn revision(&self) -> u64;
}
