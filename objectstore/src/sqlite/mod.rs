//! The store in a SQLite file: what [`Store::commit`] returned from survives a power cut.
//!
//! One task owns the only writing connection ([`writer`]); reads use a few connections of their own and, in WAL mode, never wait for
//! it. Recently written objects are cached ([`recent`]); a write by another process is noticed with the next commit. The file may hold
//! Secrets, so only its owner may read it.

mod amend;
mod aside;
mod checksum;
pub(crate) mod fault;
mod header;
mod identity;
mod inspect;
mod open;
mod read;
mod readers;
mod recent;
mod repair;
mod reserve;
pub(super) mod result_code;
mod seal;
mod sealing;
mod statements;
mod trim;
mod verify;
mod writer;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

pub use self::{
    amend::{LostObject, RepairHook},
    inspect::{Health, Inspection},
    repair::RepairReport,
    reserve::SUFFIX as RESERVE_SUFFIX,
    seal::{Seal, SealError},
};
use self::{
    fault::ErrorContext,
    read::DamagedObject,
    readers::Readers,
    recent::RecentObjects,
    reserve::Reserve,
    result_code::{is_damage, is_full},
    writer::{Job, Shared, Writer},
};
use super::{
    Damaged, Expect, Key, Listing, LogLimits, Object, Page, Resource, Scope, Store, StoreError,
    Watch, Write, damage::DamagedObjectsTracker, log::Log,
};

/// The most commits that are queued for the writer. More than a few groups would only hide that the disk cannot keep up; further
/// callers wait for room.
const COMMIT_QUEUE_CAPACITY: usize = 256;

/// Options for opening a file.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// How many events are kept for watchers.
    pub log: LogLimits,
    /// The encryption on the disk; `None` for none.
    pub seal: Option<Seal>,
    /// Bytes that are held beside the file for the time when the disk is full: objects can then still be deleted, and the file opened. 0
    /// for none.
    pub reserve: usize,
}

impl Default for SqliteOptions {
    /// Options for an edge node, without encryption.
    fn default() -> Self {
        Self {
            log: LogLimits::EDGE,
            seal: None,
            reserve: 0,
        }
    }
}

/// A store in a SQLite file.
pub struct SqliteStore {
    fault: ErrorContext,
    readers: Arc<Readers>,
    seal: Option<Seal>,
    jobs: mpsc::Sender<Job>,
    log: Arc<Log>,
    recent: Arc<RecentObjects>,
    damaged: Arc<DamagedObjectsTracker>,
    /// Whether the reserve is used up.
    is_full: Arc<AtomicBool>,
}

