//! Inspects a file without changing it, even while its owner has it open.

use std::path::Path;

use futures::{Stream, StreamExt, TryStreamExt};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteRow},
};

use super::{
    ErrorContext, Seal, SealError, identity,
    read::{DamagedObject, Read, object, revision, text},
};
use crate::{Key, Object, Resource, StoreError};

/// The most faults that are reported.
const MAX_FAULTS: usize = 100;

/// A file under inspection.
#[derive(Debug)]
pub struct Inspection {
    connection: SqliteConnection,
    seal: Option<Seal>,
    fault: ErrorContext,
}

/// The result of an inspection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What is wrong with the file itself; empty for an intact one. At most a hundred lines.
    pub faults: Vec<String>,
    /// The objects that cannot be read, each with the reason; at most a hundred.
    pub damaged: Vec<(Key, String)>,
    /// The number of objects, damaged ones included.
    pub objects: u64,
    /// The number of encrypted objects.
    pub sealed: u64,
    /// The number of encrypted objects whose key is not given; whether they are damaged is not known.
    pub locked: u64,
    /// The newest revision.
    pub revision: u64,
    /// Bytes of the file without its log.
    pub bytes: u64,
    /// Bytes in it that are free.
    pub free_bytes: u64,
}

impl Inspection {
    /// Opens the file at `path` for reading.
    ///
    /// # Errors
    /// The file is missing, not readable, or not a database.
    pub async fn open(path: &Path, seal: Option<Seal>) -> Result<Self, StoreError> {
        let fault = ErrorContext::of(path);
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .pragma("query_only", "1");
        let opened = options.disable_statement_logging().connect().await;
        let connection = opened.map_err(|error| fault.at("open the database", error))?;
        Ok(Self {
            connection,
            seal,
            fault,
        })
    }

    /// Reads and checks the whole file.
    ///
    /// # Errors
    /// The disk fails. Damage is not an error, but part of the result.
    pub async fn check(&mut self) -> Result<Health, StoreError> {
        let mut health = Health::default();
        let checked = self.read_all(&mut health).await;
        // what was only read needs no end, and a file that cannot be read may not have begun
        let _ = sqlx::query("ROLLBACK").execute(&mut self.connection).await;
        match checked {
            Ok(()) => {}
            Err(error) if super::result_code::is_damage(&error) => {
                health.faults.push(error.to_string())
            }
            Err(error) => return Err(self.fault.at("check the database", error)),
        }
        Ok(health)
    }

