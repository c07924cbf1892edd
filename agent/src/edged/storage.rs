//! Whether what the agent stores can be read and written: the check `storage` of `/healthz`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use kubeapi::store::Store;
use tokio::{sync::Mutex, time::timeout};

/// For so long a disk that took a write is not asked again: each question is a write, and flash wears out.
const GOOD_FOR: Duration = Duration::from_mins(1);

/// The agent's store, as health sees it; by default there is none. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Storage(Option<Arc<Asked>>);

#[derive(Debug)]
struct Asked {
    store: Arc<dyn Store>,
    /// When it last took a write.
    good: Mutex<Option<Instant>>,
}

impl Storage {
    /// Of this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(Some(Arc::new(Asked { store, good: Mutex::default() })))
    }

    /// How many stored objects cannot be read, and the first of them by name.
    pub(super) fn damaged(&self, named: usize) -> (usize, Vec<String>) {
        let Some(asked) = &self.0 else { return (0, Vec::new()) };
        let damaged = asked.store.damaged().now();
        (damaged.len(), damaged.keys().take(named).map(ToString::to_string).collect())
    }

    /// Why nothing can be written; a store that does not answer within `patience` does not take writes either.
    pub(super) async fn refuses(&self, patience: Duration) -> Option<String> {
        let asked = self.0.as_ref()?;
        let look = async {
            let mut good = asked.good.lock().await;
            if good.is_some_and(|at| at.elapsed() < GOOD_FOR) {
                return None;
            }
            *good = None;
            match asked.store.check().await {
                Ok(()) => {
                    *good = Some(Instant::now());
                    None
                }
                Err(error) => Some(error.to_string()),
            }
        };
        let late =
            || Some(format!("it does not take a write within {} s: check the disk", patience.as_secs()));
        timeout(patience, look).await.unwrap_or_else(|_| late())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use kubeapi::store::{
        Key, Listing, MemoryStore, Object, Page, Resource, Scope, StoreError, Watch, Write,
    };

    use super::*;

    /// A store whose disk is full, on command.
    #[derive(Debug)]
    pub(in crate::edged) struct FullDisk {
        store: Arc<MemoryStore>,
        pub(in crate::edged) is_full: AtomicBool,
    }

    impl FullDisk {
        pub(in crate::edged) fn new() -> Arc<Self> {
            Arc::new(Self { store: MemoryStore::new(), is_full: true.into() })
        }
    }

    #[async_trait::async_trait]
    impl Store for FullDisk {
        async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
            Store::get(&*self.store, key).await
        }

        async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
            self.store.list(scope, page).await
        }

        async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
            self.store.sizes().await
        }

        async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Object>, StoreError> {
            self.store.commit(writes).await
        }

        async fn check(&self) -> Result<(), StoreError> {
            if !self.is_full.load(Ordering::Relaxed) {
                return Ok(());
            }
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            Err(StoreError::Disk {
                path: "agent.db".into(),
                step: "write",
                cure: "free some space on its disk",
                source: Arc::new(full.into()),
            })
        }

        fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError> {
            self.store.watch(scope, after)
        }

        fn revision(&self) -> u64 {
            self.store.revision()
        }
    }

    #[tokio::test]
    async fn a_disk_that_was_full_is_asked_again_at_once_and_a_good_one_is_left_alone() {
        let disk = FullDisk::new();
        let storage = Storage::new(disk.clone());
        let patience = Duration::from_secs(5);
        let why = storage.refuses(patience).await.unwrap();
        assert_eq!(why, "store agent.db: cannot write; free some space on its disk");
        disk.is_full.store(false, Ordering::Relaxed);
        assert_eq!(storage.refuses(patience).await, None);
        disk.is_full.store(true, Ordering::Relaxed);
        assert_eq!(storage.refuses(patience).await, None, "it took a write just now");
        assert_eq!(Storage::default().refuses(patience).await, None);
    }
}
