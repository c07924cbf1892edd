//! Rewrites a damaged file with all that can be read of it. The old file is set aside, so that it can be examined; a power cut at any
//! moment leaves the old file, the new one, or both. A file under repair is not opened before its repair is finished.

use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions,
};
use tokio::fs;

use super::{
    SqliteStore,
    amend::{self, LostObject, RepairHook, put},
    aside,
    fault::ErrorContext,
    inspect::{Inspection, columns, key},
    open,
    read::{DamagedObject, object},
    result_code::is_damage,
    seal::Seal,
};
use crate::StoreError;

/// The suffix of the new file until it is complete.
const REPAIRING_SUFFIX: &str = ".repairing";
/// How far the counter is advanced: the revisions given out since it was last written are not known, and the next one must be greater.
const REVISION_GAP: u64 = 1 << 20;

/// The result of a repair.
#[derive(Debug)]
pub struct RepairReport {
    /// Where the damaged file is now.
    pub set_aside: PathBuf,
    /// Objects in the new file, without those that the [`RepairHook`] wrote.
    pub kept: u64,
    /// Objects that could not be read.
    pub lost: Vec<LostObject>,
    /// Whether pages are unreadable or wrong, so that further objects may have been lost.
    pub is_torn: bool,
    /// Whether this only finished an earlier repair, which was interrupted when its new file was complete.
    pub is_finished: bool,
}

impl SqliteStore {
    /// Rewrites the file at `path`, which no process may have open, with all that can be read of it and with what `amend` writes in
    /// place of the rest. Returns `None` where the file is intact, and does nothing.
    ///
    /// # Errors
    /// The disk fails, there is no such file, or what was sealed cannot be opened with the keys given: nothing is lost then.
    pub async fn repair(
        path: &Path,
        seal: Option<&Seal>,
        amend: &dyn RepairHook,
    ) -> Result<Option<RepairReport>, StoreError> {
        let fault = ErrorContext::of(path);
        let failed = |step| {
            let fault = fault.clone();
            move |error| fault.at(step, sqlx::Error::Io(error))
        };
        let mut repaired = RepairReport {
            set_aside: PathBuf::new(),
            kept: 0,
            lost: Vec::new(),
            is_torn: aside::is_cut_to_nothing(path).await,
            is_finished: aside::is_being_repaired(path).await,
        };
        let (new, whole) = (
            aside::with(path, REPAIRING_SUFFIX),
            aside::with(path, aside::REPAIRED_SUFFIX),
        );
        if repaired.is_finished {
            repaired.kept = count(&whole)
                .await
                .map_err(|error| fault.at("read the new file", error))?;
        } else {
            if !repaired.is_torn {
                match state(path, seal).await? {
                    State::Whole => return Ok(None),
                    State::Damaged => {}
                    State::Torn => repaired.is_torn = true,
                }
            }
            for earlier in [&new, &whole] {
                remove(earlier)
                    .await
                    .map_err(failed("remove leftovers of an earlier repair"))?;
            }
            let copied = copy(path, &new, seal, amend, &mut repaired).await;
            copied.map_err(|error| fault.at("copy the readable objects", error))?;
            let written = async {
                fs::File::open(&new).await?.sync_all().await?;
                // from now on it is complete, and counts where the damaged one is out of the way
                fs::rename(&new, &whole).await?;
                remove(&new).await?;
                aside::sync_directory(path).await
            };
            written.await.map_err(failed("write the new file"))?;
        }
        repaired.set_aside = aside::set_aside(path, aside::DAMAGED, clock::now())
            .await
            .map_err(failed("move the damaged file away"))?;
        fs::rename(&whole, path)
            .await
            .map_err(failed("put the new file in its place"))?;
        aside::sync_directory(path)
            .await
            .map_err(failed("put the new file in its place"))?;
        Ok(Some(repaired))
    }

    /// Reports whether a repair of the file at `path` was interrupted when its new file was complete, so that another repair finishes
    /// it.
    pub async fn is_being_repaired(path: &Path) -> bool {
        aside::is_being_repaired(path).await
    }
}

/// The state of a file.
enum State {
    Whole,
    /// Objects in it cannot be read, and its pages are what they should be.
    Damaged,
    /// There may be objects in it that can no longer be found.
    Torn,
}

async fn state(path: &Path, seal: Option<&Seal>) -> Result<State, StoreError> {
    if super::header::is_damaged(path).await {
        return Ok(State::Torn);
    }
    let mut inspection = match Inspection::open(path, seal.cloned()).await {
        Ok(inspection) => inspection,
        Err(StoreError::Disk { source, .. }) if is_damage(&source) => return Ok(State::Torn),
        Err(error) => return Err(error),
    };
    let health = inspection.check().await;
    inspection.close().await;
    let health = health?;
    Ok(
        match (health.faults.is_empty(), health.damaged.is_empty()) {
            (true, true) => State::Whole,
            (true, false) => State::Damaged,
            (false, _) => State::Torn,
        },
    )
}

/// Counts the objects in an intact file.
async fn count(path: &Path) -> Result<u64, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .disable_statement_logging();
    let mut connection = options.connect().await?;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM objects")
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(count.cast_unsigned())
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
async fn copy(
    path: &Path,
    new: &Path,
    seal: Option<&Seal>,
    amend: &dyn RepairHook,
    told: &mut RepairReport,
) -> Result<(), sqlx::Error> {
    let opened = open::open(new, seal).await.map_err(|(_, error)| error)?;
    let mut to = opened.writer;
    sqlx::query("BEGIN").execute(&mut to).await?;
    let mut newest = 0;
    for order in ["ASC", "DESC"] {
        let from = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .disable_statement_logging();
        let read = async {
            let mut from = from.connect().await?;
            let read = rows(&mut from, &mut to, seal, order, &mut newest, told).await;
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
        newest = newest.saturating_add(REVISION_GAP);
    }
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM objects")
        .fetch_one(&mut to)
        .await?;
    told.kept = kept.cast_unsigned();
    let left = amend::remaining_objects(&mut to, seal, &amend.reads()).await?;
    let writes = amend.writes(&told.lost, told.is_torn, &left);
    newest = amend::write(&mut to, seal, newest, writes).await?;
    sqlx::query("UPDATE counter SET revision = max(revision, ?1)")
        .bind(newest.cast_signed())
        .execute(&mut to)
        .await?;
    sqlx::query("COMMIT").execute(&mut to).await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .fetch_all(&mut to)
        .await?;
    to.close().await
}

/// Returns the counter of the old file.
async fn rows(
    from: &mut SqliteConnection,
    to: &mut SqliteConnection,
    seal: Option<&Seal>,
    order: &str,
    newest: &mut u64,
    told: &mut RepairReport,
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
            Err(DamagedObject { key, damage, .. }) => {
                let lost = LostObject {
                    key,
                    why: damage.to_string(),
                    bytes: amend::bytes(&row),
                };
                if !told.lost.contains(&lost) {
                    told.lost.push(lost);
                }
            }
        }
    }
    drop(rows);
    let counter = sqlx::query("SELECT revision FROM counter")
        .fetch_one(from)
        .await?;
    Ok(counter
        .try_get::<i64, _>(0)?
        .clamp(0, i64::MAX / 2)
        .cast_unsigned())
}
