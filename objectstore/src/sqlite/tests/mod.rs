//! What only a store on disk can do: outlive its process, and fail with its disk.

mod damage;
mod objects;
mod repair;
mod sealing;

use std::{error::Error, os::unix::fs::PermissionsExt, time::Duration};

use sqlx::ConnectOptions;
use tokio::time::timeout;

use super::*;
use crate::{
    Expect, Resource,
    suite::{Kind, commit, pod, pods, put},
};

fn all() -> Scope {
    Scope {
        resource: pods(),
        namespace: None,
    }
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_drop_without_close() {
    let kind = Kind::sqlite();
    let store = kind.open(LogLimits::EDGE).await;
    let kept = commit(&*store, put(pod("a", "kept"), "é \u{1F600}")).await;
    commit(&*store, put(pod("a", "gone"), 1)).await;
    let delete = Write {
        key: pod("a", "gone"),
        expect: Expect::Anything,
        value: None,
    };
    let deletion = commit(&*store, delete).await.revision;
    drop(store);

    let store = kind.open(LogLimits::EDGE).await;
    assert_eq!(store.get(&kept.key).await.unwrap(), Some(kept));
    assert_eq!(
        store
            .list(&all(), &Page::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    assert_eq!(
        store.revision(),
        deletion,
        "a deleted object's revision is not given twice"
    );
    assert_eq!(
        commit(&*store, put(pod("a", "new"), 1)).await.revision,
        deletion + 1
    );
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart_only_from_the_newest_revision() {
    let kind = Kind::sqlite();
    let store = kind.open(LogLimits::EDGE).await;
    let revision = commit(&*store, put(pod("a", "x"), 1)).await.revision;
    drop(store);

    let store = kind.open(LogLimits::EDGE).await;
    assert!(matches!(
        store.watch(all(), revision - 1),
        Err(StoreError::Expired { .. })
    ));
    let mut watch = store.watch(all(), revision).unwrap();
    let next = commit(&*store, put(pod("a", "x"), 2)).await;
    assert_eq!(watch.next().await.unwrap().object, next);
}

#[tokio::test]
async fn commits_in_flight_share_transactions_and_are_refused_alone() {
    let kind = Kind::sqlite();
    let store = kind.open(LogLimits::CLOUD).await;
    let writes = (0..200).map(|number| {
        let expect = if number % 10 == 9 {
            Expect::Revision(7777)
        } else {
            Expect::Absent
        };
        store.commit(vec![Write {
            expect,
            ..put(pod("a", &number.to_string()), number)
        }])
    });
    let outcomes = futures::future::join_all(writes).await;
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_err(), number % 10 == 9, "{number}: {outcome:?}");
    }
    assert_eq!(
        store
            .list(&all(), &Page::default())
            .await
            .unwrap()
            .items
            .len(),
        180
    );
    assert_eq!(store.revision(), 1 + 180);
}

#[tokio::test]
async fn another_writer_is_noticed_and_watchers_list_again() {
    let kind = Kind::sqlite();
    let (one, two) = (
        kind.open(LogLimits::EDGE).await,
        kind.open(LogLimits::EDGE).await,
    );
    let mut watch = one.watch(all(), one.revision()).unwrap();
    let foreign = commit(&*two, put(pod("a", "theirs"), 1)).await;
    let own = commit(&*one, put(pod("a", "ours"), 1)).await;
    assert_eq!(own.revision, foreign.revision + 1);
    assert!(matches!(
        watch.next().await,
        Err(StoreError::Expired { .. })
    ));
    let listing = one.list(&all(), &Page::default()).await.unwrap();
    assert_eq!(listing.items.len(), 2);
    assert!(one.watch(all(), listing.revision).is_ok());
}

#[tokio::test]
async fn what_another_writer_has_written_over_is_not_what_stands() {
    let kind = Kind::sqlite();
    let (one, two) = (
        kind.open(LogLimits::EDGE).await,
        kind.open(LogLimits::EDGE).await,
    );
    let ours = commit(&*one, put(pod("a", "x"), 1)).await;
    let others: Vec<_> = (0..100)
        .map(|number| put(pod("b", &number.to_string()), 1))
        .collect();
    one.commit(others).await.unwrap();
    let theirs = commit(&*two, put(pod("a", "x"), 2)).await;
    // known to the first one, all of them, and only one has changed
    let rewritten = (0..100).map(|number| put(pod("b", &number.to_string()), 2));
    let over = Write {
        expect: Expect::Revision(ours.revision),
        ..put(pod("a", "x"), 3)
    };
    let refused = one.commit(rewritten.chain([over]).collect()).await;
    assert!(
        matches!(refused, Err(StoreError::Conflict { found, .. }) if found == theirs.revision),
        "{refused:?}"
    );
    let over = Write {
        expect: Expect::Revision(theirs.revision),
        ..put(pod("a", "x"), 3)
    };
    commit(&*one, over).await;
}

#[tokio::test]
async fn what_was_written_last_is_read_without_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&dir.path().join("objects.db"))
        .await
        .unwrap();
    let written = commit(&*store, put(pod("a", "x"), 1)).await;
    // nobody else reads while these are lent
    let _lent = (
        store.readers.lend().await.unwrap(),
        store.readers.lend().await.unwrap(),
    );
    assert_eq!(store.get(&written.key).await.unwrap(), Some(written));
    let rewritten = commit(&*store, put(pod("a", "x"), 2)).await;
    assert_eq!(store.get(&rewritten.key).await.unwrap(), Some(rewritten));
}

