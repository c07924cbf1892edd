//! The database file: EdgeCore's tables, written to a temporary file that then replaces the old one.

use std::{
    io::{Error, ErrorKind},
    path::{Path, PathBuf},
};

use serde_json::Value;
use sqlx::{
    ConnectOptions, Connection, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode},
};
use tokio::fs;

use super::{
    ExportError,
    rows::{Row, Rows, Table},
};

/// The files that SQLite keeps beside a database.
const SIDE_FILES: [&str; 3] = ["-journal", "-wal", "-shm"];

/// Writes the rows to a new file that replaces the one at `path`.
pub(super) async fn write(rows: &Rows, path: &Path) -> Result<(), ExportError> {
    let failed = |source| ExportError::File {
        path: path.display().to_string(),
        source,
    };
    let broken = |source| ExportError::Database {
        path: path.display().to_string(),
        source,
    };
    let new = with_suffix(path, ".new");
    remove_with_side_files(&new).await.map_err(failed)?;
    // the file holds Secrets
    let made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .await;
    made.map_err(failed)?;
    let done = fill(&new, &rows.rows).await.map_err(broken);
    let done = match done {
        Ok(()) => replace_file(&new, path).await.map_err(failed),
        Err(error) => Err(error),
    };
    if done.is_err() {
        let _ = remove_with_side_files(&new).await;
    }
    done
}

async fn fill(new: &Path, rows: &[Row]) -> Result<(), sqlx::Error> {
    // as EdgeCore has it: one file, and a journal only during a write
    let options = SqliteConnectOptions::new()
        .filename(new)
        .journal_mode(SqliteJournalMode::Delete);
    let mut connection = options.disable_statement_logging().connect().await?;
    let mut transaction = connection.begin().await?;
    for table in Table::ALL {
        sqlx::raw_sql(table.schema())
            .execute(&mut *transaction)
            .await?;
    }
    for row in rows {
        insert(&mut transaction, row).await?;
    }
    transaction.commit().await?;
    connection.close().await
}

async fn insert(connection: &mut SqliteConnection, row: &Row) -> Result<(), sqlx::Error> {
    let mut query = sqlx::query(row.table.insert());
    for value in &row.values {
        query = match value {
            Value::Null => query.bind(None::<String>),
            Value::Bool(value) => query.bind(i64::from(*value)),
            Value::Number(number) => query.bind(number.as_i64().unwrap_or_default()),
            Value::String(text) => query.bind(text.as_str()),
            other => query.bind(other.to_string()),
        };
    }
    query.execute(connection).await.map(drop)
}

/// Replaces the old file with the new one. A journal that a killed EdgeCore left beside the old file would be played back into
/// the new one, so it is first played back into the old one.
async fn replace_file(new: &Path, path: &Path) -> Result<(), Error> {
    fs::File::open(new).await?.sync_all().await?;
    if fs::try_exists(path).await? {
        replay_journal(path).await;
    }
    for suffix in SIDE_FILES {
        remove_file(&with_suffix(path, suffix)).await?;
    }
    fs::rename(new, path).await?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    fs::File::open(folder).await?.sync_all().await
}

/// Plays the journal of the old file back. A file that is no database any more has nothing to play back.
async fn replay_journal(path: &Path) {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Delete);
    if let Ok(mut connection) = options.disable_statement_logging().connect().await {
        let _ = sqlx::raw_sql("SELECT count(*) FROM sqlite_master")
            .execute(&mut connection)
            .await;
        let _ = connection.close().await;
    }
}

async fn remove_with_side_files(new: &Path) -> Result<(), Error> {
    for suffix in SIDE_FILES {
        remove_file(&with_suffix(new, suffix)).await?;
    }
    remove_file(new).await
}

async fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
