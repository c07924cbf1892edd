//! Exactly what was committed is read again.

use std::sync::Arc;

use bytes::Bytes;

use super::{Changes, Queued, SavedMessage, SavedSession, Subscription, sqlite::SqliteStore};
use crate::{
    codec::{Options, RetainHandling},
    message::{Message, QoS},
};

fn saved_message(sequence: u64) -> SavedMessage {
    let mut message = Message::new(
        "t/ü".into(),
        Bytes::from(vec![0, 255, 7]),
        QoS::ExactlyOnce,
        false,
    );
    message.properties = Bytes::from_static(&[1, 1]);
    message.expires = Some(1 << 40);
    let queued = Queued {
        sequence,
        message: Arc::new(message),
        qos: QoS::ExactlyOnce,
        retain: false,
        subscription_ids: Box::new([7, 70_000]),
    };
    SavedMessage {
        client: "c".into(),
        queued,
        id: 0,
        released: false,
    }
}

#[tokio::test]
async fn what_is_committed_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mqtt.db");
    let mut store = SqliteStore::open(&path).await.unwrap();
    let options = Options {
        qos: QoS::AtLeastOnce,
        no_local: true,
        retain_as_published: true,
        retained: RetainHandling::Never,
    };
    let (session, subscription) = (
        SavedSession {
            user: Some("u".into()),
            expiry: u32::MAX,
        },
        Subscription {
            options,
            id: Some(268_435_455),
        },
    );
    let mut changes = Changes::default();
    changes.sessions.insert("c".into(), Some(session.clone()));
    changes
        .subscriptions
        .insert(("c".into(), "$share/g/#".into()), Some(subscription));
    for sequence in 1..=150 {
        changes.insert(saved_message(sequence));
    }
    changes.update(1, 9, false);
    changes.incoming.insert(("c".into(), 65_535), true);
    let retained = Arc::new(Message::new(
        "r".into(),
        Bytes::from_static(b"x"),
        QoS::AtLeastOnce,
        true,
    ));
    changes
        .retained
        .insert("r".into(), Some(Arc::clone(&retained)));
    store.commit(&changes).await.unwrap();

    let mut changes = Changes::default();
    (3..=150).for_each(|sequence| changes.delete(sequence));
    changes.update(2, 10, false);
    store.commit(&changes).await.unwrap();
    drop(store);

    let mut store = SqliteStore::open(&path).await.unwrap();
    let read = store.load().await.unwrap();
    assert_eq!(read.sessions.get("c"), Some(&session));
    assert_eq!(
        read.subscriptions,
        [("c".into(), "$share/g/#".into(), subscription)]
    );
    assert_eq!(
        read.messages,
        [
            SavedMessage {
                id: 9,
                ..saved_message(1)
            },
            SavedMessage {
                id: 10,
                ..saved_message(2)
            }
        ]
    );
    assert_eq!(read.incoming, [("c".into(), 65_535)]);
    assert_eq!(read.retained, [retained]);

    let mut changes = Changes::default();
    changes.update(1, 9, true);
    changes.delete(2);
    changes.sessions.insert("c".into(), None);
    changes
        .subscriptions
        .insert(("c".into(), "$share/g/#".into()), None);
    changes.incoming.insert(("c".into(), 65_535), false);
    changes.retained.insert("r".into(), None);
    store.commit(&changes).await.unwrap();
    let read = store.load().await.unwrap();
    assert!(read.sessions.is_empty() && read.subscriptions.is_empty() && read.incoming.is_empty());
    assert!(read.retained.is_empty());
    assert!(
        matches!(&read.messages[..], [one] if one.released && one.queued.message.payload.is_empty())
    );
}

#[tokio::test]
async fn a_torn_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mqtt.db");
    std::fs::write(
        &path,
        "this is no database at all, and it is long enough to be looked at",
    )
    .unwrap();
    assert!(SqliteStore::open(&path).await.is_err());
}

