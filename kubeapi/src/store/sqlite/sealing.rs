//! Values on their way to the disk and from it, and a whole file that is to be sealed from now on, or with another key.

use futures::TryStreamExt;
use sqlx::{Connection, Row, SqliteConnection};

use super::{Seal, SealError, seal::MARK};
use crate::store::{Key, Resource};

/// The value as it goes to the disk.
pub(super) fn closed(
    seal: Option<&Seal>,
    key: &Key,
    revision: u64,
    json: &[u8],
) -> Result<Vec<u8>, sqlx::Error> {
    match seal {
        Some(seal) if seal.covers(&key.resource) => {
            seal.seal(key, revision, json).map_err(|error| sqlx::Error::Encode(Box::new(error)))
        }
        _ => Ok(json.to_vec()),
    }
}

/// The value as it was before.
pub(super) fn opened(
    seal: Option<&Seal>,
    key: &Key,
    revision: u64,
    value: Vec<u8>,
) -> Result<Vec<u8>, sqlx::Error> {
    if value.first() != Some(&MARK) {
        return Ok(value);
    }
    let opened = match seal {
        Some(seal) => seal.open(key, revision, value),
        None => Err(SealError::NotGiven(key.clone())),
    };
    opened.map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// Brings every value into the form that it should have on the disk; after it, neither the file nor its log has anything in plain
/// text that should be sealed. Fails where a value cannot be opened.
pub(super) async fn settle(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
) -> Result<(), sqlx::Error> {
    let changed = write_anew(connection, seal).await?;
    // in the file's header: whether what is free in it was ever written in plain text
    let clean: i32 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *connection).await?;
    match (seal, clean) {
        (Some(_), 1) if !changed => {}
        (Some(_), _) => {
            sqlx::query("VACUUM").execute(&mut *connection).await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_all(&mut *connection).await?;
            sqlx::query("PRAGMA user_version = 1").execute(connection).await?;
        }
        (None, 0) => {}
        (None, _) => {
            sqlx::query("PRAGMA user_version = 0").execute(connection).await?;
        }
    }
    Ok(())
}

/// Whether there was something to write.
async fn write_anew(connection: &mut SqliteConnection, seal: Option<&Seal>) -> Result<bool, sqlx::Error> {
    let heads = sqlx::query("SELECT resource, namespace, name, revision, substr(value, 1, 5) FROM objects");
    let mut outdated = Vec::new();
    let mut rows = heads.fetch(&mut *connection);
    while let Some(row) = rows.try_next().await? {
        let resource = Resource::named(&row.try_get::<String, _>(0)?);
        let head: Vec<u8> = row.try_get(4)?;
        let is_sealed = head.first() == Some(&MARK);
        let up_to_date = seal.map_or(!is_sealed, |seal| seal.is_up_to_date(&resource, &head));
        if is_sealed || !up_to_date {
            let key = Key::new(resource, row.try_get::<String, _>(1)?, row.try_get::<String, _>(2)?);
            outdated.push((key, row.try_get::<i64, _>(3)?, up_to_date));
        }
    }
    drop(rows);
    let mut changed = false;
    let mut transaction = connection.begin().await?;
    for (key, revision, up_to_date) in outdated {
        let (resource, number) = (key.resource.as_str(), revision.cast_unsigned());
        let value = sqlx::query_scalar(
            "SELECT value FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3",
        );
        let value = value.bind(resource).bind(&key.namespace).bind(&key.name);
        // a value that cannot be opened is found here, not in the middle of the work
        let json = opened(seal, &key, number, value.fetch_one(&mut *transaction).await?)?;
        if !up_to_date {
            changed = true;
            let update = sqlx::query(
                "UPDATE objects SET value = ?4 WHERE resource = ?1 AND namespace = ?2 AND name = ?3",
            );
            let update = update.bind(resource).bind(&key.namespace).bind(&key.name);
            update.bind(closed(seal, &key, number, &json)?).execute(&mut *transaction).await?;
        }
    }
    transaction.commit().await?;
    Ok(changed)
}
