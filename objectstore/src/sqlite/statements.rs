//! The SQL statements of the writer. A connection works in a thread of its own, and each round trip wakes that thread and its caller.
//! So several statements are sent together: a commit of a few objects takes two round trips, one to begin and read, one to write and
//! commit. sqlx's driver for SQLite takes them in one text, with their arguments one after the other.

use std::{collections::HashMap, iter::repeat_n};

use sqlx::{
    AssertSqlSafe, Row, Sqlite, SqliteConnection,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::{Seal, checksum::checksum, read, sealing::seal_value};
use crate::{Event, EventKind, Key, Object};

/// Rolls the transaction back.
pub(super) const ROLLBACK: &str = "ROLLBACK";

const BEGIN: &str = "BEGIN IMMEDIATE; SELECT revision FROM counter";
/// The last column is the index of the key among those read together.
const READ: &str = "SELECT revision, value, checksum, ? FROM objects WHERE resource = ? AND namespace = ? AND name = ?";
const PUT: &str = "INSERT INTO objects (resource, namespace, name, revision, value, checksum) VALUES (?, ?, ?, ?, ?, ?) \
                   ON CONFLICT DO UPDATE SET revision = excluded.revision, value = excluded.value, checksum = excluded.checksum";
const DELETE: &str = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?";
const COMMIT: &str = "UPDATE counter SET revision = ?; COMMIT";

/// How many objects one statement text reads or writes: as many batches of the first size as there are, then of the next. Most commits
/// fit the last. The connection keeps each text prepared, which takes some kilobytes for each statement in it.
const BATCH_SIZES: [usize; 3] = [64, 16, 4];

/// One or more statements with their arguments.
type SqliteQuery<'a> = Query<'a, Sqlite, SqliteArguments>;

/// The current state of the objects that a group of commits touches; `None` where there is none.
pub(super) type CurrentObjects = HashMap<Key, Option<Object>>;

/// Begins a transaction. Returns the revision, and the objects at `keys`, so that writes can be planned without waiting.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    keys: &[&Key],
) -> Result<(u64, CurrentObjects), sqlx::Error> {
    let first = parts(keys).next().unwrap_or_default();
    let rows = reading(Some(BEGIN), first)
        .fetch_all(&mut *connection)
        .await?;
    let (revision, rows) = rows.split_first().ok_or(sqlx::Error::RowNotFound)?;
    let revision: i64 = revision.try_get(0)?;
    let mut standing = CurrentObjects::with_capacity(keys.len());
    insert_rows(&mut standing, seal, first, rows)?;
    standing.extend(standing_at(connection, seal, &keys[first.len()..]).await?);
    Ok((revision.cast_unsigned(), standing))
}

/// Reads the objects at `keys`, within a transaction.
pub(super) async fn standing_at(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    keys: &[&Key],
) -> Result<CurrentObjects, sqlx::Error> {
    let mut standing = CurrentObjects::with_capacity(keys.len());
    for part in parts(keys) {
        let rows = reading(None, part).fetch_all(&mut *connection).await?;
        insert_rows(&mut standing, seal, part, &rows)?;
    }
    Ok(standing)
}

/// Makes the query that reads `keys`, after another statement.
fn reading<'a>(before: Option<&'static str>, keys: &'a [&'a Key]) -> SqliteQuery<'a> {
    let query = text(before.into_iter().chain(repeat_n(READ, keys.len())));
    keys.iter()
        .zip(0_i64..)
        .fold(query, |query, (key, place)| at(query.bind(place), key))
}

/// Puts the objects in the rows into the map.
fn insert_rows(
    standing: &mut CurrentObjects,
    seal: Option<&Seal>,
    keys: &[&Key],
    rows: &[SqliteRow],
) -> Result<(), sqlx::Error> {
    standing.extend(keys.iter().map(|key| ((*key).clone(), None)));
    for row in rows {
        let place = usize::try_from(row.try_get::<i64, _>(3)?)
            .ok()
            .and_then(|place| keys.get(place));
        let key = *place.ok_or(sqlx::Error::RowNotFound)?;
        let object = read::object(seal, key.clone(), row)?;
        let object = object.unwrap_or_else(|found| Object::unreadable(found.key, found.revision));
        standing.insert(key.clone(), Some(object));
    }
    Ok(())
}

/// Writes the changes in `events` and commits the transaction at the revision `end`. When it returns, all of it is on the disk.
pub(super) async fn commit(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    events: &[&Event],
    end: u64,
) -> Result<(), sqlx::Error> {
    for query in writings(seal, events, end)? {
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

fn writings<'a>(
    seal: Option<&Seal>,
    events: &'a [&'a Event],
    end: u64,
) -> Result<Vec<SqliteQuery<'a>>, sqlx::Error> {
    let alike = events.chunk_by(|one, other| is_deletion(one) == is_deletion(other));
    let parts: Vec<_> = alike.flat_map(parts).collect();
    let mut queries = Vec::with_capacity(parts.len());
    for (part, left) in parts.iter().zip((0..parts.len()).rev()) {
        let statement = if part.first().is_some_and(|event| is_deletion(event)) {
            DELETE
        } else {
            PUT
        };
        let last = (left == 0).then_some(COMMIT);
        let mut query = text(repeat_n(statement, part.len()).chain(last));
        for event in *part {
            let Object {
                key,
                revision,
                json,
                ..
            } = &event.object;
            query = at(query, key);
            if !is_deletion(event) {
                let value = seal_value(seal, key, *revision, json)?;
                let checksum = checksum(key, *revision, &value);
                query = query
                    .bind(revision.cast_signed())
                    .bind(value)
                    .bind(checksum);
            }
        }
        queries.push(if last.is_some() {
            query.bind(end.cast_signed())
        } else {
            query
        });
    }
    Ok(queries)
}

/// Splits a list into the batches of one query each.
fn parts<T>(mut all: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = BATCH_SIZES
            .into_iter()
            .find(|&size| size <= all.len())
            .unwrap_or(all.len());
        let (part, others) = all.split_at(size);
        all = others;
        (!part.is_empty()).then_some(part)
    })
}

fn is_deletion(event: &Event) -> bool {
    event.kind == EventKind::Deleted
}

/// Marks a text made of this file's statements as safe for sqlx.
fn text<'a, 's>(statements: impl Iterator<Item = &'s str>) -> SqliteQuery<'a> {
    // no word of anybody else's is in it
    sqlx::query(AssertSqlSafe(statements.collect::<Vec<_>>().join("; ")))
}

fn at<'a>(query: SqliteQuery<'a>, key: &'a Key) -> SqliteQuery<'a> {
    query
        .bind(key.resource.as_str())
        .bind(&key.namespace)
        .bind(&key.name)
}