/// The result of opening a file; an error names the failed step.
type OpenResult = Result<open::Opened, (&'static str, sqlx::Error)>;

/// A store that was opened although its file may have been damaged.
#[derive(Debug)]
pub struct Recovered {
    /// The store; empty where the file was damaged.
    pub store: Arc<SqliteStore>,
    /// Where the damaged file is now.
    pub set_aside: Option<PathBuf>,
    /// Whether there are other files that were set aside earlier.
    pub was_damaged_before: bool,
}

impl SqliteStore {
    /// Opens or creates the file at `path`, whose folder must exist, and starts its writer on the current tokio runtime.
    pub async fn open(path: &Path) -> Result<Arc<Self>, StoreError> {
        Self::open_with(path, SqliteOptions::default()).await
    }

    /// Opens a file as [`SqliteStore::open`] does, with options.
    pub async fn open_with(path: &Path, options: SqliteOptions) -> Result<Arc<Self>, StoreError> {
        let (opened, reserve) = Self::open_with_reserve(path, &options).await;
        let opened = opened.map_err(|(step, source)| ErrorContext::of(path).at(step, source))?;
        Ok(Self::start(path, opened, reserve, options))
    }

    /// Opens a file as [`SqliteStore::open_with`] does, but renames a damaged or foreign file to `<file>.damaged-<time>` and begins a
    /// new one.
    ///
    /// # Errors
    /// The disk fails, the file is of a newer version, or it was sealed with a key that is not given: a new file would not help, or
    /// lose what can still be saved.
    pub async fn open_or_begin_anew(
        path: &Path,
        options: SqliteOptions,
    ) -> Result<Recovered, StoreError> {
        let fault = ErrorContext::of(path);
        let failed = |error| fault.at("look for damaged files beside it", sqlx::Error::Io(error));
        let was_damaged_before = !aside::earlier(path, aside::DAMAGED)
            .await
            .map_err(failed)?
            .is_empty();
        let ((opened, reserve), set_aside) = match Self::open_with_reserve(path, &options).await {
            (Err((_, error)), _) if is_damage(&error) => {
                let set_aside = aside::set_aside(path, aside::DAMAGED, clock::now()).await;
                let set_aside = set_aside.map_err(|error| {
                    fault.at("move the damaged file away", sqlx::Error::Io(error))
                })?;
                (
                    Self::open_with_reserve(path, &options).await,
                    Some(set_aside),
                )
            }
            opened => (opened, None),
        };
        let opened = opened.map_err(|(step, source)| fault.at(step, source))?;
        let store = Self::start(path, opened, reserve, options);
        Ok(Recovered {
            store,
            set_aside,
            was_damaged_before,
        })
    }

    /// Opens the file, if need be with the space of its reserve.
    async fn open_with_reserve(path: &Path, options: &SqliteOptions) -> (OpenResult, Reserve) {
        let mut reserve = Reserve::of(path, options.reserve);
        let opened = match open::open(path, options.seal.as_ref()).await {
            Err((_, error)) if is_full(&error) && reserve.release().await => {
                open::open(path, options.seal.as_ref()).await
            }
            opened => opened,
        };
        if opened.is_ok() {
            reserve.fill().await;
        }
        (opened, reserve)
    }

    /// Renames the file at `path`, which no process may have open, to `<file>.<word>-<time>`; returns the new name. The newest three
    /// with the same word are kept.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub async fn set_aside(path: &Path, word: &str) -> Result<PathBuf, StoreError> {
        let aside = aside::set_aside(path, word, clock::now()).await;
        aside.map_err(|error| {
            ErrorContext::of(path).at("move the file away", sqlx::Error::Io(error))
        })
    }

    fn start(
        path: &Path,
        opened: open::Opened,
        reserve: Reserve,
        options: SqliteOptions,
    ) -> Arc<Self> {
        let SqliteOptions {
            log,
            seal,
            reserve: _,
        } = options;
        let fault = ErrorContext::of(path);
        let log = Arc::new(Log::new(opened.revision, log));
        let (jobs, inbox) = mpsc::channel(COMMIT_QUEUE_CAPACITY);
        let recent = Arc::new(RecentObjects::new(log.limits()));
        let damaged = Arc::new(DamagedObjectsTracker::default());
        for DamagedObject { key, damage, .. } in &opened.damaged {
            damaged.record(key, damage);
        }
        let is_full = Arc::new(AtomicBool::new(reserve.is_released()));
        let shared = Shared {
            log: log.clone(),
            recent: recent.clone(),
            damaged: damaged.clone(),
            is_full: is_full.clone(),
        };
        let writer = Writer::new(opened.writer, seal.clone(), shared, reserve, fault.clone());
        // Ends by itself: when the store is dropped, the channel closes behind the last commit.
        tokio::spawn(writer.run(inbox).in_current_span());
        Arc::new(Self {
            fault,
            readers: Arc::new(opened.readers),
            seal,
            jobs,
            log,
            recent,
            damaged,
            is_full,
        })
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        if let Some(object) = self.recent.get(key) {
            self.damaged.clear(key);
            self.log.wait_published(object.revision).await;
            return Ok(Some(object));
        }
        let (seal, wanted) = (self.seal.clone(), key.clone());
        let read = self.readers.read(move |connection| {
            Box::pin(async move { read::get(connection, seal.as_ref(), &wanted).await })
        });
        let read = read
            .await
            .map_err(|source| self.fault.at("read an object", source))?;
        match read {
            Some(Err(DamagedObject { key, damage, .. })) => {
                self.damaged.record(&key, &damage);
                Err(StoreError::Damaged {
                    key,
                    source: damage,
                })
            }
            Some(Ok(object)) => {
                // somebody may have listed it just before it was written anew
                self.damaged.clear(key);
                self.log.wait_published(object.revision).await;
                Ok(Some(object))
            }
            None => Ok(None),
        }
    }

    async fn damaged_value(&self, key: &Key) -> Result<Option<Value>, StoreError> {
        let key = key.clone();
        let read = self.readers.read(move |connection| {
            Box::pin(async move { read::damaged_value(connection, &key).await })
        });
        read.await
            .map_err(|source| self.fault.at("read an object", source))
    }

    fn damaged_objects(&self) -> Damaged {
        self.damaged.watch()
    }

    async fn list(&self, scope: &Scope, page: &Page) -> Result<Listing, StoreError> {
        let (seal, scope, page) = (self.seal.clone(), scope.clone(), page.clone());
        let read = self.readers.read(move |connection| {
            Box::pin(async move { read::list(connection, seal.as_ref(), &scope, &page).await })
        });
        let listed = read
            .await
            .map_err(|source| self.fault.at("list objects", source));
        let (listing, damaged) = listed?;
        for DamagedObject { key, damage, .. } in &damaged {
            self.damaged.record(key, damage);
        }
        self.log.wait_published(listing.revision).await;
        Ok(listing)
    }

    async fn sizes(&self) -> Result<Vec<(Resource, u64)>, StoreError> {
        let read = self
            .readers
            .read(|connection| Box::pin(read::sizes(connection)));
        read.await
            .map_err(|source| self.fault.at("measure the collections", source))
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Vec<Object>, StoreError> {
        let (answer, answered) = oneshot::channel();
        let stopped = |_| {
            self.fault
                .at("reach the store's writer", sqlx::Error::PoolClosed)
        };
        self.jobs
            .send(Job { writes, answer })
            .await
            .map_err(|_| stopped(()))?;
        answered.await.map_err(|_| stopped(()))?
    }

    /// Writes a small object of its own, since a full disk still serves reads.
    async fn check(&self) -> Result<(), StoreError> {
        let key = Key::new(Resource::new("store.outrigger.dev", "checks"), "", "check");
        let value = Some(serde_json::json!({"metadata": {"name": "check"}}));
        self.commit(vec![Write {
            key,
            expect: Expect::Anything,
            value,
        }])
        .await?;
        if self.is_full() {
            Err(self.fault.full())
        } else {
            Ok(())
        }
    }

    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    async fn closed(&self) {
        self.jobs.closed().await;
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
