//! Reading: every list is one snapshot of the database.

use bytes::Bytes;
use futures::TryStreamExt;
use sqlx::{Row, SqliteConnection, SqlitePool, sqlite::SqliteRow};

use super::{Seal, open::revision, sealing::opened};
use crate::store::{Key, Listing, Object, Page, Resource, Scope};

/// The object at `key`.
pub(super) async fn get<'c, E>(
    executor: E,
    seal: Option<&Seal>,
    key: &Key,
) -> Result<Option<Object>, sqlx::Error>
where
    E: sqlx::Executor<'c, Database = sqlx::Sqlite>,
{
    let query = sqlx::query(
        "SELECT revision, value FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3",
    );
    let row = query
        .bind(key.resource.as_str())
        .bind(&key.namespace)
        .bind(&key.name)
        .fetch_optional(executor)
        .await?;
    row.map(|row| object(seal, key.clone(), &row)).transpose()
}

/// A page of the objects of `scope`.
pub(super) async fn list(
    pool: &SqlitePool,
    seal: Option<&Seal>,
    scope: &Scope,
    page: &Page,
) -> Result<Listing, sqlx::Error> {
    let mut snapshot = pool.begin().await?;
    let revision = revision(&mut snapshot).await?;
    let items = items(&mut snapshot, seal, scope, page).await?;
    let remaining = match (page.limit, items.last()) {
        (Some(limit), last) if items.len() >= limit => {
            let after = last.map(|object| (object.key.namespace.clone(), object.key.name.clone()));
            count(&mut snapshot, scope, after.as_ref().or(page.after.as_ref())).await?
        }
        _ => 0,
    };
    snapshot.rollback().await?;
    Ok(Listing { items, revision, remaining })
}

/// The place after which a page begins.
struct Start<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Start<'a> {
    /// `None` where the whole scope lies before it.
    fn of(scope: &'a Scope, after: Option<&'a (String, String)>) -> Option<Self> {
        let (namespace, name) = after.map_or(("", ""), |(namespace, name)| (namespace, name));
        match &scope.namespace {
            Some(wanted) if wanted.as_str() < namespace => None,
            Some(wanted) if wanted.as_str() > namespace => Some(Self { namespace: wanted, name: "" }),
            Some(_) | None => Some(Self { namespace, name }),
        }
    }
}

async fn items(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    scope: &Scope,
    page: &Page,
) -> Result<Vec<Object>, sqlx::Error> {
    let Some(start) = Start::of(scope, page.after.as_ref()) else { return Ok(Vec::new()) };
    let limit = page.limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let query = sqlx::query(match scope.namespace {
        Some(_) => {
            "SELECT revision, value, namespace, name FROM objects \
             WHERE resource = ?1 AND namespace = ?2 AND name > ?3 ORDER BY name LIMIT ?4"
        }
        None => {
            "SELECT revision, value, namespace, name FROM objects \
             WHERE resource = ?1 AND (namespace, name) > (?2, ?3) ORDER BY namespace, name LIMIT ?4"
        }
    });
    let query = query.bind(scope.resource.as_str()).bind(start.namespace).bind(start.name).bind(limit);
    // Row by row: the rows are never all in memory beside the objects made of them.
    let rows = query.fetch(connection);
    rows.and_then(async |row| object(seal, place(&scope.resource, &row)?, &row)).try_collect().await
}

async fn count(
    connection: &mut SqliteConnection,
    scope: &Scope,
    after: Option<&(String, String)>,
) -> Result<usize, sqlx::Error> {
    let Some(start) = Start::of(scope, after) else { return Ok(0) };
    let query = sqlx::query_scalar(match scope.namespace {
        Some(_) => "SELECT count(*) FROM objects WHERE resource = ?1 AND namespace = ?2 AND name > ?3",
        None => "SELECT count(*) FROM objects WHERE resource = ?1 AND (namespace, name) > (?2, ?3)",
    });
    let query = query.bind(scope.resource.as_str()).bind(start.namespace).bind(start.name);
    let count: i64 = query.fetch_one(connection).await?;
    Ok(usize::try_from(count).unwrap_or_default())
}

fn place(resource: &Resource, row: &SqliteRow) -> Result<Key, sqlx::Error> {
    Ok(Key::new(resource.clone(), row.try_get::<String, _>(2)?, row.try_get::<String, _>(3)?))
}

fn object(seal: Option<&Seal>, key: Key, row: &SqliteRow) -> Result<Object, sqlx::Error> {
    let revision: i64 = row.try_get(0)?;
    let revision = revision.cast_unsigned();
    let json = opened(seal, &key, revision, row.try_get(1)?)?;
    Ok(Object { key, revision, json: Bytes::from(json) })
}
