//! Stored objects that cannot be read: which they are, and what is wrong with each.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;

use super::Key;

/// What is wrong with a stored object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Its checksum does not match its bytes, key and revision.
    #[error("its checksum does not match")]
    Changed,
    /// It was encrypted, and its bytes were not made with the key.
    #[error("it was changed after it was encrypted")]
    Forged,
    /// It has no checksum and is not a JSON object: it was written by another program.
    #[error("it is not a JSON object: {0}")]
    NotJson(String),
}

/// A watch of the damaged objects of a store that were found until now.
#[derive(Clone, Debug)]
pub struct Damaged(watch::Receiver<Arc<BTreeMap<Key, Damage>>>);

impl Damaged {
    /// Reports whether the object at `key` is damaged.
    pub fn has(&self, key: &Key) -> bool {
        self.0.borrow().contains_key(key)
    }

    /// Returns the current ones.
    pub fn now(&self) -> Arc<BTreeMap<Key, Damage>> {
        self.0.borrow().clone()
    }

    /// Waits until the set has changed since the last call, and returns it; waits for ever where it cannot change any more.
    /// Cancel-safe: a change not returned is returned by the next call.
    pub async fn changed(&mut self) -> Arc<BTreeMap<Key, Damage>> {
        match self.0.changed().await {
            Ok(()) => self.0.borrow_and_update().clone(),
            Err(_) => std::future::pending().await,
        }
    }
}

impl Default for Damaged {
    /// An empty set that never changes.
    fn default() -> Self {
        Self(watch::channel(Arc::default()).1)
    }
}

/// The damaged objects that a store has found.
#[derive(Debug, Default)]
pub(super) struct DamagedObjectsTracker(watch::Sender<Arc<BTreeMap<Key, Damage>>>);

impl DamagedObjectsTracker {
    /// Returns a watch of the set.
    pub(super) fn watch(&self) -> Damaged {
        Damaged(self.0.subscribe())
    }

    /// Adds a damaged object and logs it once.
    pub(super) fn record(&self, key: &Key, damage: &Damage) {
        let is_news = self.0.send_if_modified(|known| {
            if known.get(key) == Some(damage) {
                return false;
            }
            Arc::make_mut(known).insert(key.clone(), damage.clone());
            true
        });
        if is_news {
            tracing::error!(object = %key, error = %damage, "stored object is damaged; delete it or write it again");
        }
    }

    /// Removes an object that was rewritten or deleted.
    pub(super) fn clear(&self, key: &Key) {
        if self.0.borrow().is_empty() {
            return;
        }
        self.0.send_if_modified(|known| {
            known.contains_key(key) && Arc::make_mut(known).remove(key).is_some()
        });
    }
}
