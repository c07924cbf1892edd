//! One damaged object among others: it is named, the others are read, and it can be written anew or deleted.

use std::path::Path;

use sqlx::{AssertSqlSafe, ConnectOptions, SqliteConnection};

use super::*;
use crate::{
    Damage, EventKind, Expect, Resource,
    suite::{commit, pod, pods, put},
};

async fn hand(path: &Path) -> SqliteConnection {
    sqlx::sqlite::SqliteConnectOptions::new()
        .filename(path)
        .connect()
        .await
        .unwrap()
}

async fn run(path: &Path, statement: &str) {
    let mut hand = hand(path).await;
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(&mut hand)
        .await
        .unwrap();
    sqlx::Connection::close(hand).await.unwrap();
}

/// A closed store with ten pods, without a log.
async fn ten(path: &Path) {
    let store = SqliteStore::open(path).await.unwrap();
    let all = (0..10)
        .map(|number| put(pod("a", &format!("p-{number}")), format!("note {number}")))
        .collect();
    store.commit(all).await.unwrap();
    drop(store);
    run(path, "PRAGMA wal_checkpoint(TRUNCATE)").await;
}

/// Every way in which the object `p-4` is damaged, as a statement; the last two change bytes of the file.
const DAMAGES: [(&str, &str); 16] = [
    (
        "cut",
        "UPDATE objects SET value = substr(value, 1, 9) WHERE name = 'p-4'",
    ),
    ("empty", "UPDATE objects SET value = x'' WHERE name = 'p-4'"),
    (
        "huge",
        "UPDATE objects SET value = zeroblob(16000000) WHERE name = 'p-4'",
    ),
    (
        "no UTF-8",
        "UPDATE objects SET value = x'7bff22fe7d' WHERE name = 'p-4'",
    ),
    (
        "no object",
        "UPDATE objects SET value = CAST('[]' AS BLOB) WHERE name = 'p-4'",
    ),
    (
        "a number",
        "UPDATE objects SET value = CAST('7' AS BLOB) WHERE name = 'p-4'",
    ),
    (
        "another object",
        "UPDATE objects SET value = CAST('{\"metadata\":{}}' AS BLOB) WHERE name = 'p-4'",
    ),
    (
        "one of the others",
        "UPDATE objects SET value = (SELECT value FROM objects WHERE name = 'p-5') WHERE name = 'p-4'",
    ),
    (
        "the mark of a sealed one",
        "UPDATE objects SET value = CAST(x'01' || value AS BLOB) WHERE name = 'p-4'",
    ),
    (
        "another revision",
        "UPDATE objects SET revision = revision - 1 WHERE name = 'p-4'",
    ),
    (
        "another checksum",
        "UPDATE objects SET checksum = 5 WHERE name = 'p-4'",
    ),
    (
        "no checksum, no JSON",
        "UPDATE objects SET value = x'7b7b', checksum = NULL WHERE name = 'p-4'",
    ),
    (
        "no checksum, no object",
        "UPDATE objects SET value = x'5b5d', checksum = NULL WHERE name = 'p-4'",
    ),
    (
        "no checksum, empty",
        "UPDATE objects SET value = x'', checksum = NULL WHERE name = 'p-4'",
    ),
    ("a byte flipped", ""),
    ("a bit flipped", ""),
];

async fn damage(path: &Path, what: &str, statement: &str) {
    if !statement.is_empty() {
        return run(path, statement).await;
    }
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.windows(6).position(|part| part == b"note 4").unwrap();
    // both are JSON as before
    if what == "a byte flipped" {
        bytes[at] = b'N';
    } else {
        bytes[at + 5] ^= 1;
    }
    std::fs::write(path, bytes).unwrap();
}

fn names(listing: &Listing) -> Vec<&str> {
    listing
        .items
        .iter()
        .map(|object| object.key.name.as_str())
        .collect()
}

