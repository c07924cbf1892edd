//! Reading: every list is one snapshot of the database.

use bytes::Bytes;
use futures::TryStreamExt;
use sqlx::{Connection, Row, SqliteConnection, sqlite::SqliteRow};

use super::{Seal, open::revision, sealing::opened};
use crate::store::{Key, Listing, Object, Page, Resource, Scope};

/// The object at `key`.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    key: &Key,
) -> Result<Option<Object>, sqlx::Error> {
    let query = sqlx::query(
        "SELECT revision, value FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3",
    );
    let row = query
        .bind(key.resource.as_str())
        .bind(&key.namespace)
        .bind(&key.name)
        .fetch_optional(connection)
        .await?;
    row.map(|row| object(seal, key.clone(), &row)).transpose()
}

/// A page of the objects of `scope`.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    scope: &Scope,
    page: &Page,
) -> Result<Listing, sqlx::Error> {
    let Some(limit) = page.limit else {
        let (items, revision) = items(connection, seal, scope, page).await?;
        return Ok(Listing { items, revision, remaining: 0 });
    };
    let mut snapshot = connection.begin().await?;
    let (items, revision) = items(&mut snapshot, seal, scope, page).await?;
    let remaining = if items.len() >= limit {
        let after = items.last().map(|object| (object.key.namespace.clone(), object.key.name.clone()));
        count(&mut snapshot, scope, after.as_ref().or(page.after.as_ref())).await?
    } else {
        0
    };
    snapshot.rollback().await?;
    Ok(Listing { items, revision, remaining })
}

/// The collections that there are, and the bytes of their values.
pub(super) async fn sizes(connection: &mut SqliteConnection) -> Result<Vec<(Resource, u64)>, sqlx::Error> {
    let query = sqlx::query_as("SELECT resource, sum(length(value)) FROM objects GROUP BY resource");
    let sizes: Vec<(String, i64)> = query.fetch_all(connection).await?;
    Ok(sizes
        .into_iter()
        .map(|(resource, bytes)| (Resource::named(&resource), bytes.cast_unsigned()))
        .collect())
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

/// The objects of a page, and the revision that they show: one statement, and so one snapshot, and one way to the connection.
async fn items(
    connection: &mut SqliteConnection,
    seal: Option<&Seal>,
    scope: &Scope,
    page: &Page,
) -> Result<(Vec<Object>, u64), sqlx::Error> {
    let Some(start) = Start::of(scope, page.after.as_ref()) else {
        return Ok((Vec::new(), revision(connection).await?));
    };
    let limit = page.limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let query = sqlx::query(match scope.namespace {
        Some(_) => {
            "SELECT revision, NULL, NULL, NULL FROM counter UNION ALL SELECT * FROM (\
             SELECT revision, value, namespace, name FROM objects \
             WHERE resource = ?1 AND namespace = ?2 AND name > ?3 ORDER BY name LIMIT ?4)"
        }
        None => {
            "SELECT revision, NULL, NULL, NULL FROM counter UNION ALL SELECT * FROM (\
             SELECT revision, value, namespace, name FROM objects \
             WHERE resource = ?1 AND (namespace, name) > (?2, ?3) ORDER BY namespace, name LIMIT ?4)"
        }
    });
    let query = query.bind(scope.resource.as_str()).bind(start.namespace).bind(start.name).bind(limit);
    let (mut items, mut shown) = (Vec::new(), None);
    // Row by row: the rows are never all in memory beside the objects made of them.
    let mut rows = query.fetch(connection);
    while let Some(row) = rows.try_next().await? {
        match shown {
            None => shown = Some(row.try_get::<i64, _>(0)?.cast_unsigned()),
            Some(_) => items.push(object(seal, place(&scope.resource, &row)?, &row)?),
        }
    }
    Ok((items, shown.ok_or(sqlx::Error::RowNotFound)?))
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

/// The object in a row whose first columns are its revision and its value.
pub(super) fn object(seal: Option<&Seal>, key: Key, row: &SqliteRow) -> Result<Object, sqlx::Error> {
    let revision: i64 = row.try_get(0)?;
    let revision = revision.cast_unsigned();
    let json = opened(seal, &key, revision, row.try_get(1)?)?;
    Ok(Object { key, revision, json: Bytes::from(json) })
}
