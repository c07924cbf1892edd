//! Objects that are stored and cannot be read: what is wrong with each, and which they are.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;

use super::Key;

/// What is wrong with a stored object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Its checksum is that of other bytes, or of another place or revision.
    #[error("its bytes are not those that were written")]
    Changed,
    /// It was encrypted, and what is there now was not made with the key.
    #[error("it was changed after it was encrypted")]
    Forged,
    /// It was written before objects had checksums, or by another program.
    #[error("it is no JSON object: {0}")]
    NotJson(String),
}

/// The damaged objects of a store, as far as they were found.
#[derive(Clone, Debug)]
pub struct Damaged(watch::Receiver<Arc<BTreeMap<Key, Damage>>>);

impl Damaged {
    /// Those that there are now.
    pub fn now(&self) -> Arc<BTreeMap<Key, Damage>> {
        self.0.borrow().clone()
    }

    /// Waits until others were found, or some were written anew or deleted, since the last call; for ever where nothing can change
    /// any more. Cancel-safe: a change not returned is returned by the next call.
    pub async fn changed(&mut self) -> Arc<BTreeMap<Key, Damage>> {
        match self.0.changed().await {
            Ok(()) => self.0.borrow_and_update().clone(),
            Err(_) => std::future::pending().await,
        }
    }
}

impl Default for Damaged {
    /// None, for ever.
    fn default() -> Self {
        Self(watch::channel(Arc::default()).1)
    }
}

/// What a store notes of its damaged objects.
#[derive(Debug, Default)]
pub(super) struct Found(watch::Sender<Arc<BTreeMap<Key, Damage>>>);

impl Found {
    /// The reader's end.
    pub(super) fn watch(&self) -> Damaged {
        Damaged(self.0.subscribe())
    }

    /// One was found. The log names it once.
    pub(super) fn note(&self, key: &Key, damage: &Damage) {
        let is_news = self.0.send_if_modified(|known| {
            if known.get(key) == Some(damage) {
                return false;
            }
            Arc::make_mut(known).insert(key.clone(), damage.clone());
            true
        });
        if is_news {
            tracing::error!(object = %key, %damage, "a stored object is damaged and is left out");
        }
    }

    /// One was written anew, or deleted.
    pub(super) fn clear(&self, key: &Key) {
        if self.0.borrow().is_empty() {
            return;
        }
        self.0
            .send_if_modified(|known| known.contains_key(key) && Arc::make_mut(known).remove(key).is_some());
    }
}
