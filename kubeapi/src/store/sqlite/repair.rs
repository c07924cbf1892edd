//! Writing a damaged file anew with all that can be read of it. The file itself is set aside, so that nothing of it is lost for whoever
//! looks into it; a power cut at any moment leaves the one, or the other, or both, and a file that was being repaired is no new one:
//! it is not opened before its repair is finished.

use std::path::{Path, PathBuf};

use futures::TryStreamExt;
use jiff::Timestamp;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::fs;

use super::{
    SqliteStore,
    amend::{self, Amend, Lost, put},
    aside,
    fault::Fault,
    inspect::{Inspection, columns, key},
    open,
    read::{Unreadable, object},
    result_code::is_damage,
    seal::Seal,
};
use crate::store::StoreError;

/// The new file, until it is whole.
const NEW: &str = ".repairing";
/// What was given out since the counter was last written is not known: the next revision is beyond it.
const FAR: u64 = 1 << 20;

/// What a repair has done.
#[derive(Debug)]
pub struct Repaired {
    /// Where the damaged file is now.
    pub set_aside: PathBuf,
    /// Objects that are in the new one, without what was written because of the loss of others.
    pub kept: u64,
    /// Objects that are not.
    pub lost: Vec<Lost>,
    /// Whether pages could not be read, or are not what they should be, so that there may have been others.
    pub is_torn: bool,
    /// Whether an earlier repair was cut off when its file was whole: it was put in its place, and nothing else was done.
    pub is_finished: bool,
}

impl SqliteStore {
    /// Writes the file at `path`, which nobody has open, anew with all that can be read of it, and with what `amend` says because of
    /// the rest. `None`: it is whole, and nothing was done.
    ///
    /// # Errors
    /// The disk fails, there is no such file, or what was sealed cannot be opened with the keys given: nothing is lost then.
    pub async fn repair(
        path: &Path,
        seal: Option<&Seal>,
        amend: &dyn Amend,
    ) -> Result<Option<Repaired>, StoreError> {
        let fault = Fault::of(path);
        let failed = |step| {
            let fault = fault.clone();
            move |error| fault.at(step, sqlx::Error::Io(error))
        };
        let mut repaired = Repaired {
            set_aside: PathBuf::new(),
            kept: 0,
            lost: Vec::new(),
            is_torn: aside::is_cut_to_nothing(path).await,
            is_finished: aside::is_being_repaired(path).await,
        };
        let (new, whole) = (aside::with(path, NEW), aside::with(path, aside::REPAIRED));
        if repaired.is_finished {
            repaired.kept = count(&whole).await.map_err(|error| fault.at("read the new file", error))?;
        } else {
            if !repaired.is_torn {
                match state(path, seal).await? {
                    State::Whole => return Ok(None),
                    State::Damaged => {}
                    State::Torn => repaired.is_torn = true,
                }
            }
            for earlier in [&new, &whole] {
                remove(earlier).await.map_err(failed("remove what an earlier repair has left"))?;
            }
            let copied = copy(path, &new, (seal, amend), &mut repaired).await;
            copied.map_err(|error| fault.at("copy what can be read", error))?;
            let written = async {
                fs::File::open(&new).await?.sync_all().await?;
                // from now on it is complete, and counts where the damaged one is out of the way
                fs::rename(&new, &whole).await?;
                remove(&new).await?;
                aside::sync_directory(path).await
            };
            written.await.map_err(failed("write the new file"))?;
        }
        repaired.set_aside = aside::set_aside(path, aside::DAMAGED, Timestamp::now())
            .await
            .map_err(failed("move the damaged file away"))?;
        fs::rename(&whole, path).await.map_err(failed("put the new file in its place"))?;
        aside::sync_directory(path).await.map_err(failed("put the new file in its place"))?;
        Ok(Some(repaired))
    }

    /// Whether a repair of the file at `path` was cut off when its new file was whole, so that another repair finishes it.
    pub async fn is_being_repaired(path: &Path) -> bool {
        aside::is_being_repaired(path).await
    }
}

/// What a file is like.
enum State {
    Whole,
    /// Objects in it cannot be read, and its pages are what they should be.
    Damaged,
    /// There may be objects in it that cannot be found.
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
    Ok(match (health.faults.is_empty(), health.damaged.is_empty()) {
        (true, true) => State::Whole,
        (true, false) => State::Damaged,
        (false, _) => State::Torn,
    })
}

/// The objects in a whole file.
async fn count(path: &Path) -> Result<u64, sqlx::Error> {
    let options = SqliteConnectOptions::new().filename(path).read_only(true).disable_statement_logging();
    let mut connection = options.connect().await?;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM objects").fetch_one(&mut connection).await?;
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
    (seal, amend): (Option<&Seal>, &dyn Amend),
    told: &mut Repaired,
) -> Result<(), sqlx::Error> {
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
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM objects").fetch_one(&mut to).await?;
    told.kept = kept.cast_unsigned();
    let left = amend::left(&mut to, seal, &amend.reads()).await?;
    let writes = amend.writes(&told.lost, told.is_torn, &left);
    newest = amend::write(&mut to, seal, newest, writes).await?;
    sqlx::query("UPDATE counter SET revision = max(revision, ?1)")
        .bind(newest.cast_signed())
        .execute(&mut to)
        .await?;
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
                let lost = Lost { key, why: damage.to_string(), bytes: amend::bytes(&row) };
                if !told.lost.contains(&lost) {
                    told.lost.push(lost);
                }
            }
        }
    }
    drop(rows);
    let counter = sqlx::query("SELECT revision FROM counter").fetch_one(from).await?;
    Ok(counter.try_get::<i64, _>(0)?.clamp(0, i64::MAX / 2).cast_unsigned())
}
