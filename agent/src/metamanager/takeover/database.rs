//! Reads EdgeCore's database without changing it.
//!
//! A cleanly closed file is read in place, without locks. A file whose writer was killed has a journal or a write-ahead log
//! beside it that must be played back first: that is done on a copy.
//!
//! Source: SQLite, "URI filenames" (`immutable`), "Temporary files used by SQLite" (names of journals).

use std::{
    io,
    path::{Path, PathBuf},
};

use futures::{Stream, TryStreamExt};
use sqlx::{ConnectOptions, Row as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::fs;

/// The longest value that is read, bytes: the API of Kubernetes takes objects of 3 MiB at most.
const MAX_VALUE: i64 = 4 << 20;

/// The file name of the copy, beside the agent's own database.
const COPY_NAME: &str = "edgecore.copy";

/// The tables; `query` has the query for key, type and value of each.
pub(super) const META: &str = "meta";
pub(super) const META_V2: &str = "meta_v2";
/// The tables of other modules, whose rows are stored unchanged.
pub(super) const OTHER_TABLES: [&str; 5] = [
    "device",
    "device_attr",
    "device_twin",
    "sub_topics",
    "target_urls",
];

/// A row as text: key, type and value.
pub(super) type TextRow = (String, String, String);

/// An open database of EdgeCore.
pub(super) struct Database {
    connection: SqliteConnection,
    copy: Option<PathBuf>,
}

impl Database {
    /// Opens the file at `path`; a copy is made in `scratch` if needed.
    pub(super) async fn open(path: &Path, scratch: &Path) -> Result<Self, sqlx::Error> {
        let mut at_rest = true;
        for suffix in ["-journal", "-wal"] {
            at_rest &= fs::metadata(beside(path, suffix))
                .await
                .map_or(true, |file| file.len() == 0);
        }
        if at_rest {
            let options = SqliteConnectOptions::new()
                .filename(path)
                .read_only(true)
                .immutable(true);
            return Ok(Self {
                connection: connect(options).await?,
                copy: None,
            });
        }
        let copy = scratch.join(COPY_NAME);
        copy_with_journals(path, &copy).await?;
        let connection = connect(SqliteConnectOptions::new().filename(&copy)).await;
        if connection.is_err() {
            remove(&copy).await;
        }
        Ok(Self {
            connection: connection?,
            copy: Some(copy),
        })
    }

    /// Reports whether the table exists: EdgeCore creates the tables of enabled modules only.
    pub(super) async fn has(&mut self, table: &str) -> Result<bool, sqlx::Error> {
        let query = sqlx::query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1");
        Ok(query
            .bind(table)
            .fetch_optional(&mut self.connection)
            .await?
            .is_some())
    }

    /// Returns the rows of a table as a stream; invalid UTF-8 is replaced.
    pub(super) fn rows(
        &mut self,
        table: &str,
    ) -> impl Stream<Item = Result<TextRow, sqlx::Error>> + Send {
        let query = sqlx::query(query(table)).bind(MAX_VALUE);
        query.fetch(&mut self.connection).and_then(async |row| {
            let text = |column: usize| -> Result<String, sqlx::Error> {
                let bytes: Option<Vec<u8>> = row.try_get(column)?;
                Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
            };
            Ok((text(0)?, text(1)?, text(2)?))
        })
    }

    /// Closes the database and removes the copy.
    pub(super) async fn close(self) {
        // the connection writes nothing, so an error loses nothing
        let _ = sqlx::Connection::close(self.connection).await;
        if let Some(copy) = self.copy {
            remove(&copy).await;
        }
    }
}

async fn connect(options: SqliteConnectOptions) -> Result<SqliteConnection, sqlx::Error> {
    options
        .pragma("mmap_size", "0")
        .disable_statement_logging()
        .connect()
        .await
}

fn query(table: &str) -> &'static str {
    match table {
        META => {
            "SELECT CAST(key AS BLOB), CAST(type AS BLOB), CAST(value AS BLOB) FROM meta \
             WHERE length(value) <= ?1 ORDER BY type = 'podpatch', key"
        }
        META_V2 => {
            "SELECT CAST(key AS BLOB), x'', CAST(value AS BLOB) FROM meta_v2 \
             WHERE length(value) <= ?1 ORDER BY key"
        }
        "device" => {
            "SELECT CAST(id AS BLOB), x'', CAST(json_object('id', id, 'name', name, 'description', description, \
             'state', state, 'last_online', last_online) AS BLOB) FROM device WHERE length(id) <= ?1"
        }
        "device_attr" => {
            "SELECT CAST(id AS BLOB), x'', CAST(json_object('deviceid', deviceid, 'name', name, 'description', \
             description, 'value', value, 'optional', optional, 'attr_type', attr_type, 'metadata', metadata) \
             AS BLOB) FROM device_attr WHERE length(value) <= ?1"
        }
        "device_twin" => {
            "SELECT CAST(id AS BLOB), x'', CAST(json_object('deviceid', deviceid, 'name', name, 'description', \
             description, 'expected', expected, 'actual', actual, 'expected_meta', expected_meta, 'actual_meta', \
             actual_meta, 'expected_version', expected_version, 'actual_version', actual_version, 'optional', \
             optional, 'attr_type', attr_type, 'metadata', metadata) AS BLOB) FROM device_twin \
             WHERE ifnull(length(expected), 0) + ifnull(length(actual), 0) <= ?1"
        }
        "sub_topics" => {
            "SELECT CAST(topic AS BLOB), x'', x'7b7d' FROM sub_topics WHERE length(topic) <= ?1"
        }
        _ => "SELECT CAST(url AS BLOB), x'', x'7b7d' FROM target_urls WHERE length(url) <= ?1",
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

async fn copy_with_journals(path: &Path, copy: &Path) -> io::Result<()> {
    remove(copy).await;
    for suffix in ["", "-journal", "-wal"] {
        let (from, to) = (beside(path, suffix), beside(copy, suffix));
        let mut options = fs::OpenOptions::new();
        // the file holds Secrets
        let mut target = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to)
            .await?;
        match fs::File::open(&from).await {
            Ok(mut source) => tokio::io::copy(&mut source, &mut target).await.map(drop)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !suffix.is_empty() => {
                fs::remove_file(&to).await?;
            }
            Err(error) => return Err(error),
        }
        // a file of tokio may still be writing when it is dropped
        target.sync_all().await?;
    }
    Ok(())
}

async fn remove(copy: &Path) {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(beside(copy, suffix)).await;
    }
}
