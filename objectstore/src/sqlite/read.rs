//! Reads objects: every list is one snapshot of the database. A damaged object is kept apart from failures of the database: it is left
//! out, and the others are read.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::TryStreamExt;
use serde::de::IgnoredAny;
use serde_json::Value;
use sqlx::{Connection, Row, SqliteConnection, sqlite::SqliteRow};

use super::{Seal, checksum::checksum, sealing::open_value};
use crate::{Damage, Key, Listing, Object, Page, Resource, Scope};

/// An object that was read, or what is wrong with it.
pub(super) type Read = Result<Object, DamagedObject>;

/// A damaged object.
#[derive(Debug)]
pub(super) struct DamagedObject {
    pub(super) key: Key,
    pub(super) revision: u64,
    pub(super) damage: Damage,
}

/// Reads the object at `key`.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    key: &Key,
) -> Result<Option<Read>, sqlx::Error> {
    let query = sqlx::query(
        "SELECT revision, value, checksum FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3",
    );
    let row = query
        .bind(key.resource.as_str())
        .bind(&key.namespace)
        .bind(&key.name)
        .fetch_optional(connection)
        .await?;
    row.map(|row| object(seal, key.clone(), &row)).transpose()
}

/// Reads a page of the objects of `scope`, and returns the damaged ones among the rows read for it.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    scope: &Scope,
    page: &Page,
) -> Result<(Listing, Vec<DamagedObject>), sqlx::Error> {
    let Some(limit) = page.limit else {
        let Rows {
            items,
            damaged,
            revision,
            ..
        } = rows(connection, seal, scope, page).await?;
        let keys = keys_of(&damaged);
        return Ok((
            Listing {
                items,
                damaged: keys,
                revision,
                remaining: 0,
            },
            damaged,
        ));
    };
    let mut snapshot = connection.begin().await?;
    let mut all = rows(&mut snapshot, seal, scope, page).await?;
    let mut read = all.items.len() + all.damaged.len();
    // what is left out leaves room for others
    while all.items.len() < limit && read > 0 && all.last.is_some() {
        let left = limit - all.items.len();
        if read < left {
            break;
        }
        let page = Page {
            after: all.last.take(),
            limit: Some(left),
        };
        let more = rows(&mut snapshot, seal, scope, &page).await?;
        read = more.items.len() + more.damaged.len();
        all.items.extend(more.items);
        all.damaged.extend(more.damaged);
        all.last = more.last;
    }
    let remaining = if all.items.len() >= limit {
        let after = all
            .items
            .last()
            .map(|object| (object.key.namespace.clone(), object.key.name.clone()));
        count(&mut snapshot, scope, after.as_ref().or(page.after.as_ref())).await?
    } else {
        0
    };
    snapshot.rollback().await?;
    let damaged = keys_of(&all.damaged);
    Ok((
        Listing {
            items: all.items,
            damaged,
            revision: all.revision,
            remaining,
        },
        all.damaged,
    ))
}

fn keys_of(damaged: &[DamagedObject]) -> Vec<Key> {
    damaged.iter().map(|object| object.key.clone()).collect()
}

/// Reads the damaged object at `key`, if its bytes are JSON all the same.
pub(super) async fn damaged_value(
    connection: &mut SqliteConnection,
    key: &Key,
) -> Result<Option<Value>, sqlx::Error> {
    let query = sqlx::query(
        "SELECT value FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3",
    );
    let query = query
        .bind(key.resource.as_str())
        .bind(&key.namespace)
        .bind(&key.name);
    let row = query.fetch_optional(connection).await?;
    let bytes = row
        .and_then(|row| row.try_get::<Vec<u8>, _>(0).ok())
        .unwrap_or_default();
    Ok(serde_json::from_slice(&bytes).ok())
}

/// Returns the collections that exist, each with the bytes of its values.
pub(super) async fn sizes(
    connection: &mut SqliteConnection,
) -> Result<Vec<(Resource, u64)>, sqlx::Error> {
    let query =
        sqlx::query_as("SELECT resource, sum(length(value)) FROM objects GROUP BY resource");
    let sizes: Vec<(String, i64)> = query.fetch_all(connection).await?;
    Ok(sizes
        .into_iter()
        .map(|(resource, bytes)| (Resource::named(&resource), bytes.cast_unsigned()))
        .collect())
}

/// The position after which a page begins.
struct PageStart<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> PageStart<'a> {
    /// Returns `None` where the whole scope lies before the position.
    fn of(scope: &'a Scope, after: Option<&'a (String, String)>) -> Option<Self> {
        let (namespace, name) = after.map_or(("", ""), |(namespace, name)| (namespace, name));
        match &scope.namespace {
            Some(wanted) if wanted.as_str() < namespace => None,
            Some(wanted) if wanted.as_str() > namespace => Some(Self {
                namespace: wanted,
                name: "",
            }),
            Some(_) | None => Some(Self { namespace, name }),
        }
    }
}

/// The rows that one statement has read.
#[derive(Default)]
struct Rows {
    items: Vec<Object>,
    damaged: Vec<DamagedObject>,
    /// The revision of the snapshot.
    revision: u64,
    /// The position of the last row, damaged or not.
    last: Option<(String, String)>,
}

