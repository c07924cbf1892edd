//! A node's store on a disk that is slow or full on purpose: the cloud in the same process has a fault for it.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use cloudsim::faults::Faults;
use objectstore::{
    Damaged, Key, Listing, Object, Page, Resource, Scope, Store, StoreError, Watch, Write,
};
use serde_json::Value;
use tokio::time::sleep;

/// A store whose writes take longer, or fail except for deletions, while the node has a fault of its disk.
#[derive(Debug)]
pub(super) struct FaultyStore {
    pub(super) store: Arc<dyn Store>,
    pub(super) faults: Option<Faults>,
    pub(super) node: String,
    /// The file of the store, for errors.
    pub(super) file: PathBuf,
}

impl FaultyStore {
    /// Reports whether the fault of a full disk is injected.
    fn has_full_disk(&self) -> bool {
        let is_full = |faults: &Faults| faults.is_disk_full(&self.node);
        self.faults.as_ref().is_some_and(is_full)
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Object>, StoreError> {
        let delay = self
            .faults
            .as_ref()
            .map(|faults| faults.disk_delay(&self.node));
        if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
            sleep(delay).await;
        }
        if self.has_full_disk() && writes.iter().any(|write| write.value.is_some()) {
            return Err(StoreError::full_disk(&self.file));
        }
        self.store.commit(writes).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        self.store.list(scope, page).await
    }

    async fn damaged_value(&self, key: &Key) -> Result<Option<Value>, StoreError> {
        self.store.damaged_value(key).await
    }

    async fn damaged_uid(&self, key: &Key) -> Result<Option<String>, StoreError> {
        self.store.damaged_uid(key).await
    }

    fn damaged_objects(&self) -> Damaged {
        self.store.damaged_objects()
    }

    async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        self.store.sizes().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        match self.has_full_disk() {
            true => Err(StoreError::full_disk(&self.file)),
            false => self.store.check().await,
        }
    }

    fn is_full(&self) -> bool {
        self.has_full_disk() || self.store.is_full()
    }

    async fn closed(&self) {
        self.store.closed().await;
    }

    fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError> {
        self.store.watch(scope, after)
    }

    fn revision(&self) -> u64 {
        self.store.revision()
    }
}
