//! Files in every bad state: each is set aside or refused, and the next start is a good one.

use std::path::Path;

use sqlx::ConnectOptions;

use super::*;
use crate::suite::{commit, pod, put};

async fn begin(path: &Path) -> Recovered {
    SqliteStore::open_or_begin_anew(path, SqliteOptions::default())
        .await
        .unwrap()
}

/// A closed store's file with a hundred pods in it, without a log.
async fn whole(path: &Path) -> Vec<u8> {
    let store = SqliteStore::open(path).await.unwrap();
    let pods = (0..100)
        .map(|number| put(pod("a", &format!("p-{number:03}")), "x".repeat(500)))
        .collect();
    store.commit(pods).await.unwrap();
    drop(store);
    run(path, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    std::fs::read(path).unwrap()
}

async fn run(path: &Path, statement: &'static str) {
    let mut hand = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(path)
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql(statement).fetch_all(&mut hand).await.unwrap();
    sqlx::Connection::close(hand).await.unwrap();
}

async fn pods_of(store: &SqliteStore) -> usize {
    let scope = Scope {
        resource: crate::suite::pods(),
        namespace: None,
    };
    store
        .list(&scope, &Page::default())
        .await
        .unwrap()
        .items
        .len()
}

#[tokio::test]
async fn a_whole_file_is_opened_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    whole(&path).await;
    let recovered = begin(&path).await;
    assert_eq!(
        (recovered.set_aside, recovered.was_damaged_before),
        (None, false)
    );
    assert_eq!(pods_of(&recovered.store).await, 100);
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_a_new_one_begun() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let good = whole(&path).await;
    let cut = |length: usize| good[..length].to_vec();
    let overwritten = |at: usize, length: usize| {
        let mut bytes = good.clone();
        bytes[at..at + length].fill(0xa5);
        bytes
    };
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let schema = |from: &[u8], to: &[u8]| {
        let mut bytes = good.clone();
        let at = bytes
            .windows(from.len())
            .position(|part| part == from)
            .expect("the schema has it");
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    let bad = [
        ("half a file", cut(good.len() / 2)),
        ("a file cut inside a page", cut(good.len() - 1000)),
        ("a header alone", cut(100)),
        ("less than a header", cut(17)),
        ("text", b"apiVersion: v1\n".repeat(1000)),
        ("zeros", vec![0; good.len()]),
        ("a header overwritten", overwritten(0, 100)),
        ("the schema overwritten", overwritten(100, 3000)),
        ("a page overwritten", overwritten(good.len() - 8192, 4096)),
        ("a format that SQLite does not support", with(47, 9)),
        ("no text encoding", with(59, 7)),
        ("a write version that SQLite only reads", with(18, 77)),
        ("a read version that SQLite does not read", with(19, 77)),
        ("no page size", with(16, 3)),
        (
            "no schema",
            schema(b"CREATE TABLE objects", b"CREATE TABLE objec(s"),
        ),
        (
            "another table",
            schema(b"CREATE TABLE counter", b"CREATE TABLE bounter"),
        ),
        (
            "another column",
            schema(
                b"    revision INTEGER NOT NULL\n) STRICT",
                b"    rovision INTEGER NOT NULL\n) STRICT",
            ),
        ),
    ];
    for (what, bytes) in bad {
        for file in ["objects.db-wal", "objects.db-shm", "objects.db"] {
            let _ = std::fs::remove_file(dir.path().join(file));
        }
        std::fs::write(&path, &bytes).unwrap();
        let recovered = begin(&path).await;
        let aside = recovered
            .set_aside
            .unwrap_or_else(|| panic!("{what} was taken for whole"));
        assert!(
            std::fs::read(&aside).unwrap() == bytes,
            "{what}: the damaged file was changed"
        );
        assert_eq!(pods_of(&recovered.store).await, 0, "{what}");
        commit(&*recovered.store, put(pod("a", "new"), 1)).await;
        drop(recovered.store);
        let again = begin(&path).await;
        assert_eq!(
            (again.set_aside, again.was_damaged_before),
            (None, true),
            "{what}"
        );
        assert_eq!(pods_of(&again.store).await, 1, "{what}");
    }
}

#[tokio::test]
async fn a_file_of_zero_length_is_new_unless_its_log_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    std::fs::write(&path, b"").unwrap();
    let recovered = begin(&path).await;
    assert_eq!(recovered.set_aside, None);
    commit(&*recovered.store, put(pod("a", "x"), 1)).await;
    let other = tempfile::tempdir().unwrap();
    let cut = other.path().join("objects.db");
    std::fs::write(&cut, b"").unwrap();
    std::fs::copy(
        dir.path().join("objects.db-wal"),
        other.path().join("objects.db-wal"),
    )
    .unwrap();
    let aside = begin(&cut)
        .await
        .set_aside
        .expect("the log was thrown away");
    let log = PathBuf::from(format!("{}-wal", aside.display()));
    assert!(std::fs::metadata(log).unwrap().len() > 0);
}

