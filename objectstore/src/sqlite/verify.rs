//! Reads all objects of a file that is opened: damaged ones are found before a client asks for them, and those that are not stored as
//! they should be (without a checksum, not sealed, or with an older key) are rewritten, all or none.

use futures::TryStreamExt;
use sqlx::{Connection, Row, SqliteConnection};

use super::{
    Seal,
    checksum::checksum,
    read::{self, DamagedObject},
    sealing::{self, seal_value},
};
use crate::{Key, Resource};

/// How far the counter is advanced where it is lost: beyond every revision that a client may have seen.
const REVISION_GAP: i64 = 1 << 20;

/// The result of reading all objects of a file.
#[derive(Default)]
struct ScanResult {
    damaged: Vec<DamagedObject>,
    /// The objects to rewrite, and whether each is to be sealed as well.
    outdated: Vec<(Key, bool)>,
    newest: i64,
}

/// Reads all objects and rewrites the outdated ones; returns those that are damaged.
///
/// # Errors
/// The database fails, or what was sealed cannot be opened with the keys given.
pub(super) async fn objects(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
) -> Result<Vec<DamagedObject>, sqlx::Error> {
    let seen = read_all(connection, seal).await?;
    let is_sealed_anew = seen.outdated.iter().any(|(_, seals)| *seals);
    if !seen.outdated.is_empty() {
        write_anew(connection, seal, &seen.outdated).await?;
    }
    sealing::settle(connection, seal, is_sealed_anew).await?;
    let counter: i64 = sqlx::query_scalar("SELECT revision FROM counter")
        .fetch_one(&mut *connection)
        .await?;
    if !(seen.newest..i64::MAX / 2).contains(&counter) {
        // a revision is given once only
        let counter = seen.newest.saturating_add(REVISION_GAP);
        tracing::error!(
            counter,
            "revision counter of the database damaged; setting it again"
        );
        sqlx::query("UPDATE counter SET revision = ?1")
            .bind(counter)
            .execute(connection)
            .await?;
    }
    Ok(seen.damaged)
}

async fn read_all(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
) -> Result<ScanResult, sqlx::Error> {
    let all =
        sqlx::query("SELECT revision, value, checksum, namespace, name, resource FROM objects");
    let mut seen = ScanResult::default();
    let mut rows = all.fetch(connection);
    while let Some(row) = rows.try_next().await? {
        let resource = Resource::named(&read::text(&row, 5)?);
        let key = Key::new(resource, read::text(&row, 3)?, read::text(&row, 4)?);
        match read::object(seal, key, &row)? {
            Ok(object) => {
                let value: &[u8] = row.try_get(1)?;
                let seals = !seal.map_or(value.first() != Some(&super::seal::MARK), |seal| {
                    seal.is_up_to_date(&object.key.resource, value)
                });
                if seals || row.try_get::<Option<i64>, _>(2)?.is_none() {
                    seen.outdated.push((object.key, seals));
                }
                seen.newest = seen.newest.max(object.revision.cast_signed());
            }
            Err(unreadable) => seen.damaged.push(unreadable),
        }
    }
    Ok(seen)
}

async fn write_anew(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    outdated: &[(Key, bool)],
) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    for (key, _) in outdated {
        let Some(Ok(object)) = read::get(&mut transaction, seal, key).await? else {
            continue;
        };
        let value = seal_value(seal, key, object.revision, &object.json)?;
        let checksum = checksum(key, object.revision, &value);
        let update = sqlx::query(
            "UPDATE objects SET value = ?4, checksum = ?5 WHERE resource = ?1 AND namespace = ?2 AND name = ?3",
        );
        let update = update
            .bind(key.resource.as_str())
            .bind(&key.namespace)
            .bind(&key.name);
        update
            .bind(value)
            .bind(checksum)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await
}
