//! Files that are written anew with what can be read of them.

use std::{os::unix::fs::PermissionsExt, path::Path};

use sqlx::ConnectOptions;

use super::*;
use crate::{
    Expect, Resource,
    suite::{commit, pod, put},
};

async fn run(path: &Path, statement: &'static str) {
    let mut hand = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(path)
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql(statement).fetch_all(&mut hand).await.unwrap();
    sqlx::Connection::close(hand).await.unwrap();
}

/// A closed store with a hundred pods in it; answers its revision.
async fn hundred(path: &Path) -> u64 {
    let store = SqliteStore::open(path).await.unwrap();
    let pods = (0..100)
        .map(|number| put(pod("a", &format!("p-{number:03}")), "x".repeat(500)))
        .collect();
    store.commit(pods).await.unwrap();
    let revision = store.revision();
    drop(store);
    run(path, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    revision
}

async fn pods_of(path: &Path) -> (usize, u64) {
    let store = SqliteStore::open(path).await.unwrap();
    assert!(store.damaged_objects().now().is_empty());
    (
        store
            .list(&all(), &Page::default())
            .await
            .unwrap()
            .items
            .len(),
        store.revision(),
    )
}

#[tokio::test]
async fn a_whole_file_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    hundred(&path).await;
    let before = std::fs::read(&path).unwrap();
    assert!(
        SqliteStore::repair(&path, None, &())
            .await
            .unwrap()
            .is_none()
    );
    assert!(std::fs::read(&path).unwrap() == before);
    assert!(
        SqliteStore::repair(&dir.path().join("none.db"), None, &())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn damaged_objects_are_taken_out_and_all_others_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let revision = hundred(&path).await;
    run(
        &path,
        "UPDATE objects SET value = x'7b' WHERE name = 'p-007'",
    )
    .await;
    run(
        &path,
        "UPDATE objects SET name = CAST(x'70ff' AS TEXT) WHERE name = 'p-008'",
    )
    .await;
    let damaged = std::fs::read(&path).unwrap();
    let repaired = SqliteStore::repair(&path, None, &())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (repaired.kept, repaired.lost.len(), repaired.is_torn),
        (98, 2, false),
        "{repaired:?}"
    );
    assert!(
        repaired
            .lost
            .iter()
            .any(|lost| lost.key == pod("a", "p-007"))
    );
    assert!(
        std::fs::read(&repaired.set_aside).unwrap() == damaged,
        "the damaged file is kept"
    );
    assert_eq!(pods_of(&path).await, (98, revision));
    assert!(
        SqliteStore::repair(&path, None, &())
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn what_lies_around_a_torn_page_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    let revision = hundred(&path).await;
    let mut bytes = std::fs::read(&path).unwrap();
    // a page with objects in it, in the middle of them
    let at = bytes.windows(5).position(|part| part == b"p-050").unwrap() / 4096 * 4096;
    bytes[at..at + 4096].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    assert!(
        SqliteStore::open(&path)
            .await
            .unwrap_err()
            .is_damaged_file()
    );
    let repaired = SqliteStore::repair(&path, None, &())
        .await
        .unwrap()
        .unwrap();
    assert!(
        repaired.is_torn && (70..100).contains(&repaired.kept),
        "{repaired:?}"
    );
    let (pods, now) = pods_of(&path).await;
    assert_eq!(pods as u64, repaired.kept);
    assert!(now > revision, "a revision could be given twice");
}

#[tokio::test]
async fn a_file_of_which_nothing_can_be_read_becomes_an_empty_one() {
    for bytes in [
        Vec::new(),
        b"apiVersion: v1\n".repeat(1000),
        vec![0xa5; 100],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("objects.db");
        hundred(&path).await;
        std::fs::write(&path, bytes).unwrap();
        assert!(
            SqliteStore::open(&path)
                .await
                .unwrap_err()
                .is_damaged_file()
        );
        let repaired = SqliteStore::repair(&path, None, &())
            .await
            .unwrap()
            .unwrap();
        assert!(repaired.is_torn && repaired.kept == 0, "{repaired:?}");
        assert_eq!(pods_of(&path).await.0, 0);
    }
}

#[tokio::test]
async fn sealed_objects_stay_sealed_and_need_their_key() {
    let dir = tempfile::tempdir().unwrap();
    let (path, file) = (dir.path().join("objects.db"), dir.path().join("key"));
    Seal::add_key(&file).unwrap();
    assert_eq!(
        std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let seal = Seal::from_file(&file, vec![Resource::new("", "secrets")]).unwrap();
    let options = SqliteOptions {
        seal: Some(seal.clone()),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open_with(&path, options.clone())
        .await
        .unwrap();
    let secret = |name: &str| {
        put(
            Key::new(Resource::new("", "secrets"), "a", name),
            "open sesame",
        )
    };
    store
        .commit(vec![secret("x"), secret("y"), put(pod("a", "p"), 1)])
        .await
        .unwrap();
    drop(store);
    run(
        &path,
        "UPDATE objects SET value = x'7b' WHERE resource = 'pods'",
    )
    .await;
    assert!(
        SqliteStore::repair(&path, None, &()).await.is_err(),
        "Secrets would be lost"
    );
    let repaired = SqliteStore::repair(&path, Some(&seal), &())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((repaired.kept, repaired.lost.len()), (2, 1));
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(11).any(|part| part == b"open sesame"));
    let store = SqliteStore::open_with(&path, options).await.unwrap();
    commit(
        &*store,
        Write {
            expect: Expect::Revision(2),
            ..secret("x")
        },
    )
    .await;
}

#[tokio::test]
async fn an_empty_file_that_had_objects_is_no_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    hundred(&path).await;
    std::fs::write(&path, b"").unwrap();
    let refused = SqliteStore::open(&path).await.unwrap_err();
    assert!(refused.is_damaged_file(), "{refused:?}");
    let recovered = SqliteStore::open_or_begin_anew(&path, SqliteOptions::default())
        .await
        .unwrap();
    assert!(recovered.set_aside.is_some());
    drop(recovered);
    // one that somebody has moved away is
    std::fs::remove_file(&path).unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(dir.path().join(format!("objects.db{suffix}")));
    }
    let recovered = SqliteStore::open_or_begin_anew(&path, SqliteOptions::default())
        .await
        .unwrap();
    assert_eq!(recovered.set_aside, None);
}