    async fn read_all(&mut self, health: &mut Health) -> Result<(), sqlx::Error> {
        let connection = &mut self.connection;
        // one state of the file for all that follows, whatever its owner writes meanwhile
        sqlx::query("BEGIN").execute(&mut *connection).await?;
        let number = async |connection: &mut SqliteConnection, pragma: &'static str| {
            let number: i64 = sqlx::query_scalar(pragma).fetch_one(connection).await?;
            Ok::<_, sqlx::Error>(number.cast_unsigned())
        };
        let page = number(connection, "PRAGMA page_size").await?;
        health.bytes = page * number(connection, "PRAGMA page_count").await?;
        health.free_bytes = page * number(connection, "PRAGMA freelist_count").await?;
        let verdicts = sqlx::query_scalar("PRAGMA integrity_check(100)");
        let verdicts: Vec<String> = verdicts.fetch_all(&mut *connection).await?;
        health
            .faults
            .extend(verdicts.into_iter().filter(|verdict| verdict != "ok"));
        identity::check(connection).await?;
        health.revision = revision(connection).await?;
        let columns = columns(connection).await?;
        let all = text_of(columns);
        let mut rows = sqlx::query(AssertSqlSafe(all)).fetch(connection);
        while let Some(row) = rows.try_next().await? {
            health.objects += 1;
            let value: &[u8] = row.try_get(1).unwrap_or_default();
            health.sealed += u64::from(value.first() == Some(&super::seal::MARK));
            let fault = match object(self.seal.as_ref(), key(&row)?, &row) {
                Ok(Ok(object)) if object.revision > health.revision => {
                    Some((object.key, "it is newer than the database".to_owned()))
                }
                Ok(Ok(_)) => None,
                Ok(Err(DamagedObject { key, damage, .. })) => Some((key, damage.to_string())),
                Err(sqlx::Error::Decode(why)) if is_locked(&*why) => {
                    health.locked += 1;
                    None
                }
                Err(sqlx::Error::Decode(why)) => Some((key(&row)?, why.to_string())),
                Err(error) => return Err(error),
            };
            if health.damaged.len() < MAX_FAULTS {
                health.damaged.extend(fault);
            }
        }
        Ok(())
    }

    /// Returns the object at `key`, decrypted.
    ///
    /// # Errors
    /// The file cannot be read, or what was sealed cannot be opened.
    pub async fn get(&mut self, key: &Key) -> Result<Option<Object>, StoreError> {
        let read = async {
            let columns = columns(&mut self.connection).await?;
            let query = format!(
                "SELECT {columns} FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3"
            );
            let query = sqlx::query(AssertSqlSafe(query)).bind(key.resource.as_str());
            let query = query.bind(&key.namespace).bind(&key.name);
            let row = query.fetch_optional(&mut self.connection).await?;
            row.map(|row| object(self.seal.as_ref(), key.clone(), &row))
                .transpose()
        };
        let read: Result<_, sqlx::Error> = read.await;
        let read = read.map_err(|error| self.fault.at("read an object", error))?;
        read.map(readable).transpose()
    }

    /// Closes the file, so that it can be renamed.
    pub async fn close(self) {
        // what was only read has nothing to lose
        let _ = self.connection.close().await;
    }

    /// Returns all objects, decrypted, in the order of (collection, namespace, name). A damaged one is [`StoreError::Damaged`], and
    /// others follow.
    pub fn objects(&mut self) -> impl Stream<Item = Result<Object, StoreError>> + Send {
        let (fault, seal) = (self.fault.clone(), self.seal.clone());
        all(&mut self.connection).map(move |row| {
            let read = row.and_then(|row| object(seal.as_ref(), key(&row)?, &row));
            readable(read.map_err(|error| fault.at("read an object", error))?)
        })
    }
}

/// Reports whether an object could not be read because its key is missing.
fn is_locked(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    matches!(
        error.downcast_ref(),
        Some(SealError::WrongKey(_) | SealError::NotGiven(_))
    )
}

fn readable(read: Read) -> Result<Object, StoreError> {
    read.map_err(|DamagedObject { key, damage, .. }| StoreError::Damaged {
        key,
        source: damage,
    })
}

/// Returns the columns of an object for [`object`]; an older file has no checksums.
pub(super) async fn columns(
    connection: &mut SqliteConnection,
) -> Result<&'static str, sqlx::Error> {
    let query = "SELECT count(*) FROM pragma_table_info('objects') WHERE name = 'checksum'";
    let has_checksums: i64 = sqlx::query_scalar(query).fetch_one(connection).await?;
    Ok(if has_checksums == 0 {
        "revision, value, NULL"
    } else {
        "revision, value, checksum"
    })
}

fn text_of(columns: &str) -> String {
    format!(
        "SELECT {columns}, namespace, name, resource FROM objects ORDER BY resource, namespace, name"
    )
}

/// Returns the rows of all objects.
fn all(
    connection: &mut SqliteConnection,
) -> impl Stream<Item = Result<SqliteRow, sqlx::Error>> + Send {
    let first = async {
        let columns = columns(connection).await?;
        Ok::<_, sqlx::Error>(sqlx::query(AssertSqlSafe(text_of(columns))).fetch(connection))
    };
    futures::stream::once(first).try_flatten()
}

/// Returns the key of an object in a row of [`text_of`].
pub(super) fn key(row: &SqliteRow) -> Result<Key, sqlx::Error> {
    Ok(Key::new(
        Resource::named(&text(row, 5)?),
        text(row, 3)?,
        text(row, 4)?,
    ))
}