/// Reads the objects of a page and the revision of the snapshot with one statement, in one round trip.
async fn rows(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    scope: &Scope,
    page: &Page,
) -> Result<Rows, sqlx::Error> {
    let Some(start) = PageStart::of(scope, page.after.as_ref()) else {
        return Ok(Rows {
            revision: revision(connection).await?,
            ..Rows::default()
        });
    };
    let limit = page
        .limit
        .map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let query = sqlx::query(match scope.namespace {
        Some(_) => {
            "SELECT revision, NULL, NULL, NULL, NULL FROM counter UNION ALL SELECT * FROM (\
             SELECT revision, value, checksum, namespace, name FROM objects \
             WHERE resource = ?1 AND namespace = ?2 AND name > ?3 ORDER BY name LIMIT ?4)"
        }
        None => {
            "SELECT revision, NULL, NULL, NULL, NULL FROM counter UNION ALL SELECT * FROM (\
             SELECT revision, value, checksum, namespace, name FROM objects \
             WHERE resource = ?1 AND (namespace, name) > (?2, ?3) ORDER BY namespace, name LIMIT ?4)"
        }
    });
    let query = query
        .bind(scope.resource.as_str())
        .bind(start.namespace)
        .bind(start.name)
        .bind(limit);
    let (mut read, mut shown, mut last) = (Rows::default(), None, None);
    // Row by row: the rows are never all in memory beside the objects made of them.
    let mut rows = query.fetch(connection);
    while let Some(row) = rows.try_next().await? {
        if shown.is_none() {
            shown = Some(row.try_get::<i64, _>(0)?.cast_unsigned());
            continue;
        }
        match object(seal, place(&scope.resource, &row)?, &row)? {
            Ok(object) => {
                last = None;
                read.items.push(object);
            }
            Err(unreadable) => {
                last = Some((
                    unreadable.key.namespace.clone(),
                    unreadable.key.name.clone(),
                ));
                read.damaged.push(unreadable);
            }
        }
    }
    let of_items = || {
        read.items
            .last()
            .map(|object| (object.key.namespace.clone(), object.key.name.clone()))
    };
    read.last = last.or_else(of_items);
    read.revision = shown.ok_or(sqlx::Error::RowNotFound)?;
    Ok(read)
}

async fn count(
    connection: &mut SqliteConnection,
    scope: &Scope,
    after: Option<&(String, String)>,
) -> Result<usize, sqlx::Error> {
    let Some(start) = PageStart::of(scope, after) else {
        return Ok(0);
    };
    let query = sqlx::query_scalar(match scope.namespace {
        Some(_) => {
            "SELECT count(*) FROM objects WHERE resource = ?1 AND namespace = ?2 AND name > ?3"
        }
        None => "SELECT count(*) FROM objects WHERE resource = ?1 AND (namespace, name) > (?2, ?3)",
    });
    let query = query
        .bind(scope.resource.as_str())
        .bind(start.namespace)
        .bind(start.name);
    let count: i64 = query.fetch_one(connection).await?;
    Ok(usize::try_from(count).unwrap_or_default())
}

fn place(resource: &Resource, row: &SqliteRow) -> Result<Key, sqlx::Error> {
    Ok(Key::new(resource.clone(), text(row, 3)?, text(row, 4)?))
}

/// Reads a text of a row. Invalid UTF-8 is read lossily: the checksum shows the damage.
pub(super) fn text(row: &SqliteRow, column: usize) -> Result<String, sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Reads the object in a row whose first columns are its revision, its value and its checksum.
pub(super) fn object(seal: Option<&Seal>, key: Key, row: &SqliteRow) -> Result<Read, sqlx::Error> {
    // what is of another type than its column was not written by anybody
    let (Ok(revision), Ok(value), Ok(found)) = (
        row.try_get::<i64, _>(0),
        row.try_get::<Vec<u8>, _>(1),
        row.try_get::<Option<i64>, _>(2),
    ) else {
        return Ok(Err(DamagedObject {
            key,
            revision: 0,
            damage: Damage::Changed,
        }));
    };
    let revision = revision.cast_unsigned();
    Ok(match json(seal, &key, revision, value, found)? {
        Ok(json) => Ok(Object::new(key, revision, Bytes::from(json))),
        Err(damage) => Err(DamagedObject {
            key,
            revision,
            damage,
        }),
    })
}

/// Returns the JSON in a value after comparing the checksum. A value without a checksum was written before there were any; it must at
/// least be JSON.
pub(super) fn json(
    seal: Option<&Seal>,
    key: &Key,
    revision: u64,
    value: Vec<u8>,
    found: Option<i64>,
) -> Result<Result<Vec<u8>, Damage>, sqlx::Error> {
    if found.is_some_and(|found| found != checksum(key, revision, &value)) {
        return Ok(Err(Damage::Changed));
    }
    let json = match open_value(seal, key, revision, value)? {
        Some(json) => json,
        None => return Ok(Err(Damage::Forged)),
    };
    if found.is_none()
        && let Err(error) = serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(&json)
    {
        return Ok(Err(Damage::NotJson(error.to_string())));
    }
    Ok(Ok(json))
}

/// Reads the revision counter.
pub(super) async fn revision(connection: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
    let revision: i64 = sqlx::query_scalar("SELECT revision FROM counter")
        .fetch_one(connection)
        .await?;
    Ok(revision.cast_unsigned())
}