/// Writes a pod for each that is lost, and one where there may be others.
struct LossRecorder;

impl RepairHook for LossRecorder {
    fn reads(&self) -> Vec<Resource> {
        vec![Resource::new("", "pods")]
    }

    fn writes(
        &self,
        lost: &[LostObject],
        is_torn: bool,
        left: &[Object],
    ) -> Vec<(Key, serde_json::Value)> {
        let torn = is_torn.then(|| pod("gone", "others"));
        let keys = lost
            .iter()
            .map(|lost| pod("gone", &lost.key.name))
            .chain(torn);
        let value = serde_json::json!({"metadata": {}, "left": left.len(), "bytes": lost.first().map(|lost| &lost.bytes)});
        keys.map(|key| (key, value.clone())).collect()
    }
}

#[tokio::test]
async fn what_is_to_be_said_of_the_lost_is_in_the_new_file() {
    for is_torn in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("objects.db");
        let revision = hundred(&path).await;
        run(
            &path,
            "UPDATE objects SET value = x'7b' WHERE name = 'p-007'",
        )
        .await;
        if is_torn {
            let mut bytes = std::fs::read(&path).unwrap();
            let at = bytes.windows(5).position(|part| part == b"p-050").unwrap() / 4096 * 4096;
            bytes[at..at + 4096].fill(0xa5);
            std::fs::write(&path, bytes).unwrap();
        }
        let repaired = SqliteStore::repair(&path, None, &LossRecorder)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (
                repaired.is_torn,
                repaired.lost.len(),
                &*repaired.lost[0].bytes
            ),
            (is_torn, 1, b"{".as_slice())
        );
        let store = SqliteStore::open(&path).await.unwrap();
        let written = store.get(&pod("gone", "p-007")).await.unwrap().unwrap();
        assert!(written.revision > revision && written.revision <= store.revision());
        assert_eq!(written.value().unwrap()["left"], repaired.kept);
        assert_eq!(
            written.value().unwrap()["metadata"]["resourceVersion"],
            written.revision.to_string()
        );
        assert_eq!(
            store.get(&pod("gone", "others")).await.unwrap().is_some(),
            is_torn
        );
    }
}

#[tokio::test]
async fn a_repair_that_was_cut_off_is_finished_and_leaves_no_new_file_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("objects.db");
    hundred(&path).await;
    run(
        &path,
        "UPDATE objects SET value = x'7b' WHERE name = 'p-007'",
    )
    .await;
    let damaged = std::fs::read(&path).unwrap();
    let repaired = SqliteStore::repair(&path, None, &LossRecorder)
        .await
        .unwrap()
        .unwrap();
    // the power was cut between the two renames
    std::fs::rename(&path, dir.path().join("objects.db.repaired")).unwrap();
    std::fs::write(dir.path().join("objects.db-wal"), b"of the damaged one").unwrap();
    let refused = SqliteStore::open(&path).await.unwrap_err();
    assert!(refused.is_damaged_file() && !path.exists(), "{refused:?}");
    assert!(SqliteStore::is_being_repaired(&path).await);
    let finished = SqliteStore::repair(&path, None, &())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (finished.is_finished, finished.kept),
        (true, repaired.kept + 1)
    );
    assert_eq!(pods_of(&path).await.0 as u64, finished.kept);
    // and before the first one: what the earlier repair has made does not count
    std::fs::write(
        dir.path().join("objects.db.repaired"),
        b"of an earlier repair",
    )
    .unwrap();
    std::fs::write(&path, &damaged).unwrap();
    let again = SqliteStore::repair(&path, None, &())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (again.is_finished, again.kept, pods_of(&path).await.0),
        (false, 99, 99)
    );
    assert!(!dir.path().join("objects.db.repaired").exists());
}