/// Creates a file with one row of every kind, and closes it.
async fn file(path: &std::path::Path) {
    let mut store = SqliteStore::open(path).await.unwrap();
    let mut changes = Changes::default();
    changes.sessions.insert(
        "c".into(),
        Some(SavedSession {
            user: None,
            expiry: 7,
        }),
    );
    for sequence in 1..=50 {
        changes.insert(saved_message(sequence));
    }
    for topic in ["r", "s"] {
        let retained = Message::new(
            topic.into(),
            Bytes::from_static(b"x"),
            QoS::AtLeastOnce,
            true,
        );
        changes
            .retained
            .insert(topic.into(), Some(Arc::new(retained)));
    }
    store.commit(&changes).await.unwrap();
    drop(store);
    run(path, "PRAGMA wal_checkpoint(TRUNCATE)").await;
}

async fn run(path: &std::path::Path, statement: &'static str) {
    use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true);
    let mut hand = options.connect().await.unwrap();
    sqlx::raw_sql(statement).fetch_all(&mut hand).await.unwrap();
    hand.close().await.unwrap();
}

fn aside(directory: &std::path::Path) -> usize {
    let names = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    // the files that SQLite keeps beside a database are moved with it
    names
        .filter(|name| {
            name.contains("damaged") && !name.ends_with("-wal") && !name.ends_with("-shm")
        })
        .count()
}

#[tokio::test]
async fn a_damaged_file_is_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mqtt.db");
    file(&path).await;
    let good = std::fs::read(&path).unwrap();
    let with = |at: usize, length: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at..at + length].fill(byte);
        bytes
    };
    for (what, bytes) in [
        ("half a file", good[..good.len() / 2].to_vec()),
        ("text", b"apiVersion: v1\n".repeat(1000)),
        ("a header alone", good[..100].to_vec()),
        ("a format that is not supported", with(47, 1, 9)),
        ("a write version that is none", with(18, 1, 77)),
        ("a read version that is none", with(19, 1, 77)),
        ("the schema overwritten", with(100, 3000, 0xa5)),
        (
            "the last page overwritten",
            with(good.len() - 4096, 4096, 0xa5),
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mqtt.db");
        std::fs::write(&path, bytes).unwrap();
        let (store, read) = SqliteStore::open_or_begin_anew(&path).await.expect(what);
        assert!(
            read.messages.is_empty() && read.sessions.is_empty(),
            "{what}"
        );
        assert_eq!(aside(directory.path()), 1, "{what}");
        drop(store);
    }
    for statement in [
        "CREATE TABLE meta (key TEXT)",
        "CREATE TABLE session (a, b)",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mqtt.db");
        run(&path, statement).await;
        SqliteStore::open_or_begin_anew(&path)
            .await
            .expect(statement);
        assert_eq!(aside(directory.path()), 1, "{statement}");
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_left_out() {
    for statement in [
        "UPDATE queued SET client = CAST(x'ff' AS TEXT) WHERE sequence = 7; UPDATE retained SET topic = CAST(x'ff' AS TEXT) WHERE topic = 'r'",
        "UPDATE queued SET payload = 'text', topic = x'ff' WHERE sequence = 7; UPDATE retained SET qos = 'high' WHERE topic = 'r'",
        "UPDATE queued SET id = 'x' WHERE sequence = 7; UPDATE retained SET payload = 7 WHERE topic = 'r'",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mqtt.db");
        file(&path).await;
        run(&path, statement).await;
        let (_store, read) = SqliteStore::open_or_begin_anew(&path).await.unwrap();
        assert_eq!(aside(directory.path()), 0, "{statement}");
        assert_eq!(read.messages.len(), 49, "{statement}");
        assert!(
            read.messages
                .iter()
                .all(|message| message.queued.sequence != 7)
        );
        let topics: Vec<&str> = read
            .retained
            .iter()
            .map(|message| &*message.topic)
            .collect();
        assert_eq!(topics, ["s"], "{statement}");
        assert_eq!(read.sessions.len(), 1);
    }
}
