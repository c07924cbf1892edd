//! The store of MetaServer's copies: opened when it is needed, and tried again until that succeeds, so that a full disk or a broken file
//! does not stop the agent.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use objectstore::{
    Damaged, Key, Listing, Object, Page, Resource, Scope, SqliteOptions, SqliteStore, Store,
    StoreError, Watch, Write,
};
use tokio::{runtime::Handle, sync::Mutex};
use tracing::warn;

use crate::metamanager;

/// The revision of a store in which nothing was written yet.
const FIRST_REVISION: u64 = 1;

/// A store that may not be open yet.
#[derive(Debug)]
pub(super) struct LateStore {
    path: PathBuf,
    options: SqliteOptions,
    opened: OnceLock<Arc<dyn Store>>,
    /// Held while it is opened.
    opening: Mutex<()>,
}

impl LateStore {
    /// Creates the store of the file at `path`, and tries to open it.
    pub(super) async fn open(path: PathBuf, options: SqliteOptions) -> Arc<Self> {
        let late = Self {
            path,
            options,
            opened: OnceLock::new(),
            opening: Mutex::default(),
        };
        if let Err(error) = late.store().await {
            let error = &error as &dyn std::error::Error;
            warn!(
                error,
                "failed to open MetaServer's copies; retrying while the agent runs"
            );
        }
        Arc::new(late)
    }

    async fn store(&self) -> Result<Arc<dyn Store>, StoreError> {
        let _one = self.opening.lock().await;
        if let Some(store) = self.opened.get() {
            return Ok(Arc::clone(store));
        }
        let (path, options) = (self.path.clone(), self.options.clone());
        // on a thread of its own: SQLx's migrations are a future that cannot be sent between threads
        let opening = componentbase::spawn_blocking(move || {
            Handle::current().block_on(open_copies(&path, options))
        });
        let copies = opening
            .await
            .map_err(|error| self.not_open(io::Error::other(error)))??;
        Ok(Arc::clone(self.opened.get_or_init(|| copies)))
    }

    fn not_open(&self, source: io::Error) -> StoreError {
        StoreError::Disk {
            path: self.path.display().to_string(),
            step: "open it",
            cure: "see the log",
            source: Arc::new(source.into()),
        }
    }
}

async fn open_copies(path: &Path, options: SqliteOptions) -> Result<Arc<dyn Store>, StoreError> {
    let opened = SqliteStore::open_or_begin_anew(path, options).await?;
    if let Some(damaged) = opened.set_aside {
        warn!(
            damaged = %damaged.display(),
            "database of MetaServer's copies damaged and set aside; copies are fetched again on demand"
        );
    }
    let copies: Arc<dyn Store> = opened.store;
    metamanager::remove_damaged_copies(&copies).await?;
    Ok(copies)
}

#[async_trait]
impl Store for LateStore {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.store().await?.get(key).await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        self.store().await?.list(scope, page).await
    }

    async fn damaged_uid(&self, key: &Key) -> Result<Option<String>, StoreError> {
        self.store().await?.damaged_uid(key).await
    }

    fn damaged_objects(&self) -> Damaged {
        self.opened
            .get()
            .map(|store| store.damaged_objects())
            .unwrap_or_default()
    }

    async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        self.store().await?.sizes().await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Object>, StoreError> {
        self.store().await?.commit(writes).await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.store().await?.check().await
    }

    fn is_full(&self) -> bool {
        self.opened.get().is_some_and(|store| store.is_full())
    }

    async fn closed(&self) {
        match self.opened.get() {
            Some(store) => store.closed().await,
            None => std::future::pending().await,
        }
    }

    fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError> {
        let not_open = || self.not_open(io::ErrorKind::NotConnected.into());
        self.opened.get().ok_or_else(not_open)?.watch(scope, after)
    }

    fn revision(&self) -> u64 {
        self.opened
            .get()
            .map_or(FIRST_REVISION, |store| store.revision())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn store_that_cannot_be_opened_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("missing");
        let store = LateStore::open(folder.join("metaserver.db"), SqliteOptions::default()).await;
        let key = Key::new(Resource::new("", "pods"), "default", "a");
        assert!(matches!(
            Store::get(&*store, &key).await,
            Err(StoreError::Disk { .. })
        ));
        let scope = Scope {
            resource: Resource::new("", "pods"),
            namespace: None,
        };
        assert!(store.watch(scope.clone(), 1).is_err());
        std::fs::create_dir(folder).unwrap();
        let write = Write {
            key: key.clone(),
            expect: objectstore::Expect::Absent,
            value: Some(json!({"metadata": {}})),
        };
        store.commit(vec![write]).await.unwrap();
        assert!(Store::get(&*store, &key).await.unwrap().is_some());
        assert!(store.watch(scope, store.revision()).is_ok());
    }
}
