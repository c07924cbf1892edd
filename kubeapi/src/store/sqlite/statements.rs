//! What the writer says to SQLite. A connection works in a thread of its own, and each way there and back wakes that thread and its
//! caller. So several statements go together: a commit of a few objects takes two ways, one to begin and read, one to write and
//! commit. sqlx's driver for SQLite takes them in one text, with their arguments one after the other.

use std::{collections::HashMap, iter::repeat_n};

use sqlx::{
    AssertSqlSafe, Row, Sqlite, SqliteConnection,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::{Seal, checksum::checksum, read, sealing::closed};
use crate::store::{Event, EventKind, Key, Object};

/// Ends the transaction without a trace.
pub(super) const GIVE_UP: &str = "ROLLBACK";

const BEGIN: &str = "BEGIN IMMEDIATE; SELECT revision FROM counter";
/// The last column says which of several it is.
const READ: &str =
    "SELECT revision, value, checksum, ? FROM objects WHERE resource = ? AND namespace = ? AND name = ?";
const PUT: &str = "INSERT INTO objects (resource, namespace, name, revision, value, checksum) VALUES (?, ?, ?, ?, ?, ?) \
                   ON CONFLICT DO UPDATE SET revision = excluded.revision, value = excluded.value, checksum = excluded.checksum";
const DELETE: &str = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?";
const COMMIT: &str = "UPDATE counter SET revision = ?; COMMIT";

/// Objects that are read or written together: as many as there are of the first of these, then of the next. Most commits are of no
/// more than the last. Each number of them is a text of its own, which the connection keeps prepared, at some kilobytes for each
/// statement.
const TOGETHER: [usize; 3] = [64, 16, 4];

/// One or more statements with their arguments.
type Words<'a> = Query<'a, Sqlite, SqliteArguments>;

/// The objects that a group touches, as they stand at its current commit.
pub(super) type Standing = HashMap<Key, Option<Object>>;

/// Begins a transaction. Answers the revision, and the objects at `keys`, so that writes can be planned without waiting.
pub(super) async fn begin(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    keys: &[&Key],
) -> Result<(u64, Standing), sqlx::Error> {
    let first = parts(keys).next().unwrap_or_default();
    let rows = reading(Some(BEGIN), first).fetch_all(&mut *connection).await?;
    let (revision, rows) = rows.split_first().ok_or(sqlx::Error::RowNotFound)?;
    let revision: i64 = revision.try_get(0)?;
    let mut standing = Standing::with_capacity(keys.len());
    stand(&mut standing, seal, first, rows)?;
    standing.extend(standing_at(connection, seal, &keys[first.len()..]).await?);
    Ok((revision.cast_unsigned(), standing))
}

/// The objects at `keys`, within a transaction.
pub(super) async fn standing_at(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    keys: &[&Key],
) -> Result<Standing, sqlx::Error> {
    let mut standing = Standing::with_capacity(keys.len());
    for part in parts(keys) {
        let rows = reading(None, part).fetch_all(&mut *connection).await?;
        stand(&mut standing, seal, part, &rows)?;
    }
    Ok(standing)
}

/// The query that reads `keys`, after another statement.
fn reading<'a>(before: Option<&'static str>, keys: &'a [&'a Key]) -> Words<'a> {
    let query = text(before.into_iter().chain(repeat_n(READ, keys.len())));
    keys.iter().zip(0_i64..).fold(query, |query, (key, place)| at(query.bind(place), key))
}

/// Notes what the rows say of `keys`.
fn stand(
    standing: &mut Standing,
    seal: Option<&Seal>,
    keys: &[&Key],
    rows: &[SqliteRow],
) -> Result<(), sqlx::Error> {
    standing.extend(keys.iter().map(|key| ((*key).clone(), None)));
    for row in rows {
        let place = usize::try_from(row.try_get::<i64, _>(3)?).ok().and_then(|place| keys.get(place));
        let key = *place.ok_or(sqlx::Error::RowNotFound)?;
        let object = read::object(seal, key.clone(), row)?;
        let object = object.unwrap_or_else(|found| Object::unreadable(found.key, found.revision));
        standing.insert(key.clone(), Some(object));
    }
    Ok(())
}

/// Writes what `events` say and ends the transaction at the revision `end`. When it returns, all of it is on the disk.
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
) -> Result<Vec<Words<'a>>, sqlx::Error> {
    let alike = events.chunk_by(|one, other| is_deletion(one) == is_deletion(other));
    let parts: Vec<_> = alike.flat_map(parts).collect();
    let mut queries = Vec::with_capacity(parts.len());
    for (part, left) in parts.iter().zip((0..parts.len()).rev()) {
        let statement = if part.first().is_some_and(|event| is_deletion(event)) { DELETE } else { PUT };
        let last = (left == 0).then_some(COMMIT);
        let mut query = text(repeat_n(statement, part.len()).chain(last));
        for event in *part {
            let Object { key, revision, json } = &event.object;
            query = at(query, key);
            if !is_deletion(event) {
                let value = closed(seal, key, *revision, json)?;
                let checksum = checksum(key, *revision, &value);
                query = query.bind(revision.cast_signed()).bind(value).bind(checksum);
            }
        }
        queries.push(if last.is_some() { query.bind(end.cast_signed()) } else { query });
    }
    Ok(queries)
}

/// All of them, in as many parts as there are to be queries.
fn parts<T>(mut all: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = TOGETHER.into_iter().find(|&size| size <= all.len()).unwrap_or(all.len());
        let (part, others) = all.split_at(size);
        all = others;
        (!part.is_empty()).then_some(part)
    })
}

fn is_deletion(event: &Event) -> bool {
    event.kind == EventKind::Deleted
}

/// Statements of this file, as one text.
fn text<'a, 's>(statements: impl Iterator<Item = &'s str>) -> Words<'a> {
    // no word of anybody else's is in it
    sqlx::query(AssertSqlSafe(statements.collect::<Vec<_>>().join("; ")))
}

fn at<'a>(query: Words<'a>, key: &'a Key) -> Words<'a> {
    query.bind(key.resource.as_str()).bind(&key.namespace).bind(&key.name)
}