#[tokio::test]
async fn one_damaged_object_is_named_and_nothing_else_is_lost() {
    const OTHERS: [&str; 9] = [
        "p-0", "p-1", "p-2", "p-3", "p-5", "p-6", "p-7", "p-8", "p-9",
    ];
    for (what, statement) in DAMAGES {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("objects.db");
        ten(&path).await;
        damage(&path, what, statement).await;
        let recovered = SqliteStore::open_or_begin_anew(&path, SqliteOptions::default())
            .await
            .unwrap();
        assert_eq!(recovered.set_aside, None, "{what}");
        let store = recovered.store;
        let key = pod("a", "p-4");
        // found before anybody asks
        assert_eq!(
            store.damaged_objects().now().keys().collect::<Vec<_>>(),
            [&key],
            "{what}"
        );
        let read = store.get(&key).await;
        assert!(
            matches!(&read, Err(StoreError::Damaged { key: found, .. }) if *found == key),
            "{what}: {read:?}"
        );
        assert_eq!(
            names(&store.list(&all(), &Page::default()).await.unwrap()),
            OTHERS,
            "{what}"
        );
        let scope = Scope {
            resource: pods(),
            namespace: Some("a".to_owned()),
        };
        for limit in 1..=10 {
            let (mut page, mut seen) = (
                Page {
                    after: None,
                    limit: Some(limit),
                },
                Vec::new(),
            );
            loop {
                let listing = store.list(&scope, &page).await.unwrap();
                seen.extend(listing.items.iter().map(|object| object.key.name.clone()));
                let Some(last) = listing.items.last().filter(|_| listing.remaining > 0) else {
                    break;
                };
                page.after = Some((last.key.namespace.clone(), last.key.name.clone()));
            }
            assert_eq!(seen, OTHERS, "{what}, {limit} a page");
        }
        let health = Inspection::open(&path, None)
            .await
            .unwrap()
            .check()
            .await
            .unwrap();
        let found: Vec<_> = health
            .damaged
            .iter()
            .map(|(key, _)| key.name.as_str())
            .collect();
        assert_eq!((health.faults, found), (Vec::new(), vec!["p-4"]), "{what}");
    }
}

#[tokio::test]
async fn a_damaged_object_is_written_anew_or_deleted() {
    for (what, statement) in DAMAGES {
        for expect in [Expect::Absent, Expect::Anything] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("objects.db");
            ten(&path).await;
            damage(&path, what, statement).await;
            let store = SqliteStore::open(&path).await.unwrap();
            let mut damaged = store.damaged_objects();
            let mut watch = store.watch(all(), store.revision()).unwrap();
            let written = commit(
                &*store,
                Write {
                    expect,
                    ..put(pod("a", "p-4"), "new")
                },
            )
            .await;
            let event = watch.next().await.unwrap();
            assert_eq!(
                (event.object, event.previous),
                (written.clone(), None),
                "{what}"
            );
            assert!(damaged.changed().await.is_empty(), "{what}");
            drop(store);
            let store = SqliteStore::open(&path).await.unwrap();
            assert_eq!(
                store.get(&written.key).await.unwrap(),
                Some(written),
                "{what}"
            );
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("objects.db");
        ten(&path).await;
        damage(&path, what, statement).await;
        let store = SqliteStore::open(&path).await.unwrap();
        let mut watch = store.watch(all(), store.revision()).unwrap();
        let delete = Write {
            key: pod("a", "p-4"),
            expect: Expect::Anything,
            value: None,
        };
        commit(&*store, delete).await;
        let event = watch.next().await.unwrap();
        assert_eq!(
            (event.kind, event.previous),
            (EventKind::Deleted, None),
            "{what}"
        );
        assert_eq!(
            event.object.value().unwrap()["metadata"]["name"],
            "p-4",
            "{what}"
        );
        assert!(store.damaged_objects().now().is_empty(), "{what}");
        assert_eq!(store.get(&pod("a", "p-4")).await.unwrap(), None, "{what}");
    }
}

#[tokio::test]
async fn what_is_damaged_while_the_store_is_open_is_found_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    ten(&path).await;
    let store = SqliteStore::open(&path).await.unwrap();
    let mut damaged = store.damaged_objects();
    assert!(damaged.now().is_empty());
    run(
        &path,
        "UPDATE objects SET value = x'7b' WHERE name IN ('p-4', 'p-9')",
    )
    .await;
    assert_eq!(
        store
            .list(&all(), &Page::default())
            .await
            .unwrap()
            .items
            .len(),
        8
    );
    let found: Vec<_> = damaged
        .changed()
        .await
        .keys()
        .map(|key| key.name.clone())
        .collect();
    assert!(
        found
            .iter()
            .all(|name| ["p-4", "p-9"].contains(&name.as_str())),
        "{found:?}"
    );
    assert!(store.get(&pod("a", "p-9")).await.is_err());
    assert_eq!(store.damaged_objects().now().len(), 2);
}

