//! The objects of one kind as last reported by the API, with this process's own writes at once: a reconciliation that has just created
//! pods finds them here before the watch reports them, so it does not create them again. Pure.

use std::{collections::VecDeque, sync::Arc};

use clock::{HashMap, HashSet};
use kube::{Resource, ResourceExt, runtime::watcher::Event};

/// Namespace and name.
type Key = (String, String);

/// How many deleted objects are remembered: answers to writes may be late by milliseconds.
const REMEMBERED: usize = 1024;

/// The change of an object.
#[derive(Debug)]
pub(crate) struct Change<K> {
    /// The object before, if it was known.
    pub(crate) before: Option<Arc<K>>,
    /// The object as it is now, or was last.
    pub(crate) object: Arc<K>,
    /// Whether it was deleted.
    pub(crate) gone: bool,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        Self {
            before: self.before.clone(),
            object: Arc::clone(&self.object),
            gone: self.gone,
        }
    }
}

impl<K> Change<K> {
    /// Returns both states, the older one first.
    pub(crate) fn states(&self) -> impl Iterator<Item = &Arc<K>> {
        self.before.iter().chain([&self.object])
    }
}

/// The objects, indexed by name, controller and namespace.
#[derive(Debug)]
pub(super) struct Cache<K> {
    objects: HashMap<Key, Arc<K>>,
    /// By the uid of the controlling owner; empty for objects without one.
    by_controller: HashMap<String, HashSet<Key>>,
    by_namespace: HashMap<String, HashSet<Key>>,
    /// Uids of objects that this process deleted and the watch may still report.
    deleted: HashSet<String>,
    /// Uids of recently deleted objects: an answer to a write may arrive after the deletion.
    ended: VecDeque<String>,
    /// During a list: the objects listed so far or written by this process meanwhile.
    listed: Option<HashSet<Key>>,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Self {
            objects: HashMap::default(),
            by_controller: HashMap::default(),
            by_namespace: HashMap::default(),
            deleted: HashSet::default(),
            ended: VecDeque::new(),
            listed: None,
        }
    }
}

impl<K: Resource<DynamicType = ()>> Cache<K> {
    pub(super) fn all(&self) -> Vec<Arc<K>> {
        self.objects.values().cloned().collect()
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.objects
            .get(&(namespace.to_owned(), name.to_owned()))
            .cloned()
    }

    pub(super) fn controlled_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.select(self.by_controller.get(uid))
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.select(self.by_namespace.get(namespace))
    }

    fn select(&self, keys: Option<&HashSet<Key>>) -> Vec<Arc<K>> {
        keys.into_iter()
            .flatten()
            .filter_map(|key| self.objects.get(key).cloned())
            .collect()
    }

    /// Applies a watch event; returns the changes for listeners.
    pub(super) fn observe(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.listed = Some(HashSet::default());
                Vec::new()
            }
            Event::InitApply(object) => {
                let key = key(&object);
                if let Some(listed) = &mut self.listed {
                    listed.insert(key);
                }
                self.apply(object).into_iter().collect()
            }
            Event::InitDone => self.end_list(),
            Event::Apply(object) => self.apply(object).into_iter().collect(),
            Event::Delete(object) => {
                self.deleted
                    .remove(object.uid().as_deref().unwrap_or_default());
                self.ended.extend(object.uid());
                if self.ended.len() > REMEMBERED {
                    self.ended.pop_front();
                }
                // the uid of a damaged object is not known
                let is_same =
                    |known: &Arc<K>| object.uid().is_none() || known.uid() == object.uid();
                let same = self.objects.get(&key(&object)).is_some_and(is_same);
                let before = if same { self.take(&key(&object)) } else { None };
                vec![Change {
                    before,
                    object: Arc::new(object),
                    gone: true,
                }]
            }
        }
    }

    /// Applies a write of this process, as the API answered it.
    pub(super) fn wrote(&mut self, object: K) {
        // the object was deleted since, and its deletion would not be reported again
        if object.uid().is_some_and(|uid| self.ended.contains(&uid)) {
            return;
        }
        if let Some(listed) = &mut self.listed {
            listed.insert(key(&object));
        }
        self.apply(object);
    }

    /// Applies a deletion by this process.
    pub(super) fn apply_removal(&mut self, object: &K) {
        let known = self
            .objects
            .get(&key(object))
            .is_some_and(|known| known.uid() == object.uid());
        if known {
            self.take(&key(object));
            self.deleted.extend(object.uid());
        }
    }

    /// Applies an object from the watch. A change is reported even if it is known: others listen to the same events.
    fn apply(&mut self, object: K) -> Option<Change<K>> {
        if object.uid().is_some_and(|uid| self.deleted.contains(&uid)) {
            return None;
        }
        let key = key(&object);
        let before = self.objects.get(&key).cloned();
        let is_newer =
            |known: &&Arc<K>| known.uid() == object.uid() && version(&***known) > version(&object);
        if let Some(known) = before.as_ref().filter(is_newer) {
            return Some(Change {
                before: before.clone(),
                object: Arc::clone(known),
                gone: false,
            });
        }
        self.take(&key);
        let object = Arc::new(object);
        self.by_controller
            .entry(controller_uid(&*object).to_owned())
            .or_default()
            .insert(key.clone());
        self.by_namespace
            .entry(key.0.clone())
            .or_default()
            .insert(key.clone());
        self.objects.insert(key, Arc::clone(&object));
        Some(Change {
            before,
            object,
            gone: false,
        })
    }

    fn end_list(&mut self) -> Vec<Change<K>> {
        let listed = self.listed.take().unwrap_or_default();
        // objects deleted before the list are not in it, and later deletions are reported
        self.deleted.clear();
        let absent: Vec<_> = self
            .objects
            .keys()
            .filter(|key| !listed.contains(*key))
            .cloned()
            .collect();
        let gone = |object: Arc<K>| Change {
            before: Some(Arc::clone(&object)),
            object,
            gone: true,
        };
        absent
            .iter()
            .filter_map(|key| self.take(key))
            .map(gone)
            .collect()
    }

    fn take(&mut self, key: &Key) -> Option<Arc<K>> {
        let object = self.objects.remove(key)?;
        drop_key(&mut self.by_controller, controller_uid(&*object), key);
        drop_key(&mut self.by_namespace, &key.0, key);
        Some(object)
    }
}

fn drop_key(index: &mut HashMap<String, HashSet<Key>>, name: &str, key: &Key) {
    if let Some(keys) = index.get_mut(name) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(name);
        }
    }
}

fn key<K: Resource>(object: &K) -> Key {
    (
        object.meta().namespace.clone().unwrap_or_default(),
        object.meta().name.clone().unwrap_or_default(),
    )
}

/// Returns the resourceVersion as a number, which only grows within a collection.
fn version<K: Resource>(object: &K) -> u64 {
    object
        .meta()
        .resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

fn controller_uid<K: Resource>(object: &K) -> &str {
    let owners = object
        .meta()
        .owner_references
        .as_deref()
        .unwrap_or_default();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map_or("", |owner| owner.uid.as_str())
}

#[cfg(test)]
mod tests;
