//! The store in a SQLite file: what [`Store::commit`] returned from survives a power cut.
//!
//! One task owns the only writing connection ([`writer`]); reads go through a small pool of their own and, in WAL mode, never
//! wait for it. The file may hold Secrets, so it is created for its owner's eyes only.

mod fault;
mod open;
mod read;
mod writer;

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use sqlx::SqlitePool;
use tokio::sync::{mpsc, oneshot};

use self::{
    fault::Fault,
    writer::{Job, Writer},
};
use super::{Key, Listing, LogLimits, Object, Page, Scope, Store, StoreError, Watch, Write, log::Log};

/// Commits that wait for the writer. More than one group's worth would only hide that the disk cannot keep up; whoever comes
/// then waits for room.
const QUEUE: usize = 256;

/// Objects in a SQLite file.
pub struct SqliteStore {
    fault: Fault,
    readers: SqlitePool,
    jobs: mpsc::Sender<Job>,
    log: Arc<Log>,
}

impl SqliteStore {
    /// Opens or creates the file at `path`, whose folder must exist, and starts its writer on the current tokio runtime.
    pub async fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        Self::open_with(path, LogLimits::EDGE).await
    }

    /// As [`SqliteStore::open`], keeping so much of the past for watchers.
    pub async fn open_with(path: &Path, limits: LogLimits) -> Result<Arc<Self>, StoreError> {
        let fault = Fault::of(path);
        let opened = open::open(path).await.map_err(|(step, source)| fault.at(step, source))?;
        let log = Arc::new(Log::new(opened.revision, limits));
        let (jobs, inbox) = mpsc::channel(QUEUE);
        let writer = Writer::new(opened.writer, log.clone(), fault.clone());
        // Ends by itself: when the store is dropped, the channel closes behind the last commit.
        tokio::spawn(writer.run(inbox));
        Ok(Arc::new(Self { fault, readers: opened.readers, jobs, log }))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        read::get(&self.readers, key).await.map_err(|source| self.fault.at("read an object", source))
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        read::list(&self.readers, scope, page).await.map_err(|source| self.fault.at("list objects", source))
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Object>, StoreError> {
        let (answer, answered) = oneshot::channel();
        let stopped = |_| self.fault.at("reach the store's writer", sqlx::Error::PoolClosed);
        self.jobs.send(Job { writes, answer }).await.map_err(|_| stopped(()))?;
        answered.await.map_err(|_| stopped(()))?
    }

    fn watch(&self, scope: Scope, after: u64) -> Result<Watch, StoreError> {
        Watch::open(self.log.clone(), scope, after)
    }

    fn revision(&self) -> u64 {
        self.log.head()
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.fault)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
