//! Objects that a repair writes in place of those that were lost: the store does not know what objects mean, so its user provides them
//! ([`RepairHook`]), in the same transaction as the rest of the new file.

use futures::TryStreamExt;
use serde_json::Value;
use sqlx::{Row, SqliteConnection};

use super::{
    Seal,
    checksum::checksum,
    read::{object, text},
    sealing::seal_value,
};
use crate::{Key, Object, Resource, plan::stamp};

/// An object that could not be kept by a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostObject {
    /// Its key, as far as it could be read: the key itself may be damaged.
    pub key: Key,
    /// Why it could not be read.
    pub why: String,
    /// Its bytes in the damaged file.
    pub bytes: Vec<u8>,
}

/// Provides objects to write into a repaired file because of those that were lost.
pub trait RepairHook: Send + Sync {
    /// Returns the collections that [`Self::writes`] needs to see.
    fn reads(&self) -> Vec<Resource>;

    /// Returns the objects to write, new ones or replacements. `lost`: what was dropped; `is_torn`: whether further objects may have
    /// been lost; `left`: the new file's objects of the collections in [`Self::reads`].
    fn writes(&self, lost: &[LostObject], is_torn: bool, left: &[Object]) -> Vec<(Key, Value)>;
}

/// A hook that writes nothing.
impl RepairHook for () {
    fn reads(&self) -> Vec<Resource> {
        Vec::new()
    }

    fn writes(&self, _: &[LostObject], _: bool, _: &[Object]) -> Vec<(Key, Value)> {
        Vec::new()
    }
}

/// Reads the objects of these collections.
pub(super) async fn remaining_objects(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    resources: &[Resource],
) -> Result<Vec<Object>, sqlx::Error> {
    let mut left = Vec::new();
    for resource in resources {
        let query =
            "SELECT revision, value, checksum, namespace, name FROM objects WHERE resource = ?1";
        let mut rows = sqlx::query(query)
            .bind(resource.as_str())
            .fetch(&mut *connection);
        while let Some(row) = rows.try_next().await? {
            let key = Key::new(resource.clone(), text(&row, 3)?, text(&row, 4)?);
            // just written: all of them can be read
            left.extend(object(seal, key, &row)?.ok());
        }
    }
    Ok(left)
}

/// Writes new objects at the revisions after `newest`; returns the last revision.
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
        put(connection, seal, &Object::new(key, revision, json)).await?;
    }
    Ok(revision)
}

/// Writes an object unchanged.
pub(super) async fn put(
    to: &mut SqliteConnection,
    seal: Option<&Seal>,
    object: &Object,
) -> Result<(), sqlx::Error> {
    let Object {
        key,
        revision,
        json,
        ..
    } = object;
    let value = seal_value(seal, key, *revision, json)?;
    let checksum = checksum(key, *revision, &value);
    let put = sqlx::query(
        "INSERT OR REPLACE INTO objects (resource, namespace, name, revision, value, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    );
    let put = put
        .bind(key.resource.as_str())
        .bind(&key.namespace)
        .bind(&key.name);
    put.bind(revision.cast_signed())
        .bind(value)
        .bind(checksum)
        .execute(to)
        .await
        .map(drop)
}

/// Returns the bytes of an object in a row whose second column is its value.
pub(super) fn bytes(row: &sqlx::sqlite::SqliteRow) -> Vec<u8> {
    row.try_get::<Vec<u8>, _>(1).unwrap_or_default()
}
