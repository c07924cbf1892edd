//! A small pool of reading connections. sqlx's own pool pings each connection when it is returned: one more round trip to its thread
//! for each object that is read.

use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use sqlx::{ConnectOptions, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::JoinSet,
};

/// The most reads that run at the same time. Each connection has a thread and a cache; further readers wait.
const CONCURRENT_READS: usize = 2;

/// The settings of reading connections. Page caches (in KiB as negative numbers) are small, since the system caches the file; temporary
/// files are avoided, since Secrets would be written to them.
const READER_PRAGMAS: &str = "PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -128; PRAGMA query_only = 1";

/// The pool; connections are opened on demand.
#[derive(Debug)]
pub(super) struct Readers {
    options: SqliteConnectOptions,
    idle: Mutex<Vec<SqliteConnection>>,
    permits: Semaphore,
}

/// A borrowed connection. It is closed unless it is [given back](Self::give_back), so that a failed or cancelled one is not used again.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    /// The connection.
    pub(super) connection: SqliteConnection,
    home: &'a Readers,
    _turn: SemaphorePermit<'a>,
}

impl Readers {
    /// Makes a pool for the file that `options` name.
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        Self {
            options,
            idle: Mutex::default(),
            permits: Semaphore::new(CONCURRENT_READS),
        }
    }

    /// Reads with one of the connections, in a task of its own: a caller that is not polled for a while, as another branch of a `select!`,
    /// keeps no connection from others. Cancel-safe: the read ends with the caller.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&mut SqliteConnection) -> BoxFuture<'_, Result<T, sqlx::Error>>
        + Send
        + 'static,
    ) -> Result<T, sqlx::Error> {
        let readers = Arc::clone(self);
        // it aborts its task when it is dropped
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut reader = readers.lend().await?;
            let found = read(&mut reader.connection).await?;
            reader.give_back();
            Ok(found)
        });
        let read = task.join_next().await;
        read.and_then(Result::ok)
            .unwrap_or(Err(sqlx::Error::WorkerCrashed))
    }

    /// Waits for a connection.
    pub(super) async fn lend(&self) -> Result<Reader<'_>, sqlx::Error> {
        let turn = self
            .permits
            .acquire()
            .await
            .map_err(|_| sqlx::Error::PoolClosed)?;
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let mut connection = self.options.connect().await?;
                sqlx::raw_sql(READER_PRAGMAS)
                    .execute(&mut connection)
                    .await?;
                connection
            }
        };
        Ok(Reader {
            connection,
            home: self,
            _turn: turn,
        })
    }
}

impl Reader<'_> {
    /// Returns the connection to the pool; no statement may be in progress on it.
    pub(super) fn give_back(self) {
        self.home.idle.lock().push(self.connection);
    }
}