#[tokio::test]
async fn objects_whose_place_is_damaged_do_not_hide_the_others() {
    for (what, statement) in [
        (
            "another name",
            "UPDATE objects SET name = 'p-4x' WHERE name = 'p-4'",
        ),
        (
            "no UTF-8",
            "UPDATE objects SET name = CAST(x'702dff' AS TEXT) WHERE name = 'p-4'",
        ),
        (
            "another namespace",
            "UPDATE objects SET namespace = CAST(x'ff' AS TEXT) WHERE name = 'p-4'",
        ),
        (
            "another collection",
            "UPDATE objects SET resource = 'podz' WHERE name = 'p-4'",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("objects.db");
        ten(&path).await;
        run(&path, statement).await;
        let store = SqliteStore::open(&path).await.unwrap();
        assert_eq!(store.damaged_objects().now().len(), 1, "{what}");
        assert_eq!(
            store
                .list(&all(), &Page::default())
                .await
                .unwrap()
                .items
                .len(),
            9,
            "{what}"
        );
    }
}

#[tokio::test]
async fn a_file_from_before_there_were_checksums_gets_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    ten(&path).await;
    let before = "ALTER TABLE objects DROP COLUMN checksum; DELETE FROM _sqlx_migrations WHERE version = 2; \
                  UPDATE objects SET value = x'7b' WHERE name = 'p-4'";
    run(&path, before).await;
    // looked into before the new program has had it
    let health = Inspection::open(&path, None)
        .await
        .unwrap()
        .check()
        .await
        .unwrap();
    assert_eq!(
        (health.objects, health.damaged.len()),
        (10, 1),
        "{health:?}"
    );
    let store = SqliteStore::open(&path).await.unwrap();
    assert_eq!(
        store
            .list(&all(), &Page::default())
            .await
            .unwrap()
            .items
            .len(),
        9
    );
    let damaged = store.damaged_objects().now();
    assert!(
        matches!(damaged.get(&pod("a", "p-4")), Some(Damage::NotJson(_))),
        "{damaged:?}"
    );
    drop(store);
    let mut hand = hand(&path).await;
    let without: Vec<String> =
        sqlx::query_scalar("SELECT name FROM objects WHERE checksum IS NULL")
            .fetch_all(&mut hand)
            .await
            .unwrap();
    assert_eq!(without, ["p-4"]);
    sqlx::Connection::close(hand).await.unwrap();
    // the store's own connections may close later, and leave the log to whoever is last
    run(&path, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    // from now on a byte counts
    damage_of(&path, b"note 7", b"note 8");
    let store = SqliteStore::open(&path).await.unwrap();
    assert!(matches!(
        store.damaged_objects().now().get(&pod("a", "p-7")),
        Some(Damage::Changed)
    ));
}

fn damage_of(path: &Path, from: &[u8], to: &[u8]) {
    // what the log has would go before
    let log = format!("{}-wal", path.display());
    assert!(
        std::fs::metadata(log).map_or(0, |log| log.len()) == 0,
        "the log is not in the file"
    );
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes
        .windows(from.len())
        .position(|part| part == from)
        .unwrap();
    bytes[at..at + to.len()].copy_from_slice(to);
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_counter_that_was_damaged_gives_no_revision_twice() {
    for counter in ["0", "-5", "3", "9223372036854775807"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("objects.db");
        ten(&path).await;
        run(&path, &format!("UPDATE counter SET revision = {counter}")).await;
        let store = SqliteStore::open(&path).await.unwrap();
        let newest = store.list(&all(), &Page::default()).await.unwrap().items;
        let newest = newest.iter().map(|object| object.revision).max().unwrap();
        assert!(store.revision() > newest, "{counter}");
        assert!(
            commit(&*store, put(pod("a", "new"), 1)).await.revision > newest,
            "{counter}"
        );
        let resource = Resource::new("", "pods");
        assert_eq!(resource, pods());
    }
}
