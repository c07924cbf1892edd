//! The store in SQLite: one file, one connection, one transaction for all changes of a round.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Row, Sqlite, SqliteConnection,
    query::Query,
    sqlite::{
        SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqliteRow, SqliteSynchronous,
    },
};
use tokio::fs::OpenOptions;
use tracing::warn;

use super::{
    Changes, Queued, Saved, SavedMessage, SavedSession, StoreError, Subscription,
    damage::{self, readable},
};
use crate::{
    codec::{Options, RetainHandling},
    message::{Message, QoS},
};

/// The tables. `version` lets a later broker with other tables recognise them.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS session (client TEXT PRIMARY KEY, user TEXT, expiry INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS subscription (client TEXT, filter TEXT, options INTEGER NOT NULL, id INTEGER, PRIMARY KEY (client, filter)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS queued (sequence INTEGER PRIMARY KEY, client TEXT NOT NULL, topic TEXT NOT NULL, payload BLOB NOT NULL,
  properties BLOB NOT NULL, expires INTEGER, qos INTEGER NOT NULL, retain INTEGER NOT NULL, subscriptions BLOB NOT NULL,
  id INTEGER NOT NULL, released INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS incoming (client TEXT, id INTEGER, PRIMARY KEY (client, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS retained (topic TEXT PRIMARY KEY, payload BLOB NOT NULL, properties BLOB NOT NULL, expires INTEGER, qos INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA user_version = 1;";

/// The numbers of rows in one statement. There are few sizes, so that each is prepared once.
const ROWS: [usize; 3] = [64, 8, 1];

type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

/// The open database.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    connection: SqliteConnection,
}

impl SqliteStore {
    /// Opens or creates the file, and loads everything that is stored. A file that is damaged or belongs to another program is renamed to
    /// `<file>.damaged-<time>` and replaced by an empty one.
    pub(crate) async fn open_or_begin_anew(path: &Path) -> Result<(Self, Saved), StoreError> {
        match Self::open_and_load(path).await {
            Err(error) if damage::is_damage(&error.source) => {
                let aside = damage::set_aside(path).await;
                let aside = aside.map_err(|error| {
                    StoreError::at("move the damaged file away")(sqlx::Error::Io(error))
                })?;
                warn!(
                    damaged = %aside.display(), error = &error as &dyn std::error::Error,
                    "database of MQTT sessions damaged and set aside; starting with an empty database"
                );
                Self::open_and_load(path).await
            }
            opened => opened,
        }
    }

    async fn open_and_load(path: &Path) -> Result<(Self, Saved), StoreError> {
        let mut store = Self::open(path).await?;
        match store.load().await {
            Ok(saved) => Ok((store, saved)),
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    /// Closes the file. Dropping it instead would close it at some later time: SQLite then removes the log by its name, which another file
    /// may have by then.
    async fn close(self) {
        // nothing can be lost of what could not be read
        let _ = self.connection.close().await;
    }

    /// Opens or creates the file, readable by its owner only.
    pub(crate) async fn open(path: &Path) -> Result<Self, StoreError> {
        let created = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .await;
        created
            .map_err(|error| StoreError::at("open or create the file")(sqlx::Error::Io(error)))?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .pragma("mmap_size", "0")
            .pragma("cache_size", "-1024")
            .disable_statement_logging();
        if damage::has_bad_header(path).await {
            let bad = "its header is damaged".to_owned();
            return Err(StoreError::at("open the file")(sqlx::Error::Protocol(bad)));
        }
        let connection = options
            .connect()
            .await
            .map_err(StoreError::at("open the file"))?;
        let mut store = Self { connection };
        match store.prepare().await {
            Ok(()) => Ok(store),
            Err(error) => {
                store.close().await;
                Err(error)
            }
        }
    }

    /// Checks the file and creates the tables.
    async fn prepare(&mut self) -> Result<(), StoreError> {
        let connection = &mut self.connection;
        let verdict = sqlx::query_scalar("PRAGMA quick_check(1)")
            .fetch_one(&mut *connection)
            .await;
        let verdict: String = verdict.map_err(StoreError::at("check the pages"))?;
        if verdict != "ok" {
            return Err(StoreError::at("find whole pages")(sqlx::Error::Protocol(
                verdict,
            )));
        }
        let names = sqlx::query_scalar("SELECT name FROM sqlite_master")
            .fetch_all(&mut *connection)
            .await;
        let names: Vec<String> = names.map_err(StoreError::at("read the tables"))?;
        if let Some(name) = damage::foreign(&names) {
            let foreign = format!("it belongs to another program, which has a table {name}");
            return Err(StoreError::at("use the file")(sqlx::Error::Protocol(
                foreign,
            )));
        }
        let tables = sqlx::raw_sql(SCHEMA).execute(connection).await;
        tables.map(drop).map_err(StoreError::at("make the tables"))
    }

    /// Loads everything that is stored.
    pub(crate) async fn load(&mut self) -> Result<Saved, StoreError> {
        self.read()
            .await
            .map_err(StoreError::at("read the stored sessions"))
    }

    async fn read(&mut self) -> Result<Saved, sqlx::Error> {
        let mut saved = Saved::default();
        let connection = &mut self.connection;
        for row in sqlx::query("SELECT client, user, expiry FROM session")
            .fetch_all(&mut *connection)
            .await?
        {
            saved.sessions.extend(readable("session", session(&row)));
        }
        let query = sqlx::query("SELECT client, filter, options, id FROM subscription");
        for row in query.fetch_all(&mut *connection).await? {
            saved
                .subscriptions
                .extend(readable("subscription", subscription(&row)));
        }
        let query = sqlx::query(
            "SELECT topic, payload, properties, expires, qos, client, retain, subscriptions, sequence, id, released FROM queued ORDER BY sequence",
        );
        for row in query.fetch_all(&mut *connection).await? {
            saved
                .messages
                .extend(readable("queued", decode_queued(&row)));
        }
        for row in sqlx::query("SELECT client, id FROM incoming")
            .fetch_all(&mut *connection)
            .await?
        {
            saved.incoming.extend(readable("incoming", incoming(&row)));
        }
        let query = sqlx::query("SELECT topic, payload, properties, expires, qos FROM retained");
        for row in query.fetch_all(&mut *connection).await? {
            saved
                .retained
                .extend(readable("retained", message(&row, true)).map(Arc::new));
        }
        Ok(saved)
    }

    /// Writes `changes`; they are on disk when this returns.
    pub(crate) async fn commit(&mut self, changes: &Changes) -> Result<(), StoreError> {
        self.write(changes)
            .await
            .map_err(StoreError::at("write a change"))
    }

    async fn write(&mut self, changes: &Changes) -> Result<(), sqlx::Error> {
        let mut transaction = self.connection.begin().await?;
        let to = &mut *transaction;
        let (kept, gone): (Vec<_>, Vec<_>) = changes
            .sessions
            .iter()
            .partition(|(_, session)| session.is_some());
        let put = "INSERT OR REPLACE INTO session (client, user, expiry) VALUES ";
        rows(
            to,
            (put, "(?,?,?)", ""),
            &kept,
            |query, (client, session)| {
                let session = session.as_ref();
                query
                    .bind(&***client)
                    .bind(session.and_then(|session| session.user.as_deref()))
                    .bind(session.map_or(0, |session| session.expiry))
            },
        )
        .await?;
        rows(
            to,
            ("DELETE FROM session WHERE client IN (", "?", ")"),
            &gone,
            |query, (client, _)| query.bind(&***client),
        )
        .await?;
        write_subscriptions(to, changes).await?;
        write_queued(to, changes).await?;
        write_retained(to, changes).await?;
        transaction.commit().await
    }
}

async fn write_subscriptions(
    to: &mut SqliteConnection,
    changes: &Changes,
) -> Result<(), sqlx::Error> {
    let (kept, gone): (Vec<_>, Vec<_>) = changes
        .subscriptions
        .iter()
        .partition(|(_, kept)| kept.is_some());
    let put = "INSERT OR REPLACE INTO subscription (client, filter, options, id) VALUES ";
    rows(
        to,
        (put, "(?,?,?,?)", ""),
        &kept,
        |query, ((client, filter), subscription)| {
            let options = subscription.map_or(0, |subscription| pack(subscription.options));
            let id = subscription.and_then(|subscription| subscription.id);
            query.bind(&**client).bind(&**filter).bind(options).bind(id)
        },
    )
    .await?;
    let drop = (
        "DELETE FROM subscription WHERE (client, filter) IN (VALUES ",
        "(?,?)",
        ")",
    );
    rows(to, drop, &gone, |query, ((client, filter), _)| {
        query.bind(&**client).bind(&**filter)
    })
    .await?;
    let (kept, gone): (Vec<_>, Vec<_>) = changes.incoming.iter().partition(|(_, kept)| **kept);
    let put = (
        "INSERT OR REPLACE INTO incoming (client, id) VALUES ",
        "(?,?)",
        "",
    );
    rows(to, put, &kept, |query, ((client, id), _)| {
        query.bind(&**client).bind(*id)
    })
    .await?;
    let drop = (
        "DELETE FROM incoming WHERE (client, id) IN (VALUES ",
        "(?,?)",
        ")",
    );
    rows(to, drop, &gone, |query, ((client, id), _)| {
        query.bind(&**client).bind(*id)
    })
    .await
}

async fn write_queued(to: &mut SqliteConnection, changes: &Changes) -> Result<(), sqlx::Error> {
    let inserted: Vec<_> = changes.inserted.values().collect();
    let put = "INSERT OR REPLACE INTO queued (sequence, client, topic, payload, properties, expires, qos, retain, subscriptions, id, released) VALUES ";
    rows(
        to,
        (put, "(?,?,?,?,?,?,?,?,?,?,?)", ""),
        &inserted,
        |query, saved| {
            let Queued {
                sequence,
                message,
                qos,
                retain,
                subscription_ids,
            } = &saved.queued;
            let ids: Vec<u8> = subscription_ids
                .iter()
                .flat_map(|id| id.to_be_bytes())
                .collect();
            query
                .bind(sequence.cast_signed())
                .bind(&*saved.client)
                .bind(&*message.topic)
                .bind(&*message.payload)
                .bind(&*message.properties)
                .bind(message.expires.map(u64::cast_signed))
                .bind(*qos as u8)
                .bind(*retain)
                .bind(ids)
                .bind(saved.id)
                .bind(saved.released)
        },
    )
    .await?;
    let updated: Vec<_> = changes.updated.iter().collect();
    // The client has the released messages, so their payloads are no longer needed.
    let (released, sent): (Vec<_>, Vec<_>) = updated
        .into_iter()
        .partition(|(_, (_, released))| *released);
    let release = (
        "UPDATE queued SET released = 1, payload = x'' WHERE sequence IN (",
        "?",
        ")",
    );
    rows(to, release, &released, |query, (sequence, _)| {
        query.bind(sequence.cast_signed())
    })
    .await?;
    let send = (
        "WITH sent(sequence, id) AS (VALUES ",
        "(?,?)",
        ") UPDATE queued SET id = sent.id FROM sent WHERE queued.sequence = sent.sequence",
    );
    rows(to, send, &sent, |query, (sequence, (id, _))| {
        query.bind(sequence.cast_signed()).bind(*id)
    })
    .await?;
    let drop = ("DELETE FROM queued WHERE sequence IN (", "?", ")");
    rows(to, drop, &changes.deleted, |query, sequence| {
        query.bind(sequence.cast_signed())
    })
    .await
}

async fn write_retained(to: &mut SqliteConnection, changes: &Changes) -> Result<(), sqlx::Error> {
    let kept: Vec<_> = changes.retained.values().flatten().collect();
    let put = "INSERT OR REPLACE INTO retained (topic, payload, properties, expires, qos) VALUES ";
    rows(to, (put, "(?,?,?,?,?)", ""), &kept, |query, message| {
        query
            .bind(&*message.topic)
            .bind(&*message.payload)
            .bind(&*message.properties)
            .bind(message.expires.map(u64::cast_signed))
            .bind(message.qos as u8)
    })
    .await?;
    let gone: Vec<_> = changes
        .retained
        .iter()
        .filter(|(_, kept)| kept.is_none())
        .collect();
    rows(
        to,
        ("DELETE FROM retained WHERE topic IN (", "?", ")"),
        &gone,
        |query, (topic, _)| query.bind(&***topic),
    )
    .await
}

/// Runs one statement for many items. The SQL is `(before, each, after)`; `bind` binds the values of each item.
async fn rows<'q, T>(
    to: &mut SqliteConnection,
    (before, each, after): (&str, &str, &str),
    items: &'q [T],
    bind: impl Fn(Statement<'q>, &'q T) -> Statement<'q>,
) -> Result<(), sqlx::Error> {
    let mut rest = items;
    for size in ROWS {
        if rest.len() < size {
            continue;
        }
        let sql = format!("{before}{}{after}", vec![each; size].join(","));
        while let Some((now, later)) = rest.split_at_checked(size) {
            // The text consists of constants only and contains no values.
            let query = now
                .iter()
                .fold(sqlx::query(AssertSqlSafe(sql.clone())), &bind);
            query.execute(&mut *to).await?;
            rest = later;
        }
    }
    Ok(())
}

fn text(row: &SqliteRow, column: usize) -> Result<Arc<str>, sqlx::Error> {
    Ok(row.try_get::<&str, _>(column)?.into())
}

fn session(row: &SqliteRow) -> Result<(Arc<str>, SavedSession), sqlx::Error> {
    let user: Option<String> = row.try_get(1)?;
    Ok((
        text(row, 0)?,
        SavedSession {
            user: user.map(Into::into),
            expiry: row.try_get(2)?,
        },
    ))
}

fn subscription(row: &SqliteRow) -> Result<(Arc<str>, Arc<str>, Subscription), sqlx::Error> {
    let subscription = Subscription {
        options: unpack(row.try_get(2)?),
        id: row.try_get(3)?,
    };
    Ok((text(row, 0)?, text(row, 1)?, subscription))
}

fn incoming(row: &SqliteRow) -> Result<(Arc<str>, u16), sqlx::Error> {
    Ok((text(row, 0)?, row.try_get(1)?))
}

fn message(row: &SqliteRow, retain: bool) -> Result<Message, sqlx::Error> {
    let blob = |column| Ok::<_, sqlx::Error>(Bytes::copy_from_slice(row.try_get(column)?));
    let expires: Option<i64> = row.try_get(3)?;
    Ok(Message {
        topic: text(row, 0)?,
        payload: blob(1)?,
        properties: blob(2)?,
        expires: expires.map(i64::cast_unsigned),
        qos: QoS::from_number(row.try_get(4)?).unwrap_or(QoS::AtMostOnce),
        retain,
    })
}

fn decode_queued(row: &SqliteRow) -> Result<SavedMessage, sqlx::Error> {
    let message = message(row, row.try_get(6)?)?;
    let ids: &[u8] = row.try_get(7)?;
    let ids = ids
        .chunks_exact(4)
        .map(|id| u32::from_be_bytes([id[0], id[1], id[2], id[3]]))
        .collect();
    let sequence: i64 = row.try_get(8)?;
    Ok(SavedMessage {
        client: text(row, 5)?,
        queued: Queued {
            sequence: sequence.cast_unsigned(),
            qos: message.qos,
            retain: message.retain,
            message: Arc::new(message),
            subscription_ids: ids,
        },
        id: row.try_get(9)?,
        released: row.try_get(10)?,
    })
}

/// Encodes the options as MQTT 5 does in SUBSCRIBE.
fn pack(options: Options) -> u8 {
    let retained = match options.retained {
        RetainHandling::Always => 0,
        RetainHandling::IfNew => 1,
        RetainHandling::Never => 2,
    };
    options.qos as u8
        | u8::from(options.no_local) << 2
        | u8::from(options.retain_as_published) << 3
        | retained << 4
}

fn unpack(byte: u8) -> Options {
    Options {
        qos: QoS::from_number(byte & 3).unwrap_or(QoS::AtMostOnce),
        no_local: byte & 4 != 0,
        retain_as_published: byte & 8 != 0,
        retained: match byte >> 4 {
            0 => RetainHandling::Always,
            1 => RetainHandling::IfNew,
            _ => RetainHandling::Never,
        },
    }
}
