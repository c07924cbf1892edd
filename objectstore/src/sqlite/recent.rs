//! A cache of the objects that were written last: reading or writing one of them again needs no query.

use std::{collections::HashMap, mem};

use parking_lot::Mutex;

use crate::{Event, EventKind, Key, LogLimits, Object};

/// The most bytes of objects in each of the two generations.
const MAX_GENERATION_BYTES: usize = 4 << 20;
/// The memory of an entry in bytes, without its texts.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// The cache, shared by the readers and the writer, which alone changes it.
#[derive(Debug)]
pub(super) struct RecentObjects(Mutex<Generations>);

/// Two generations of entries: when the younger one is full, it becomes the older one, whose entries are dropped.
#[derive(Debug)]
struct Generations {
    young: HashMap<Key, Object>,
    old: HashMap<Key, Object>,
    /// Bytes in the younger generation.
    bytes: usize,
    limit: usize,
}

impl RecentObjects {
    /// Makes a cache as large as a log of these limits, which holds the same objects.
    pub(super) fn new(limits: LogLimits) -> Self {
        let limit = limits.bytes.min(MAX_GENERATION_BYTES);
        Self(Mutex::new(Generations {
            young: HashMap::new(),
            old: HashMap::new(),
            bytes: 0,
            limit,
        }))
    }

    /// Returns the current object, or `None` where it has to be read from the file.
    pub(super) fn get(&self, key: &Key) -> Option<Object> {
        let generations = self.0.lock();
        generations
            .young
            .get(key)
            .or_else(|| generations.old.get(key))
            .cloned()
    }

    /// Drops an object that a commit is about to change: who asks meanwhile reads the file.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().forget(key);
    }

    /// Records a change that was committed.
    pub(super) fn record(&self, event: &Event) {
        self.0.lock().record(event);
    }

    /// Drops all entries.
    pub(super) fn forget_all(&self) {
        let mut generations = self.0.lock();
        generations.young.clear();
        generations.old.clear();
        generations.bytes = 0;
    }
}

impl Generations {
    fn forget(&mut self, key: &Key) {
        self.young.remove(key);
        self.old.remove(key);
    }

    fn record(&mut self, Event { kind, object, .. }: &Event) {
        if *kind == EventKind::Deleted {
            return self.forget(&object.key);
        }
        // the entry that it replaces is still counted until the generations are swapped
        self.bytes += size(object);
        self.young.insert(object.key.clone(), object.clone());
        if self.bytes > self.limit {
            self.bytes = 0;
            self.old = mem::take(&mut self.young);
        }
    }
}

fn size(object: &Object) -> usize {
    let Key {
        resource,
        namespace,
        name,
    } = &object.key;
    ENTRY_OVERHEAD_BYTES
        + resource.as_str().len()
        + namespace.len()
        + name.len()
        + object.json.len()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Resource;

    fn event(kind: EventKind, name: &str, revision: u64) -> Event {
        let key = Key::new(Resource::new("", "pods"), "default", name);
        Event {
            kind,
            object: Object::new(key, revision, Bytes::from(vec![b' '; 100])),
            previous: None,
        }
    }

    #[test]
    fn the_newest_are_known_and_no_more_than_there_is_room_for() {
        let recent = RecentObjects::new(LogLimits::new(1, 1000));
        for revision in 0..100 {
            let event = event(EventKind::Modified, &format!("pod-{revision}"), revision);
            recent.record(&event);
            assert_eq!(recent.get(&event.object.key).unwrap().revision, revision);
            let generations = recent.0.lock();
            assert!(generations.young.len() + generations.old.len() <= 2 * 1000 / 100);
        }
        let gone = event(EventKind::Deleted, "pod-99", 100);
        recent.record(&gone);
        assert!(recent.get(&gone.object.key).is_none());
        assert!(
            recent
                .get(&event(EventKind::Added, "pod-0", 0).object.key)
                .is_none()
        );
    }

    #[test]
    fn one_that_is_written_again_and_again_takes_no_room() {
        let recent = RecentObjects::new(LogLimits::new(1, 1000));
        recent.record(&event(EventKind::Added, "quiet", 1));
        for revision in 2..5 {
            recent.record(&event(EventKind::Modified, "busy", revision));
        }
        assert_eq!(
            recent
                .get(&event(EventKind::Added, "quiet", 1).object.key)
                .unwrap()
                .revision,
            1
        );
        recent.forget_all();
        assert!(
            recent
                .get(&event(EventKind::Added, "busy", 1).object.key)
                .is_none()
        );
    }
}