#[tokio::test]
async fn readers_that_are_not_polled_do_not_stop_others() {
    let Kind::Sqlite(dir) = Kind::sqlite() else {
        unreachable!()
    };
    let store = SqliteStore::open(&dir.path().join("objects.db"))
        .await
        .unwrap();
    let (scope, page) = (all(), Page::default());
    // each has begun to read, and is not polled again
    let mut waiting: Vec<_> = (0..8).map(|_| store.list(&scope, &page)).collect();
    for list in &mut waiting {
        assert!(futures::poll!(list).is_pending());
    }
    let listed = timeout(Duration::from_secs(60), store.list(&scope, &page)).await;
    assert!(listed.expect("the others keep the connections").is_ok());
}

#[tokio::test]
async fn a_damaged_object_is_named_and_can_be_deleted() {
    let Kind::Sqlite(dir) = Kind::sqlite() else {
        unreachable!()
    };
    let path = dir.path().join("objects.db");
    let store = SqliteStore::open(&path).await.unwrap();
    commit(&*store, put(pod("a", "x"), 1)).await;
    let mut hand = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&path)
        .connect()
        .await
        .unwrap();
    sqlx::query("UPDATE objects SET value = x'ff00'")
        .execute(&mut hand)
        .await
        .unwrap();

    // one that has not written it
    let store = SqliteStore::open(&path).await.unwrap();
    let read = store.get(&pod("a", "x")).await;
    assert!(
        matches!(&read, Err(StoreError::Damaged { key, .. }) if *key == pod("a", "x")),
        "{read:?}"
    );
    let mut watch = store.watch(all(), store.revision()).unwrap();
    let delete = Write {
        key: pod("a", "x"),
        expect: Expect::Anything,
        value: None,
    };
    commit(&*store, delete).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event.object.value().unwrap()["metadata"]["name"], "x");
    assert_eq!(store.get(&pod("a", "x")).await.unwrap(), None);
}

#[tokio::test]
async fn a_commit_waits_for_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = super::open::open(&dir.path().join("objects.db"), None)
        .await
        .unwrap();
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous")
        .fetch_one(&mut opened.writer)
        .await
        .unwrap();
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut opened.writer)
        .await
        .unwrap();
    assert_eq!(
        (synchronous, journal.as_str()),
        (2, "wal"),
        "FULL syncs the log before a commit is told"
    );
}

#[tokio::test]
async fn many_at_once_never_find_the_file_locked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let writers = (0..32).map(|writer| {
        let store = store.clone();
        async move {
            for number in 0..20 {
                let name = format!("{writer}-{number}");
                store
                    .commit(vec![put(pod("a", &name), "x".repeat(2000))])
                    .await
                    .unwrap();
                store.get(&pod("a", &name)).await.unwrap().unwrap();
                store
                    .list(
                        &all(),
                        &Page {
                            limit: Some(10),
                            ..Page::default()
                        },
                    )
                    .await
                    .unwrap();
            }
        }
    });
    // other programs: one that reads long, one that looks
    let foreign = async {
        for _ in 0..20 {
            let mut look = Inspection::open(&path, None).await.unwrap();
            assert_eq!(look.check().await.unwrap().faults, Vec::<String>::new());
        }
    };
    futures::join!(futures::future::join_all(writers), foreign);
    assert_eq!(
        store
            .list(&all(), &Page::default())
            .await
            .unwrap()
            .items
            .len(),
        640
    );
}

