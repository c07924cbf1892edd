//! Values on their way to the disk and from it, and what is free in a file that is sealed from now on, or with another key.

use sqlx::SqliteConnection;

use super::{Seal, SealError, seal::MARK};
use crate::Key;

/// The value as it goes to the disk.
pub(super) fn seal_value(
    seal: Option<&Seal>,
    key: &Key,
    revision: u64,
    json: &[u8],
) -> Result<Vec<u8>, sqlx::Error> {
    match seal {
        Some(seal) if seal.covers(&key.resource) => seal
            .seal(key, revision, json)
            .map_err(|error| sqlx::Error::Encode(Box::new(error))),
        _ => Ok(json.to_vec()),
    }
}

/// The value as it was before; `None` for one that was changed after it was sealed.
pub(super) fn open_value(
    seal: Option<&Seal>,
    key: &Key,
    revision: u64,
    value: Vec<u8>,
) -> Result<Option<Vec<u8>>, sqlx::Error> {
    if value.first() != Some(&MARK) {
        return Ok(Some(value));
    }
    let opened = match seal {
        Some(seal) => seal.open(key, revision, value),
        None => Err(SealError::NotGiven(key.clone())),
    };
    match opened {
        Ok(json) => Ok(Some(json)),
        Err(SealError::Forged(_)) => Ok(None),
        Err(error) => Err(sqlx::Error::Decode(Box::new(error))),
    }
}

/// Brings what is free in the file into the form that it should have on the disk, after every value has it: neither the file nor its
/// log has then anything in plain text that should be sealed. `changed`: some value was sealed just now.
pub(super) async fn settle(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    changed: bool,
) -> Result<(), sqlx::Error> {
    // in the file's header: whether what is free in it was ever written in plain text
    let clean: i32 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(&mut *connection)
        .await?;
    match (seal, clean) {
        (Some(_), 1) if !changed => {}
        (Some(_), _) => {
            sqlx::query("VACUUM").execute(&mut *connection).await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
                .fetch_all(&mut *connection)
                .await?;
            sqlx::query("PRAGMA user_version = 1")
                .execute(connection)
                .await?;
        }
        (None, 0) => {}
        (None, _) => {
            sqlx::query("PRAGMA user_version = 0")
                .execute(connection)
                .await?;
        }
    }
    Ok(())
}
