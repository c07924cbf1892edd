//! The store in memory. It keeps each object as unparsed JSON.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Bound,
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard};

use super::{
    Event, EventKind, Image, Key, Listing, LogLimits, Object, Page, Resource, Scope, Store,
    StoreError, Watch, Write,
    log::Log,
    parts::KnownLabels,
    plan::{FIRST_REVISION, plan},
};

/// A store in memory.
pub struct MemoryStore {
    objects: RwLock<Objects>,
    /// The log, written under the lock of `objects`, so that a list and its revision agree.
    log: Arc<Log>,
}

/// All objects, by collection.
#[derive(Default)]
pub(super) struct Objects(HashMap<Resource, Collection>);

type Collection = BTreeMap<(Box<str>, Box<str>), StoredObject>;

/// An [`Object`] without its key.
struct StoredObject {
    revision: u64,
    json: Bytes,
    labels: KnownLabels,
}

impl StoredObject {
    fn of(object: &Object) -> Self {
        Self {
            revision: object.revision,
            json: object.json.clone(),
            labels: object.labels.clone(),
        }
    }

    fn at(&self, key: Key) -> Object {
        Object {
            key,
            revision: self.revision,
            json: self.json.clone(),
            labels: self.labels.clone(),
        }
    }
}

impl MemoryStore {
    /// Makes an empty store.
    pub fn new() -> Arc<Self> {
        Self::with_log(LogLimits::CLOUD)
    }

    /// Makes an empty store with these limits of the log.
    pub fn with_log(limits: LogLimits) -> Arc<Self> {
        Arc::new(Self {
            objects: RwLock::default(),
            log: Arc::new(Log::new(FIRST_REVISION, limits)),
        })
    }

    /// Makes a store with everything that another one had. It continues at the same revision.
    pub fn from_image(image: Image, limits: LogLimits) -> Arc<Self> {
        let mut objects = Objects::default();
        for object in image.objects {
            objects.insert(&object);
        }
        Arc::new(Self {
            objects: RwLock::new(objects),
            log: Arc::new(Log::new(image.revision, limits)),
        })
    }

    /// Holds all commits; also returns the revision of the newest one.
    pub(super) fn freeze(&self) -> (RwLockReadGuard<'_, Objects>, u64) {
        let objects = self.objects.read();
        let revision = self.log.head();
        (objects, revision)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        Ok(self.objects.read().get(key))
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        let objects = self.objects.read();
        let (items, remaining) = objects.list(scope, page);
        Ok(Listing {
            items,
            damaged: Vec::new(),
            revision: self.log.head(),
            remaining,
        })
    }

    async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        let objects = self.objects.read();
        let sizes = objects.0.iter().map(|(resource, collection)| {
            let bytes = collection
                .values()
                .map(|stored| stored.json.len() as u64)
                .sum();
            (resource.clone(), bytes)
        });
        Ok(sizes.filter(|(_, bytes)| *bytes > 0).collect())
    }

    async fn commit(&self, mut writes: Vec<Write>) -> Result<Vec<Object>, StoreError> {
        let mut objects = self.objects.write();
        let events = plan(&mut writes, self.log.head(), |key| objects.get(key))?;
        events.iter().for_each(|event| objects.apply(event));
        for event in &events {
            let (kind, Object { key, revision, .. }) = (event.kind, &event.object);
            clock::trace(|| format!("{kind:?} {key} {revision}"));
        }
        let written = events.iter().map(|event| event.object.clone()).collect();
        self.log.append(events);
        Ok(written)
    }

    fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError> {
        Watch::open(self.log.clone(), scope, after)
    }

    fn revision(&self) -> u64 {
        self.log.head()
    }
}

impl Objects {
    fn get(&self, key: &Key) -> Option<Object> {
        let stored = self
            .0
            .get(&key.resource)?
            .get(&place(&key.namespace, &key.name))?;
        Some(stored.at(key.clone()))
    }

    fn apply(&mut self, event: &Event) {
        let key = &event.object.key;
        match event.kind {
            EventKind::Added | EventKind::Modified => self.insert(&event.object),
            EventKind::Deleted => {
                let collection = self.0.get_mut(&key.resource);
                collection.map(|objects| objects.remove(&place(&key.namespace, &key.name)));
            }
        }
    }

    fn insert(&mut self, object: &Object) {
        let key = &object.key;
        let collection = self.0.entry(key.resource.clone()).or_default();
        collection.insert(place(&key.namespace, &key.name), StoredObject::of(object));
    }

    /// Returns all objects, in the order of (resource, namespace, name).
    pub(super) fn all(&self) -> Vec<Object> {
        let mut collections: Vec<_> = self.0.iter().collect();
        collections.sort_unstable_by_key(|(resource, _)| *resource);
        let objects = collections.into_iter().flat_map(|(resource, objects)| {
            let object = |((namespace, name), stored): (&(Box<str>, Box<str>), &StoredObject)| {
                stored.at(Key::new(resource.clone(), &**namespace, &**name))
            };
            objects.iter().map(object)
        });
        objects.collect()
    }

    /// Returns the page, and how many objects follow it.
    fn list(&self, scope: &Scope, page: &Page) -> (Vec<Object>, usize) {
        let Some(collection) = self.0.get(&scope.resource) else {
            return (Vec::new(), 0);
        };
        let start_of_scope = scope
            .namespace
            .as_ref()
            .map(|namespace| place(namespace, ""));
        let after_page = page
            .after
            .as_ref()
            .map(|(namespace, name)| place(namespace, name));
        let start = match start_of_scope.max(after_page) {
            Some(place) => Bound::Excluded(place),
            None => Bound::Unbounded,
        };
        let covered = |namespace: &str| {
            scope
                .namespace
                .as_deref()
                .is_none_or(|wanted| wanted == namespace)
        };
        let mut rest = collection
            .range((start, Bound::Unbounded))
            .take_while(|((namespace, _), _)| covered(namespace));
        let object = |((namespace, name), stored): (&(Box<str>, Box<str>), &StoredObject)| {
            stored.at(Key::new(scope.resource.clone(), &**namespace, &**name))
        };
        let items = rest
            .by_ref()
            .take(page.limit.unwrap_or(usize::MAX))
            .map(object)
            .collect();
        (items, rest.count())
    }
}

fn place(namespace: &str, name: &str) -> (Box<str>, Box<str>) {
    (namespace.into(), name.into())
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}
