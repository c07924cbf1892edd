//! What a commit changes, decided before anything is written: pure, and the same for every store.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Event, EventKind, Expect, Key, Object, StoreError, Write};

/// The revision of a store in which nothing was written yet. Not 0: Kubernetes clients read that as "any".
pub(super) const FIRST_REVISION: u64 = 1;

/// The changes that `writes` make to what `current` shows, at the revisions after `head`, or the first reason against them.
/// Sets `metadata.resourceVersion` in the values written.
pub(super) fn plan(
    writes: &mut [Write],
    head: u64,
    current: impl Fn(&Key) -> Option<Object>,
) -> Result<Vec<Event>, StoreError> {
    let several = writes.len() > 1;
    let mut earlier: HashMap<Key, Option<Object>> = HashMap::new();
    let mut events = Vec::with_capacity(writes.len());
    let mut revision = head;
    for write in writes {
        revision += 1;
        let previous = match earlier.get(&write.key) {
            Some(state) => state.clone(),
            None => current(&write.key),
        };
        let event = change(write, revision, previous)?;
        if several {
            let state = (event.kind != EventKind::Deleted).then(|| event.object.clone());
            earlier.insert(write.key.clone(), state);
        }
        events.push(event);
    }
    Ok(events)
}

fn change(write: &mut Write, revision: u64, previous: Option<Object>) -> Result<Event, StoreError> {
    let key = &write.key;
    match (write.expect, &previous) {
        (Expect::Absent, Some(found)) if found.is_unreadable() => {}
        (Expect::Absent, Some(_)) => return Err(StoreError::Exists(key.clone())),
        (Expect::Revision(_), None) => return Err(StoreError::Missing(key.clone())),
        (
            Expect::Revision(expected),
            Some(Object {
                revision: found, ..
            }),
        ) if expected != *found => {
            return Err(StoreError::Conflict {
                key: key.clone(),
                expected,
                found: *found,
            });
        }
        (Expect::Anything | Expect::Absent, None)
        | (Expect::Anything | Expect::Revision(_), Some(_)) => {}
    }
    let (kind, json) = match (&mut write.value, &previous) {
        (Some(value), _) => {
            let json =
                stamp(value, revision).ok_or_else(|| StoreError::NotAnObject(key.clone()))?;
            (
                if previous.is_some() {
                    EventKind::Modified
                } else {
                    EventKind::Added
                },
                json,
            )
        }
        (None, Some(last)) => (EventKind::Deleted, last_state(last, revision)),
        (None, None) => return Err(StoreError::Missing(key.clone())),
    };
    let previous = previous.filter(|previous| !previous.is_unreadable());
    Ok(Event {
        kind,
        object: Object::new(key.clone(), revision, json),
        previous,
    })
}

/// Sets the revision and writes the object out; `None` where it has no metadata.
pub(super) fn stamp(value: &mut Value, revision: u64) -> Option<Bytes> {
    let metadata = value.get_mut("metadata")?.as_object_mut()?;
    metadata.insert(
        "resourceVersion".to_owned(),
        Value::String(revision.to_string()),
    );
    // Boxed, since a vector's spare room would stay allocated for as long as the object.
    Some(Bytes::from(
        serde_json::to_vec(value).ok()?.into_boxed_slice(),
    ))
}

/// The state that a deletion shows. A damaged object can be deleted too, and shows no more than where it stood.
fn last_state(last: &Object, revision: u64) -> Bytes {
    let parsed = last
        .value()
        .ok()
        .and_then(|mut value| stamp(&mut value, revision));
    parsed.unwrap_or_else(|| {
        let Key { namespace, name, .. } = &last.key;
        let metadata =
            json!({ "namespace": namespace, "name": name, "resourceVersion": revision.to_string() });
        Bytes::from(json!({ "metadata": metadata }).to_string())
    })
}
