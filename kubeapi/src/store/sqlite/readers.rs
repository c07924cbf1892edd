//! The connections that read: a few, each lent to one reader at a time. Not sqlx's own pool, which asks each connection for a sign
//! of life when it comes back: one more way to its thread for every object that is read.

use parking_lot::Mutex;
use sqlx::{ConnectOptions, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Reads that run at the same time. Each connection is a thread and a cache; the rest of the readers queue.
const CONCURRENT_READS: usize = 2;

/// How they work. Page caches, in KiB as negative numbers, are small, since the system's file cache stands behind them; a temporary
/// file would be another place where Secrets lie.
const READING: &str =
    "PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -128; PRAGMA query_only = 1";

/// All of them; they are made when they are needed.
#[derive(Debug)]
pub(super) struct Readers {
    options: SqliteConnectOptions,
    idle: Mutex<Vec<SqliteConnection>>,
    turns: Semaphore,
}

/// One, lent. It is closed where it is not [given back](Self::give_back): what failed, or was given up in the middle, is not used
/// again.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    /// The connection.
    pub(super) connection: SqliteConnection,
    home: &'a Readers,
    _turn: SemaphorePermit<'a>,
}

impl Readers {
    /// Connections to the file that these open.
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        Self { options, idle: Mutex::default(), turns: Semaphore::new(CONCURRENT_READS) }
    }

    /// Waits for one.
    pub(super) async fn lend(&self) -> Result<Reader<'_>, sqlx::Error> {
        let turn = self.turns.acquire().await.map_err(|_| sqlx::Error::PoolClosed)?;
        let idle = self.idle.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let mut connection = self.options.connect().await?;
                sqlx::raw_sql(READING).execute(&mut connection).await?;
                connection
            }
        };
        Ok(Reader { connection, home: self, _turn: turn })
    }
}

impl Reader<'_> {
    /// Nothing is under way on it any more.
    pub(super) fn give_back(self) {
        self.home.idle.lock().push(self.connection);
    }
}