#[tokio::test]
async fn a_log_of_another_format_is_set_aside_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let store = begin(&path).await.store;
    commit(&*store, put(pod("a", "x"), 1)).await;
    let log = dir.path().join("objects.db-wal");
    let (file, mut bytes) = (std::fs::read(&path).unwrap(), std::fs::read(&log).unwrap());
    drop(store);
    let other = tempfile::tempdir().unwrap();
    let path = other.path().join("objects.db");
    std::fs::write(&path, file).unwrap();
    bytes[7] ^= 1;
    std::fs::write(other.path().join("objects.db-wal"), bytes).unwrap();
    assert!(begin(&path).await.set_aside.is_some());
}

#[tokio::test]
async fn files_of_other_programs_are_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    for statement in ["PRAGMA application_id = 77", "CREATE TABLE meta (key TEXT)"] {
        std::fs::File::create(&path).unwrap();
        run(&path, statement).await;
        run(&path, "CREATE TABLE IF NOT EXISTS t (v)").await;
        assert!(begin(&path).await.set_aside.is_some(), "{statement}");
        std::fs::remove_file(&path).unwrap();
    }
    for statement in [
        "DROP TABLE objects",
        "DROP TABLE counter",
        "DELETE FROM counter",
        "DELETE FROM _sqlx_migrations",
        "DELETE FROM _sqlx_migrations WHERE version = 2",
        "UPDATE _sqlx_migrations SET success = FALSE",
        "UPDATE _sqlx_migrations SET checksum = x'00'",
        "ALTER TABLE objects RENAME COLUMN value TO valve",
        "ALTER TABLE counter RENAME COLUMN revision TO version",
        "DROP TABLE objects; CREATE TABLE objects (resource, namespace, name)",
        "DROP TABLE objects; CREATE VIEW objects AS SELECT 1",
    ] {
        drop(begin(&path).await);
        run(&path, statement).await;
        assert!(begin(&path).await.set_aside.is_some(), "{statement}");
    }
}

#[tokio::test]
async fn what_another_file_would_not_help_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    drop(begin(&path).await);
    run(
        &path,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'from the future', TRUE, x'00', 0)",
    )
    .await;
    let refused = SqliteStore::open_or_begin_anew(&path, SqliteOptions::default())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("another version"), "{refused}");
    let nowhere = dir.path().join("no/such/folder.db");
    assert!(
        SqliteStore::open_or_begin_anew(&nowhere, SqliteOptions::default())
            .await
            .is_err()
    );
    let all: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !all.iter()
            .any(|name| name.to_string_lossy().contains("damaged")),
        "{all:?}"
    );
}

#[tokio::test]
async fn a_file_from_before_it_was_signed_is_signed_and_can_shrink() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let old = [
        "PRAGMA auto_vacuum = NONE",
        "VACUUM",
        "PRAGMA application_id = 0",
    ];
    let store = begin(&path).await.store;
    commit(&*store, put(pod("a", "x"), 1)).await;
    drop(store);
    let mut hand = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&path)
        .connect()
        .await
        .unwrap();
    for statement in old {
        sqlx::query(statement).execute(&mut hand).await.unwrap();
    }
    sqlx::Connection::close(hand).await.unwrap();
    let recovered = begin(&path).await;
    assert_eq!(pods_of(&recovered.store).await, 1);
    let mut hand = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&path)
        .connect()
        .await
        .unwrap();
    for (pragma, expected) in [
        ("PRAGMA auto_vacuum", 2),
        ("PRAGMA application_id", 0x4f75_7472),
    ] {
        let found: i32 = sqlx::query_scalar(pragma)
            .fetch_one(&mut hand)
            .await
            .unwrap();
        assert_eq!(found, expected, "{pragma}");
    }
}

#[tokio::test]
async fn a_look_tells_what_is_wrong_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let good = whole(&path).await;
    let health = Inspection::open(&path, None)
        .await
        .unwrap()
        .check()
        .await
        .unwrap();
    assert_eq!(
        (
            health.faults.len(),
            health.objects,
            health.sealed,
            health.revision
        ),
        (0, 100, 0, 101)
    );
    assert_eq!(health.bytes, good.len() as u64);
    let mut bad = good.clone();
    let at = good.len() - 8192;
    bad[at..at + 4096].fill(0xa5);
    std::fs::write(&path, &bad).unwrap();
    let health = Inspection::open(&path, None)
        .await
        .unwrap()
        .check()
        .await
        .unwrap();
    assert!(!health.faults.is_empty());
    assert!(std::fs::read(&path).unwrap() == bad);
    std::fs::write(&path, &good).unwrap();
    run(
        &path,
        "UPDATE objects SET value = x'ff' WHERE name = 'p-007'",
    )
    .await;
    let health = Inspection::open(&path, None)
        .await
        .unwrap()
        .check()
        .await
        .unwrap();
    assert_eq!(health.faults, Vec::<String>::new());
    let damaged: Vec<_> = health
        .damaged
        .iter()
        .map(|(key, _)| key.to_string())
        .collect();
    assert_eq!(damaged, ["pods a/p-007"]);
    assert!(
        Inspection::open(&dir.path().join("none.db"), None)
            .await
            .is_err()
    );
}