#[tokio::test]
async fn file_and_log_become_smaller_when_what_they_hold_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let store = SqliteStore::open(&path).await.unwrap();
    let size = |suffix: &str| {
        std::fs::metadata(format!("{}{suffix}", path.display()))
            .unwrap()
            .len()
    };
    let big = (0..400)
        .map(|number| put(pod("a", &number.to_string()), "x".repeat(20_000)))
        .collect();
    store.commit(big).await.unwrap();
    let delete = |number: i32| Write {
        value: None,
        ..put(pod("a", &number.to_string()), 0)
    };
    store.commit((0..400).map(delete).collect()).await.unwrap();
    for number in 0..300 {
        commit(&*store, put(pod("a", "small"), number)).await;
    }
    assert!(
        size("") < 2 << 20,
        "{} bytes of 8 million are left in the file",
        size("")
    );
    assert!(
        size("-wal") < 4 << 20,
        "{} bytes are left in the log",
        size("-wal")
    );
}

#[tokio::test]
async fn the_file_is_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let store = SqliteStore::open(&path).await.unwrap();
    commit(
        &*store,
        put(Key::new(Resource::new("", "secrets"), "a", "x"), 1),
    )
    .await;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.path());
    }
}

async fn refusal(path: &Path) -> String {
    let error = SqliteStore::open(path).await.expect_err("opened");
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error} does not name the file"
    );
    assert!(!cause.is_empty());
    format!("{error}: {cause}").replace(&path.display().to_string(), "PATH")
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_refused_with_cause_and_cure() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("text.db"), "apiVersion: v1\n".repeat(400)).unwrap();
    std::fs::create_dir(path("folder.db")).unwrap();
    let refusals = [
        refusal(&path("no/such/folder.db")).await,
        refusal(&path("folder.db")).await,
        refusal(&path("text.db")).await,
    ];
    insta::assert_snapshot!(refusals.join("\n"), @r"
    store PATH: cannot open or create the file; create its folder first: error communicating with database: No such file or directory (os error 2)
    store PATH: cannot open or create the file; it is a folder: name a file: error communicating with database: Is a directory (os error 21)
    store PATH: cannot open the database; the file is damaged or no database: move it away and restart: encountered unexpected or invalid data: not a database, or its header or that of its log is damaged
    ");
}

#[tokio::test]
async fn a_torn_file_is_found_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let mut hand = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&path)
        .create_if_missing(true)
        .connect()
        .await
        .unwrap();
    for statement in [
        "CREATE TABLE t (v BLOB)",
        "INSERT INTO t VALUES (zeroblob(100000))",
    ] {
        sqlx::query(statement).execute(&mut hand).await.unwrap();
    }
    sqlx::Connection::close(hand).await.unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2 / 4096 * 4096)
        .unwrap();
    assert!(refusal(&path).await.contains("move it away"));
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    drop(SqliteStore::open(&path).await.unwrap());
    let mut hand = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&path)
        .connect()
        .await
        .unwrap();
    let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                 VALUES (9999, 'from the future', TRUE, x'00', 0)";
    sqlx::query(newer).execute(&mut hand).await.unwrap();
    assert!(refusal(&path).await.contains("another version"));
}

#[tokio::test]
async fn a_failed_transaction_is_the_answer_to_each_of_its_commits() {
    let kind = Kind::sqlite();
    let store = kind.open(LogLimits::EDGE).await;
    let Kind::Sqlite(dir) = &kind else {
        unreachable!()
    };
    let path = dir.path().join("objects.db");
    let mut hand = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(&path)
        .connect()
        .await
        .unwrap();
    sqlx::query("DROP TABLE objects")
        .execute(&mut hand)
        .await
        .unwrap();
    let before = store.revision();
    let commits =
        (0..50).map(|number| store.commit(vec![put(pod("a", &number.to_string()), number)]));
    for outcome in futures::future::join_all(commits).await {
        assert!(
            matches!(outcome, Err(StoreError::Disk { step: "commit", .. })),
            "{outcome:?}"
        );
    }
    assert_eq!(store.revision(), before);
    assert!(
        store.watch(all(), before + 1).is_err(),
        "a watch of what was not committed"
    );
}

/// A client that watches or lists from the revision of what it has read must never be told that this revision lies in the future.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_is_published() {
    let kind = Kind::sqlite();
    let store = kind.open(LogLimits::EDGE).await;
    let writes = async {
        for number in 0..200 {
            store
                .commit(vec![put(pod("a", "x"), number), put(pod("a", "y"), number)])
                .await
                .unwrap();
        }
    };
    let done = std::cell::Cell::new(false);
    let reads = async {
        while !done.get() {
            let page = Page::default();
            let listed = store.list(&all(), &page).await.unwrap().revision;
            assert!(store.revision() >= listed, "list of {listed}");
            store.watch(all(), listed).unwrap();
            let got = store.get(&pod("a", "x")).await.unwrap();
            let got = got.map_or(0, |object| object.revision);
            assert!(store.revision() >= got, "get of {got}");
        }
    };
    tokio::join!(
        async {
            writes.await;
            done.set(true);
        },
        reads
    );
}
