//! What each node has acknowledged, for a cloud with a store of its own. It is brought up to date when it is read, by the changes since
//! the last read: it costs nothing meanwhile, and a read sees everything that was written before it. Without it, each node that
//! connects would read the records of all nodes.

use std::{fmt, sync::Arc};

use clock::HashMap;
use crds::reliablesyncs::{ClusterObjectSync, ObjectSync};
use futures::FutureExt;
use kube::Resource as _;
use objectstore::{Event, EventKind, Key, Page, Resource, Scope, Store, StoreError, Watch};
use tokio::sync::Mutex;

use super::{RecordItem, Synced};

/// Records read at a time.
const PAGE_SIZE: usize = 2000;
/// How often all records are read for one request, if more changes come meanwhile than the store's log keeps.
const MAX_READS: usize = 3;

/// The records of all nodes.
pub(super) struct SyncIndex {
    store: Arc<dyn Store>,
    /// `None` before the first read, and after a failed one.
    known: Mutex<Option<Known>>,
}

struct Known {
    nodes: HashMap<String, Synced>,
    /// Everything before these is in `nodes`.
    watches: Vec<Watch>,
}

impl fmt::Debug for SyncIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncIndex").finish_non_exhaustive()
    }
}

impl SyncIndex {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            known: Mutex::new(None),
        }
    }

    /// Returns everything that `node` has acknowledged.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) async fn get(&self, node: &str) -> Result<Synced, StoreError> {
        let mut known = self.known.lock().await;
        let mut reads = 0;
        loop {
            let mut current = match known.take() {
                Some(current) => current,
                None => {
                    reads += 1;
                    Known::read(&*self.store).await?
                }
            };
            match current.catch_up() {
                Ok(()) => {
                    let synced = current.nodes.get(node).cloned();
                    *known = Some(current);
                    return Ok(synced.unwrap_or_default());
                }
                Err(StoreError::Expired { .. }) if reads < MAX_READS => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Known {
    async fn read(store: &dyn Store) -> Result<Self, StoreError> {
        let mut known = Self {
            nodes: HashMap::default(),
            watches: Vec::new(),
        };
        for (group, plural) in [
            (ObjectSync::group(&()), ObjectSync::plural(&())),
            (
                ClusterObjectSync::group(&()),
                ClusterObjectSync::plural(&()),
            ),
        ] {
            let scope = Scope {
                resource: Resource::new(&group, &plural),
                namespace: None,
            };
            // changes during the read are applied again, in their order
            known
                .watches
                .push(store.watch(scope.clone(), store.revision())?);
            let mut page = Page {
                after: None,
                limit: Some(PAGE_SIZE),
            };
            loop {
                let listing = store.list(&scope, &page).await?;
                let read = listing.items.iter().map(|object| &object.key);
                let last = read.chain(&listing.damaged).max();
                page.after = last.map(|key| (key.namespace.clone(), key.name.clone()));
                for object in listing.items {
                    known.set(&object.key, &object.json);
                }
                if listing.remaining == 0 || page.after.is_none() {
                    break;
                }
            }
        }
        Ok(known)
    }

    /// Applies all changes since the last time.
    fn catch_up(&mut self) -> Result<(), StoreError> {
        let mut watches = std::mem::take(&mut self.watches);
        for watch in &mut watches {
            while let Some(change) = watch.next().now_or_never() {
                self.apply(&change?);
            }
        }
        self.watches = watches;
        Ok(())
    }

    fn apply(&mut self, change: &Event) {
        let object = &change.object;
        match change.kind {
            EventKind::Added | EventKind::Modified => self.set(&object.key, &object.json),
            EventKind::Deleted => self.remove(&object.key),
        }
    }

    fn set(&mut self, key: &Key, json: &[u8]) {
        let record = serde_json::from_slice(json).ok();
        match record.and_then(RecordItem::object) {
            Some((node, uid, held)) => {
                self.nodes.entry(node).or_default().insert(uid, held);
            }
            // somebody has made it invalid
            None => self.remove(key),
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some((node, uid)) = key.name.rsplit_once('.') else {
            return;
        };
        if let Some(records) = self.nodes.get_mut(node) {
            records.remove(uid);
            if records.is_empty() {
                self.nodes.remove(node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use objectstore::{Expect, LogLimits, MemoryStore, Write};
    use serde_json::{Value, json};

    use super::*;

    /// Writes a record of a ConfigMap, or deletes it.
    fn record(node: &str, uid: &str, value: Option<Value>) -> Write {
        let resource = Resource::new("reliablesyncs.kubeedge.io", "objectsyncs");
        Write {
            key: Key::new(resource, "default", format!("{node}.{uid}")),
            expect: Expect::Anything,
            value,
        }
    }

    fn record_at(node: &str, uid: &str, revision: &str) -> Write {
        let value = json!({
            "metadata": {"name": format!("{node}.{uid}"), "namespace": "default"},
            "spec": {"objectKind": "ConfigMap", "objectName": format!("settings-{uid}")},
            "status": {"objectResourceVersion": revision},
        });
        record(node, uid, Some(value))
    }

    /// Returns UIDs and revisions, sorted.
    async fn revisions(index: &SyncIndex, node: &str) -> Vec<(String, u64)> {
        let synced = index.get(node).await.unwrap();
        let mut found: Vec<_> = synced.into_iter().map(|(uid, (_, at))| (uid, at)).collect();
        found.sort_unstable();
        found
    }

    fn pairs(all: &[(&str, u64)]) -> Vec<(String, u64)> {
        all.iter()
            .map(|(uid, at)| ((*uid).to_owned(), *at))
            .collect()
    }

    #[tokio::test]
    async fn a_read_sees_every_earlier_write() {
        // a log that keeps little: the second read of all records comes after more changes than it has
        for events in [1000, 2] {
            let limits = LogLimits::new(events, 1 << 20);
            let store = MemoryStore::with_log(limits);
            store
                .commit(vec![record_at("edge-1", "a", "5")])
                .await
                .unwrap();
            let index = SyncIndex::new(store.clone());
            assert_eq!(revisions(&index, "edge-1").await, pairs(&[("a", 5)]));
            let changes = vec![
                record_at("edge-1", "a", "7"),
                record_at("edge-1", "b", "0"),
                // a name with dots
                record_at("edge-1.example", "c", "3"),
                record_at("edge-2", "d", "9"),
            ];
            store.commit(changes).await.unwrap();
            assert_eq!(
                revisions(&index, "edge-1").await,
                pairs(&[("a", 7), ("b", 0)])
            );
            assert_eq!(
                revisions(&index, "edge-1.example").await,
                pairs(&[("c", 3)])
            );
            let changes = vec![
                record("edge-1", "a", None),
                record(
                    "edge-1",
                    "b",
                    Some(json!({"metadata": {"name": "edge-1.b"}})),
                ),
                record("edge-2", "d", None),
            ];
            store.commit(changes).await.unwrap();
            assert_eq!(revisions(&index, "edge-1").await, pairs(&[]));
            assert_eq!(revisions(&index, "edge-2").await, pairs(&[]));
            assert_eq!(
                revisions(&index, "edge-1.example").await,
                pairs(&[("c", 3)])
            );
        }
    }

    #[tokio::test]
    async fn many_records_are_read_in_pages() {
        let store = MemoryStore::new();
        for node in 0..3 {
            let node = format!("edge-{node}");
            let all = (0..PAGE_SIZE).map(|uid| record_at(&node, &format!("{uid:04}"), "1"));
            store.commit(all.collect()).await.unwrap();
        }
        let index = SyncIndex::new(store);
        for node in 0..3 {
            let synced = index.get(&format!("edge-{node}")).await.unwrap();
            assert_eq!(synced.len(), PAGE_SIZE);
        }
    }
}
