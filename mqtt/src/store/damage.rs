//! Handles damaged files: the file is set aside and the broker begins with an empty one; clients subscribe and publish retained messages
//! again. A single unreadable row is skipped, and the others are read.

use std::{
    io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use tokio::{fs, io::AsyncReadExt};
use tracing::warn;

/// The suffixes of the files in the order in which they are moved: SQLite ignores a log without its file.
const PARTS: [&str; 3] = ["", "-wal", "-shm"];
/// The size of the header up to its format versions, bytes.
const HEAD: usize = 20;
/// The tables of this broker.
const TABLES: [&str; 5] = ["session", "subscription", "queued", "incoming", "retained"];

/// Reports whether the file itself is damaged, so that only another file helps.
///
/// Source: SQLite, "Result and Error Codes".
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    let code = || error.as_database_error()?.code()?.parse::<u32>().ok();
    match error {
        sqlx::Error::Database(_) => match code().unwrap_or_default() {
            // SQLITE_ERROR (the statements never change, so the tables must be wrong), SQLITE_CORRUPT, SQLITE_FORMAT, SQLITE_NOTADB
            code if matches!(code & 0xff, 1 | 11 | 24 | 26) => true,
            // SQLITE_CANTOPEN_DIRTYWAL, SQLITE_IOERR_SHORT_READ, SQLITE_IOERR_DATA, SQLITE_IOERR_CORRUPTFS
            code => matches!(code, 1294 | 522 | 8202 | 8458),
        },
        // failures of our own checks
        sqlx::Error::Protocol(_) | sqlx::Error::RowNotFound => true,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::ColumnNotFound(_) => true,
        _ => false,
    }
}

/// Reports whether an invalid version in the file's header would make SQLite open it read-only.
pub(super) async fn has_bad_header(path: &Path) -> bool {
    let mut bytes = Vec::with_capacity(HEAD);
    if let Ok(file) = fs::File::open(path).await {
        // a file that cannot be read is not judged
        let _ = file.take(HEAD as u64).read_to_end(&mut bytes).await;
    }
    !bytes.is_empty()
        && bytes
            .get(18..20)
            .is_none_or(|versions| versions.iter().any(|it| !(1..=2).contains(it)))
}

/// Returns a table that does not belong to this broker, if there is one.
pub(super) fn foreign(names: &[String]) -> Option<&String> {
    names
        .iter()
        .find(|name| !TABLES.contains(&name.as_str()) && !name.starts_with("sqlite_"))
}

/// Renames the file and returns its new name. Files that were set aside earlier are removed, so that they do not fill the disk.
pub(super) async fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let prefix = format!("{name}.damaged-");
    let mut entries = fs::read_dir(directory).await?;
    while let Some(entry) = entries.next_entry().await? {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            // failing to remove one does not prevent a new start
            let _ = fs::remove_file(entry.path()).await;
        }
    }
    let now = clock::system_now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let aside = directory.join(format!("{prefix}{}", now.as_micros()));
    for part in PARTS {
        let with = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(part);
            PathBuf::from(name)
        };
        match fs::rename(with(path), with(&aside)).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::File::open(directory).await?.sync_all().await?;
    Ok(aside)
}

/// Returns a row's content; `None` if it cannot be read.
pub(super) fn readable<T>(table: &str, row: Result<T, sqlx::Error>) -> Option<T> {
    row.inspect_err(
        |error| warn!(table, %error, "failed to read a row of the MQTT session database; row skipped"),
    )
    .ok()
}
