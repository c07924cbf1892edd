//! Looking into a file without a change to it, also while its owner works: for people.

use std::path::Path;

use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection, sqlite::SqliteConnectOptions};

use super::{Fault, Seal, identity, open::revision, sealing::opened};
use crate::store::{Key, Object, Resource, StoreError};

/// How many faults are told at most.
const MAX_FAULTS: usize = 100;

/// A file that is looked into.
#[derive(Debug)]
pub struct Inspection {
    connection: SqliteConnection,
    seal: Option<Seal>,
    fault: Fault,
}

/// What a look has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// What is wrong; empty for a file that is whole. A hundred lines at most.
    pub faults: Vec<String>,
    /// Objects in it.
    pub objects: u64,
    /// Those among them that are encrypted.
    pub sealed: u64,
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
    /// There is none, it may not be read, or it is no database.
    pub async fn open(path: &Path, seal: Option<Seal>) -> Result<Self, StoreError> {
        let fault = Fault::of(path);
        let options = SqliteConnectOptions::new().filename(path).read_only(true).pragma("query_only", "1");
        let opened = options.disable_statement_logging().connect().await;
        let connection = opened.map_err(|error| fault.at("open the database", error))?;
        Ok(Self { connection, seal, fault })
    }

    /// Reads all of the file.
    ///
    /// # Errors
    /// The disk fails; a damaged file is no error but a fault in the answer.
    pub async fn check(&mut self) -> Result<Health, StoreError> {
        let mut health = Health::default();
        let checked = self.read_all(&mut health).await;
        // what was only read needs no end, and a file that cannot be read may not have begun
        let _ = sqlx::query("ROLLBACK").execute(&mut self.connection).await;
        match checked {
            Ok(()) => {}
            Err(error) if super::is_damage(&error) => health.faults.push(error.to_string()),
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
        health.faults.extend(verdicts.into_iter().filter(|verdict| verdict != "ok"));
        identity::check(connection).await?;
        health.revision = revision(connection).await?;
        let mut rows = std::pin::pin!(rows(connection));
        while let Some((key, revision, value)) = rows.try_next().await? {
            health.objects += 1;
            health.sealed += u64::from(value.first() == Some(&super::seal::MARK));
            let json = opened(self.seal.as_ref(), &key, revision, value).map_err(|error| error.to_string());
            let fault = match json {
                Err(why) => Some(why),
                Ok(_) if revision > health.revision => Some(format!("{key} is newer than the whole")),
                Ok(json) => serde_json::from_slice::<serde::de::IgnoredAny>(&json)
                    .err()
                    .map(|why| format!("{key} is no JSON: {why}")),
            };
            if health.faults.len() < MAX_FAULTS {
                health.faults.extend(fault);
            }
        }
        Ok(())
    }

    /// The object at `key`; what was sealed is opened.
    ///
    /// # Errors
    /// The file cannot be read, or what was sealed cannot be opened.
    pub async fn get(&mut self, key: &Key) -> Result<Option<Object>, StoreError> {
        let query = sqlx::query(
            "SELECT revision, value FROM objects WHERE resource = ?1 AND namespace = ?2 AND name = ?3",
        );
        let query = query.bind(key.resource.as_str()).bind(&key.namespace).bind(&key.name);
        let read = async {
            let Some(row) = query.fetch_optional(&mut self.connection).await? else { return Ok(None) };
            let revision = row.try_get::<i64, _>(0)?.cast_unsigned();
            let json = Bytes::from(opened(self.seal.as_ref(), key, revision, row.try_get(1)?)?);
            Ok(Some(Object { key: key.clone(), revision, json }))
        };
        let read: Result<_, sqlx::Error> = read.await;
        read.map_err(|error| self.fault.at("read an object", error))
    }

    /// Ends the look: whoever renames the file next finds nobody who has it open.
    pub async fn close(self) {
        // what was only read has nothing to lose
        let _ = self.connection.close().await;
    }

    /// Every object, in the order of (collection, namespace, name); what was sealed is opened.
    pub fn objects(&mut self) -> impl Stream<Item = Result<Object, StoreError>> + Send {
        let (fault, seal) = (&self.fault, self.seal.as_ref());
        rows(&mut self.connection).map(move |row| {
            let read = row.and_then(|(key, revision, value)| {
                let json = Bytes::from(opened(seal, &key, revision, value)?);
                Ok(Object { key, revision, json })
            });
            read.map_err(|error| fault.at("read an object", error))
        })
    }
}

fn rows(
    connection: &mut SqliteConnection,
) -> impl Stream<Item = Result<(Key, u64, Vec<u8>), sqlx::Error>> + Send {
    let query = sqlx::query(
        "SELECT resource, namespace, name, revision, value FROM objects ORDER BY resource, namespace, name",
    );
    query.fetch(connection).and_then(async |row| {
        let text = |column: usize| row.try_get::<String, _>(column);
        let key = Key::new(Resource::named(&text(0)?), text(1)?, text(2)?);
        Ok((key, row.try_get::<i64, _>(3)?.cast_unsigned(), row.try_get(4)?))
    })
}
