//! Opening the file: permissions, connections, schema, health.

use std::{path::Path, time::Duration};

use sqlx::{
    ConnectOptions, SqliteConnection, SqlitePool,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::fs::OpenOptions;

static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// How long a connection waits for a lock. Only a foreign process (a backup, a curious `sqlite3`) ever holds one for long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads that run at the same time. Each connection is a thread and a cache; the rest of the readers queue.
const READERS: u32 = 2;

/// Page caches in KiB, as SQLite's negative `cache_size`: small, since the system's file cache stands behind them.
const WRITER_CACHE: &str = "-2048";
const READER_CACHE: &str = "-512";

/// An open database.
pub(super) struct Opened {
    pub(super) writer: SqliteConnection,
    pub(super) readers: SqlitePool,
    /// The newest revision.
    pub(super) revision: u64,
}

/// Opens or creates the database; an error says at which step.
pub(super) async fn open(path: &Path) -> Result<Opened, (&'static str, sqlx::Error)> {
    create_private(path).await.map_err(|error| ("open or create the file", sqlx::Error::Io(error)))?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .pragma("mmap_size", "0")
        .disable_statement_logging();

    let writing = options.clone().pragma("cache_size", WRITER_CACHE);
    let mut writer = writing.connect().await.map_err(|error| ("open the database", error))?;
    check(&mut writer).await.map_err(|error| ("check the database", error))?;
    let migrated = MIGRATOR.run(&mut writer).await;
    migrated.map_err(|error| ("prepare the tables", flatten(error)))?;
    let revision = revision(&mut writer).await.map_err(|error| ("read the revision", error))?;

    let reading = options.pragma("cache_size", READER_CACHE).pragma("query_only", "1");
    let pool =
        SqlitePoolOptions::new().max_connections(READERS).max_lifetime(None).test_before_acquire(false);
    Ok(Opened { writer, readers: pool.connect_lazy_with(reading), revision })
}

/// The counter as this connection sees it.
pub(super) async fn revision(connection: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    let revision: i64 = sqlx::query_scalar("SELECT revision FROM counter").fetch_one(connection).await?;
    Ok(revision.cast_unsigned())
}

/// Makes sure that the file exists and can be written; SQLite gives its side files the same permissions.
async fn create_private(path: &Path) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path).await.map(drop)
}

/// A file torn by the disk is found here rather than in the middle of the work.
async fn check(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let verdict: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(connection).await?;
    if verdict == "ok" { Ok(()) } else { Err(sqlx::Error::Protocol(verdict)) }
}

/// A migration that failed on the disk is a failure of the disk.
fn flatten(error: sqlx::migrate::MigrateError) -> sqlx::Error {
    match error {
        sqlx::migrate::MigrateError::Execute(error) => error,
        error => sqlx::Error::Migrate(Box::new(error)),
    }
}
