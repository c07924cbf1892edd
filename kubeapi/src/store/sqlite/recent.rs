//! The objects that were written last: whoever reads or writes one of them again need not ask SQLite, and its earlier state is in
//! memory once.

use std::{collections::HashMap, mem};

use parking_lot::Mutex;

use crate::store::{Event, EventKind, Key, LogLimits, Object};

/// Bytes of objects at most, in each of two halves, however long the log is.
const BYTES: usize = 4 << 20;
/// What an entry takes beside its texts.
const ENTRY: usize = 64;

/// Shared by the writer, who alone changes it, and those who read.
#[derive(Debug)]
pub(super) struct Recent(Mutex<Halves>);

/// When the younger one is full, it becomes the older one, whose objects are forgotten.
#[derive(Debug)]
struct Halves {
    young: HashMap<Key, Object>,
    old: HashMap<Key, Object>,
    /// Of the younger half.
    bytes: usize,
    limit: usize,
}

impl Recent {
    /// As long as a log of these limits, which holds the same objects.
    pub(super) fn new(limits: LogLimits) -> Self {
        let limit = limits.bytes.min(BYTES);
        Self(Mutex::new(Halves { young: HashMap::new(), old: HashMap::new(), bytes: 0, limit }))
    }

    /// The object as it stands; `None`: it has to be read.
    pub(super) fn get(&self, key: &Key) -> Option<Object> {
        let halves = self.0.lock();
        halves.young.get(key).or_else(|| halves.old.get(key)).cloned()
    }

    /// A commit is about to change this object: whoever asks meanwhile reads it, and sees it as everybody else who reads.
    pub(super) fn forget(&self, key: &Key) {
        self.0.lock().forget(key);
    }

    /// What a commit has done.
    pub(super) fn note(&self, event: &Event) {
        self.0.lock().note(event);
    }

    /// Nothing is known of what stands.
    pub(super) fn forget_all(&self) {
        let mut halves = self.0.lock();
        halves.young.clear();
        halves.old.clear();
        halves.bytes = 0;
    }
}

impl Halves {
    fn forget(&mut self, key: &Key) {
        self.young.remove(key);
        self.old.remove(key);
    }

    fn note(&mut self, Event { kind, object, .. }: &Event) {
        if *kind == EventKind::Deleted {
            return self.forget(&object.key);
        }
        // what it replaces is still counted, until the halves change places
        self.bytes += size(object);
        self.young.insert(object.key.clone(), object.clone());
        if self.bytes > self.limit {
            self.bytes = 0;
            self.old = mem::take(&mut self.young);
        }
    }
}

fn size(object: &Object) -> usize {
    let Key { resource, namespace, name } = &object.key;
    ENTRY + resource.as_str().len() + namespace.len() + name.len() + object.json.len()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::Resource;

    fn event(kind: EventKind, name: &str, revision: u64) -> Event {
        let key = Key::new(Resource::new("", "pods"), "default", name);
        Event { kind, object: Object { key, revision, json: Bytes::from(vec![b' '; 100]) }, previous: None }
    }

    #[test]
    fn the_newest_are_known_and_no_more_than_there_is_room_for() {
        let recent = Recent::new(LogLimits { events: 1, bytes: 1000 });
        for revision in 0..100 {
            let event = event(EventKind::Modified, &format!("pod-{revision}"), revision);
            recent.note(&event);
            assert_eq!(recent.get(&event.object.key).unwrap().revision, revision);
            let halves = recent.0.lock();
            assert!(halves.young.len() + halves.old.len() <= 2 * 1000 / 100);
        }
        let gone = event(EventKind::Deleted, "pod-99", 100);
        recent.note(&gone);
        assert!(recent.get(&gone.object.key).is_none());
        assert!(recent.get(&event(EventKind::Added, "pod-0", 0).object.key).is_none());
    }

    #[test]
    fn one_that_is_written_again_and_again_takes_no_room() {
        let recent = Recent::new(LogLimits { events: 1, bytes: 1000 });
        recent.note(&event(EventKind::Added, "quiet", 1));
        for revision in 2..5 {
            recent.note(&event(EventKind::Modified, "busy", revision));
        }
        assert_eq!(recent.get(&event(EventKind::Added, "quiet", 1).object.key).unwrap().revision, 1);
        recent.forget_all();
        assert!(recent.get(&event(EventKind::Added, "busy", 1).object.key).is_none());
    }
}
