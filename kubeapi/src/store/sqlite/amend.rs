//! What a repair writes in the place of what it has lost: the store does not know what objects mean, and whoever does says it in the
//! same transaction as the rest of the new file.

use futures::TryStreamExt;
use serde_json::Value;
use sqlx::{Row, SqliteConnection};

use super::{
    Seal,
    checksum::checksum,
    read::{object, text},
    sealing::closed,
};
use crate::store::{Key, Object, Resource, plan::stamp};

/// An object that a repair has dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Where it stood, as far as that could be read: its place may be what is damaged.
    pub key: Key,
    /// What is wrong with it.
    pub why: String,
    /// Its bytes as they are in the damaged file.
    pub bytes: Vec<u8>,
}

/// Says what a repaired file is to hold because of what was lost.
pub trait Amend: Send + Sync {
    /// The collections that it has to know.
    fn reads(&self) -> Vec<Resource>;

    /// The objects to write, each new or in the place of another. `lost`: what was dropped; `is_torn`: whether there may have been
    /// others; `left`: what the new file has of the collections in [`Self::reads`].
    fn writes(&self, lost: &[Lost], is_torn: bool, left: &[Object]) -> Vec<(Key, Value)>;
}

/// Nothing is written.
impl Amend for () {
    fn reads(&self) -> Vec<Resource> {
        Vec::new()
    }

    fn writes(&self, _: &[Lost], _: bool, _: &[Object]) -> Vec<(Key, Value)> {
        Vec::new()
    }
}

/// The objects of these collections.
pub(super) async fn left(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    resources: &[Resource],
) -> Result<Vec<Object>, sqlx::Error> {
    let mut left = Vec::new();
    for resource in resources {
        let query = "SELECT revision, value, checksum, namespace, name FROM objects WHERE resource = ?1";
        let mut rows = sqlx::query(query).bind(resource.as_str()).fetch(&mut *connection);
        while let Some(row) = rows.try_next().await? {
            let key = Key::new(resource.clone(), text(&row, 3)?, text(&row, 4)?);
            // just written: all of them can be read
            left.extend(object(seal, key, &row)?.ok());
        }
    }
    Ok(left)
}

/// Writes new objects at the revisions after `newest`; answers the last one.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    newest: u64,
    writes: Vec<(Key, Value)>,
) -> Result<u64, sqlx::Error> {
    let mut revision = newest;
    for (key, mut value) in writes {
        revision = revision.saturating_add(1);
        let no_object = || sqlx::Error::Encode(format!("{key} has no metadata").into());
        let json = stamp(&mut value, revision).ok_or_else(no_object)?;
        put(connection, seal, &Object { key, revision, json }).await?;
    }
    Ok(revision)
}

/// Writes an object as it is.
pub(super) async fn put(
    to: &mut SqliteConnection,
    seal: Option<&Seal>,
    object: &Object,
) -> Result<(), sqlx::Error> {
    let Object { key, revision, json } = object;
    let value = closed(seal, key, *revision, json)?;
    let checksum = checksum(key, *revision, &value);
    let put = sqlx::query(
        "INSERT OR REPLACE INTO objects (resource, namespace, name, revision, value, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    );
    let put = put.bind(key.resource.as_str()).bind(&key.namespace).bind(&key.name);
    put.bind(revision.cast_signed()).bind(value).bind(checksum).execute(to).await.map(drop)
}

/// The bytes of an object in a row whose second column is its value.
pub(super) fn bytes(row: &sqlx::sqlite::SqliteRow) -> Vec<u8> {
    row.try_get::<Vec<u8>, _>(1).unwrap_or_default()
}
