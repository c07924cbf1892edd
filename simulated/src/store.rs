//! A store in memory whose commits take time, before and after they take effect: a caller that is cut off in a commit does not know
//! whether it took effect.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use objectstore::{
    Key, Listing, LogLimits, MemoryStore, Object, Page, Resource, Scope, Store, StoreError, Watch,
    Write,
};
use parking_lot::Mutex;
use testkit::Random;
use tokio::time::sleep;

/// How far watchers may lag behind: so little that some of them fall behind and list again.
const LOG: LogLimits = LogLimits::new(200, 1 << 18);

/// A store with slow commits.
#[derive(Debug)]
pub(crate) struct Slow {
    inner: Arc<MemoryStore>,
    chance: Mutex<Random>,
    /// How long each half of a commit may take, in microseconds; 0 for no delay.
    longest: u64,
}

impl Slow {
    pub(crate) fn new(chance: Random, longest: Duration) -> Arc<Self> {
        let longest = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        Arc::new(Self {
            inner: MemoryStore::with_log(LOG),
            chance: Mutex::new(chance),
            longest,
        })
    }

    /// Returns the inner store, to be read without delay.
    pub(crate) fn inner(&self) -> &Arc<MemoryStore> {
        &self.inner
    }

    async fn pause(&self) {
        if self.longest > 0 {
            let pause = self.chance.lock().below(self.longest);
            sleep(Duration::from_micros(pause)).await;
        }
    }
}

#[async_trait]
impl Store for Slow {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.inner.get(key).await
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        self.inner.list(scope, page).await
    }

    async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        self.inner.sizes().await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Object>, StoreError> {
        self.pause().await;
        let written = self.inner.commit(writes).await?;
        self.pause().await;
        Ok(written)
    }

    fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError> {
        self.inner.watch(scope, after)
    }

    fn revision(&self) -> u64 {
        self.inner.revision()
    }
}
