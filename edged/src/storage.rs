//! Checks whether the agent's store can be read and written: the check `storage` of `/healthz`.

use std::{sync::Arc, time::Duration};

use clock::Instant;
use objectstore::Store;
use tokio::{sync::Mutex, time::timeout};

/// How long a successful check of writing remains valid. Each check is a write, and flash memory wears out.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// The agent's store as seen by health checks. By default there is none. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Storage(Option<Arc<CheckedStore>>);

#[derive(Debug)]
struct CheckedStore {
    store: Arc<dyn Store>,
    /// When a check last succeeded.
    last_success: Mutex<Option<Instant>>,
}

impl Storage {
    /// Checks this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(Some(Arc::new(CheckedStore {
            store,
            last_success: Mutex::default(),
        })))
    }

    /// Returns how many stored objects cannot be read, and the keys of the first `named` of them.
    pub(super) fn damaged_keys(&self, named: usize) -> (usize, Vec<String>) {
        let Some(checked) = &self.0 else {
            return (0, Vec::new());
        };
        let damaged = checked.store.damaged_objects().now();
        (
            damaged.len(),
            damaged
                .keys()
                .take(named)
                .map(ToString::to_string)
                .collect(),
        )
    }

    /// Returns the error if the store cannot be written. Not answering within `deadline` is an error too.
    pub(super) async fn write_error(&self, deadline: Duration) -> Option<String> {
        let checked = self.0.as_ref()?;
        let check = async {
            let mut last_success = checked.last_success.lock().await;
            if last_success.is_some_and(|at| at.elapsed() < CHECK_INTERVAL) {
                return None;
            }
            *last_success = None;
            match checked.store.check().await {
                Ok(()) => {
                    *last_success = Some(Instant::now());
                    None
                }
                Err(error) => Some(error.to_string()),
            }
        };
        let late = || {
            Some(format!(
                "it does not take a write within {} s: check the disk",
                deadline.as_secs()
            ))
        };
        timeout(deadline, check).await.unwrap_or_else(|_| late())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use objectstore::{
        Key, Listing, MemoryStore, Object, Page, Resource, Scope, StoreError, Watch, Write,
    };

    use super::*;

    /// A store whose disk is full, on command.
    #[derive(Debug)]
    pub(crate) struct FullDisk {
        store: Arc<MemoryStore>,
        pub(crate) is_full: AtomicBool,
    }

    impl FullDisk {
        pub(crate) fn new() -> Arc<Self> {
            Arc::new(Self {
                store: MemoryStore::new(),
                is_full: true.into(),
            })
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
    async fn failed_check_is_repeated_and_successful_one_cached() {
        let disk = FullDisk::new();
        let storage = Storage::new(disk.clone());
        let deadline = Duration::from_secs(5);
        let why = storage.write_error(deadline).await.unwrap();
        assert_eq!(
            why,
            "store agent.db: cannot write; free some space on its disk"
        );
        disk.is_full.store(false, Ordering::Relaxed);
        assert_eq!(storage.write_error(deadline).await, None);
        disk.is_full.store(true, Ordering::Relaxed);
        assert_eq!(
            storage.write_error(deadline).await,
            None,
            "it took a write just now"
        );
        assert_eq!(Storage::default().write_error(deadline).await, None);
    }
}
