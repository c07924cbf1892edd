//! Writing a damaged file anew with all that can be read of it. The file itself is set aside, so that nothing of it is lost for whoever
//! looks into it; a power cut at any moment leaves the one, or the other, or both.

use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use jiff::Timestamp;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::fs;

use super::{
    SqliteStore, aside,
    checksum::checksum,
    fault::{Fault, is_damage},
    inspect::{Inspection, columns, key},
    open,
    read::{Unreadable, object},
    seal::Seal,
    sealing::closed,
};
use crate::store::{Key, Object, StoreError};

/// The new file, until it is whole.
const NEW: &str = ".repairing";
/// What was given out since the counter was last written is not known: the next revision is beyond it.
const FAR: u64 = 1 << 20;

/// What a repair has done.
#[derive(Debug)]
pub struct Repaired {
    /// Where the damaged file is now.
    pub set_aside: PathBuf,
    /// Objects that are in the new one.
    pub kept: u64,
    /// Objects that are not, each with what was wrong with it.
    pub lost: Vec<(Key, String)>,
    /// Whether pages could not be read, so that there may have been others.
    pub is_torn: bool,
}

impl SqliteStore {
    /// Writes the file at `path`, which nobody has open, anew with all that can be read of it. `None`: it is whole, and nothing was done.
    ///
    /// # Errors
    /// The disk fails, there is no such file, or what was sealed cannot be opened with the keys given: nothing is lost then.
    pub async fn repair(path: &Path, seal: Option<&Seal>) -> Result<Option<Repaired>, StoreError> {
        let fault = Fault::of(path);
        let failed = |step| {
            let fault = fault.clone();
            move |error| fault.at(step, sqlx::Error::Io(error))
        };
        let (new, cut) = (aside::with(path, NEW), aside::is_cut_to_nothing(path).await);
        if !cut && is_whole(path, seal).await? {
            return Ok(None);
        }
        remove(&new).await.map_err(failed("remove what an earlier repair has left"))?;
        let mut repaired = Repaired { set_aside: PathBuf::new(), kept: 0, lost: Vec::new(), is_torn: cut };
        let copied = copy(path, &new, seal, &mut repaired).await;
        copied.map_err(|error| fault.at("copy what can be read", error))?;
        fs::File::open(&new)
            .await
            .map_err(failed("write the new file"))?
            .sync_all()
            .await
            .map_err(failed("write the new file"))?;
        repaired.set_aside = aside::set_aside(path, aside::DAMAGED, Timestamp::now())
            .await
            .map_err(failed("move the damaged file away"))?;
        fs::rename(&new, path).await.map_err(failed("put the new file in its place"))?;
        aside::sync_directory(path).await.map_err(failed("put the new file in its place"))?;
        remove(&new).await.map_err(failed("remove what the repair has left"))?;
        Ok(Some(repaired))
    }
}

async fn is_whole(path: &Path, seal: Option<&Seal>) -> Result<bool, StoreError> {
    if super::header::is_damaged(path).await {
        return Ok(false);
    }
    let mut inspection = match Inspection::open(path, seal.cloned()).await {
        Ok(inspection) => inspection,
        Err(StoreError::Disk { source, .. }) if is_damage(&source) => return Ok(false),
        Err(error) => return Err(error),
    };
    let health = inspection.check().await;
    inspection.close().await;
    let health = health?;
    Ok(health.faults.is_empty() && health.damaged.is_empty())
}

async fn remove(file: &Path) -> std::io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal", ".initialized"] {
        match fs::remove_file(aside::with(file, suffix)).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Copies every object that can be read. The rows are read from both ends: a page that cannot be read ends either way.
async fn copy(path: &Path, new: &Path, seal: Option<&Seal>, told: &mut Repaired) -> Result<(), sqlx::Error> {
    let opened = open::open(new, seal).await.map_err(|(_, error)| error)?;
    let mut to = opened.writer;
    sqlx::query("BEGIN").execute(&mut to).await?;
    let mut newest = 0;
    for order in ["ASC", "DESC"] {
        let from = SqliteConnectOptions::new().filename(path).read_only(true).disable_statement_logging();
        let read = async {
            let mut from = from.connect().await?;
            let read = rows(&mut from, (&mut to, seal), order, &mut newest, told).await;
            // what was only read has nothing to lose
            let _ = from.close().await;
            read
        };
        match read.await {
            Ok(counter) => {
                newest = newest.max(counter);
                break;
            }
            Err(error) if is_damage(&error) => told.is_torn = true,
            Err(error) => return Err(error),
        }
    }
    if told.is_torn {
        newest = newest.saturating_add(FAR);
    }
    sqlx::query("UPDATE counter SET revision = max(revision, ?1)")
        .bind(newest.cast_signed())
        .execute(&mut to)
        .await?;
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM objects").fetch_one(&mut to).await?;
    told.kept = kept.cast_unsigned();
    sqlx::query("COMMIT").execute(&mut to).await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_all(&mut to).await?;
    to.close().await
}

/// Answers the counter of the old file.
async fn rows(
    from: &mut SqliteConnection,
    (to, seal): (&mut SqliteConnection, Option<&Seal>),
    order: &str,
    newest: &mut u64,
    told: &mut Repaired,
) -> Result<u64, sqlx::Error> {
    let columns = columns(from).await?;
    let query = format!(
        "SELECT {columns}, namespace, name, resource FROM objects \
         ORDER BY resource {order}, namespace {order}, name {order}"
    );
    let mut rows = sqlx::query(AssertSqlSafe(query)).fetch(&mut *from);
    while let Some(row) = rows.try_next().await? {
        match object(seal, key(&row)?, &row)? {
            Ok(object) => {
                *newest = (*newest).max(object.revision);
                put(to, seal, &object).await?;
            }
            Err(Unreadable { key, damage, .. }) => {
                if !told.lost.iter().any(|(lost, _)| *lost == key) {
                    told.lost.push((key, damage.to_string()));
                }
            }
        }
    }
    drop(rows);
    let counter = sqlx::query("SELECT revision FROM counter").fetch_one(from).await?;
    Ok(counter.try_get::<i64, _>(0)?.clamp(0, i64::MAX / 2).cast_unsigned())
}

async fn put(to: &mut SqliteConnection, seal: Option<&Seal>, object: &Object) -> Result<(), sqlx::Error> {
    let Object { key, revision, json } = object;
    let value = closed(seal, key, *revision, json)?;
    let checksum = checksum(key, *revision, &value);
    let put = sqlx::query(
        "INSERT OR REPLACE INTO objects (resource, namespace, name, revision, value, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    );
    let put = put.bind(key.resource.as_str()).bind(&key.namespace).bind(&key.name);
    put.bind(revision.cast_signed()).bind(value).bind(checksum).execute(to).await.map(drop)
}
