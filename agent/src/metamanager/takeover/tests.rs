//! Databases of EdgeCore, one of them written by EdgeCore 1.23 itself.

use std::{path::PathBuf, sync::Arc};

use objectstore::{MemoryStore, Page, Resource, Scope, SqliteStore};
use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;

use super::*;
use crate::metamanager::record::{GROUP, record_key};

/// EdgeCore's tables, as its ORM makes them.
const SCHEMA: [&str; 7] = [
    "CREATE TABLE `meta` (`key` text,`type` text,`value` text,PRIMARY KEY (`key`))",
    "CREATE TABLE `meta_v2` (`key` text,`group_version_resource` text,`namespace` text,`name` text,\
     `resource_version` integer,`value` text,PRIMARY KEY (`key`))",
    "CREATE TABLE `device` (`id` text,`name` text,`description` text,`state` text,`last_online` text,PRIMARY KEY (`id`))",
    "CREATE TABLE `device_attr` (`id` integer PRIMARY KEY AUTOINCREMENT,`deviceid` text,`name` text,`description` text,\
     `value` text,`optional` numeric,`attr_type` text,`metadata` text)",
    "CREATE TABLE `device_twin` (`id` integer PRIMARY KEY AUTOINCREMENT,`deviceid` text,`name` text,`description` text,\
     `expected` text,`actual` text,`expected_meta` text,`actual_meta` text,`expected_version` text,`actual_version` text,\
     `optional` numeric,`attr_type` text,`metadata` text)",
    "CREATE TABLE `sub_topics` (`topic` text,PRIMARY KEY (`topic`))",
    "CREATE TABLE `target_urls` (`url` text,PRIMARY KEY (`url`))",
];

struct EdgeCore {
    directory: TempDir,
    connection: SqliteConnection,
}

impl EdgeCore {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new()
            .filename(directory.path().join("edgecore.db"))
            .create_if_missing(true);
        let mut connection = options.connect().await.unwrap();
        for table in SCHEMA {
            sqlx::query(table).execute(&mut connection).await.unwrap();
        }
        Self {
            directory,
            connection,
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("edgecore.db")
    }

    async fn meta(&mut self, key: &str, kind: &str, value: Value) {
        let query = sqlx::query("INSERT INTO meta VALUES (?1, ?2, ?3)")
            .bind(key)
            .bind(kind);
        query
            .bind(value.to_string())
            .execute(&mut self.connection)
            .await
            .unwrap();
    }

    async fn pod(&mut self, name: &str) {
        let pod = pod(name, "5", "a");
        self.meta(&format!("default/pod/{name}"), "pod", pod).await;
    }

    async fn run(&mut self, statement: &'static str) {
        sqlx::query(statement)
            .execute(&mut self.connection)
            .await
            .unwrap();
    }
}

fn pod(name: &str, revision: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": revision},
        "spec": {"nodeName": "edge-1", "restartPolicy": "Never", "containers": [{"name": "c", "image": image}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn store() -> Arc<dyn Store> {
    MemoryStore::new()
}

async fn all(store: &Arc<dyn Store>, group: &str, plural: &str) -> Vec<Value> {
    let scope = Scope {
        resource: Resource::new(group, plural),
        namespace: None,
    };
    let items = store.list(&scope, &Page::default()).await.unwrap().items;
    items.iter().map(|object| object.value().unwrap()).collect()
}

async fn names(store: &Arc<dyn Store>, plural: &str) -> Vec<String> {
    let objects = all(store, "", plural).await;
    objects
        .iter()
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn the_database_of_a_real_edgecore_is_taken_over_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("edgecore.db");
    let original = include_bytes!("testdata/edgecore-1.23.db");
    std::fs::write(&path, original).unwrap();
    let store = store();
    take_over(&path, &store, "ec1").await.unwrap();

    // neither the mirror of a static pod nor a pod that the cloud has deleted and EdgeCore left in meta_v2
    assert_eq!(names(&store, "pods").await, ["crash", "job", "many-0"]);
    assert_eq!(
        names(&store, "configmaps").await,
        ["m0-cm", "shared"],
        "not the one that the cloud did not have"
    );
    assert_eq!(names(&store, "secrets").await, ["m0-s"]);
    assert_eq!(names(&store, "nodes").await, ["ec1"]);
    let pods = all(&store, "", "pods").await;
    assert_eq!(pods[1]["status"]["phase"], "Succeeded");
    assert_eq!(pods[2]["spec"]["volumes"][0]["configMap"]["name"], "shared");
    assert_eq!(
        pods[0]["status"]["podIPs"],
        json!([{"ip": "10.88.0.16"}]),
        "its patch changes nothing that it has"
    );
    let desired = Desired::new(store.clone(), "ec1".into());
    let key = Key::new(Resource::new("", "pods"), "default", "crash");
    let record = desired.entry(&key).await.unwrap().record.unwrap();
    assert_eq!(
        (record.uid.as_str(), record.revision),
        ("d5dabca2-9406-4038-8e62-60eb11592748", 1385)
    );

    let left: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left, ["edgecore.db"]);
    assert!(
        std::fs::read(&path).unwrap() == original,
        "the original was changed"
    );
}

#[tokio::test]
async fn every_table_is_taken_over_once() {
    let mut edgecore = EdgeCore::new().await;
    edgecore.pod("p").await;
    edgecore.pod("q").await;
    let patch = json!({
        "metadata": {"uid": "uid-p"},
        "status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}], "podIP": null},
    });
    edgecore.meta("default/podpatch/p", "podpatch", patch).await;
    let older = json!({"metadata": {"uid": "of an older q"}, "status": {"phase": "Failed"}});
    edgecore.meta("default/podpatch/q", "podpatch", older).await;
    let newer = pod("q", "9", "b").to_string();
    let gone = pod("gone", "3", "a").to_string();
    for (key, value) in [
        ("/core/v1/pods/default/q", newer),
        ("/core/v1/pods/default/gone", gone),
    ] {
        let query = sqlx::query(
            "INSERT INTO meta_v2 VALUES (?1, '/v1, Resource=pods', 'default', 'x', 9, ?2)",
        );
        query
            .bind(key)
            .bind(value)
            .execute(&mut edgecore.connection)
            .await
            .unwrap();
    }
    for statement in [
        "INSERT INTO device VALUES ('d1', 'd1', '', 'online', '')",
        "INSERT INTO device_attr VALUES (7, 'd1', 'a', '', 'v', 1, 'string', '{}')",
        "INSERT INTO device_twin VALUES (3, 'd1', 't', '', '1', '2', '{}', '{}', '{\"cloud\":4}', '{}', 1, 'int', '{}')",
        "INSERT INTO sub_topics VALUES ('a/b')",
        "INSERT INTO target_urls VALUES ('http://127.0.0.1/x')",
        "INSERT INTO meta VALUES (x'ff', 'pod', x'ff')",
    ] {
        edgecore.run(statement).await;
    }
    let store = store();
    assert_eq!(
        take_over(&edgecore.path(), &store, "edge-1").await.unwrap(),
        9
    );
    let pods = all(&store, "", "pods").await;
    assert_eq!(pods.len(), 2);
    assert_eq!(
        pods[0]["status"]["phase"], "Succeeded",
        "what the cloud never heard of"
    );
    assert_eq!(
        pods[0]["status"]["conditions"],
        json!([{"type": "Ready", "status": "False"}])
    );
    assert_eq!(pods[1]["status"]["phase"], "Running");
    assert_eq!(
        pods[1]["spec"]["containers"][0]["image"], "b",
        "the newer of the two states"
    );
    let twin = all(&store, "edgecore.outrigger.dev", "device_twin")
        .await
        .remove(0);
    assert_eq!(twin["row"]["expected_version"], "{\"cloud\":4}");
    for (table, name) in [
        ("device", "d1"),
        ("device_attr", "7"),
        ("sub_topics", "a/b"),
        ("target_urls", "http://127.0.0.1/x"),
    ] {
        assert_eq!(
            all(&store, "edgecore.outrigger.dev", table).await[0]["metadata"]["name"],
            name
        );
    }

    edgecore.pod("later").await;
    assert_eq!(
        take_over(&edgecore.path(), &store, "edge-1").await.unwrap(),
        0,
        "a second time"
    );
}

#[tokio::test]
async fn a_takeover_that_was_cut_off_is_done_again() {
    let mut edgecore = EdgeCore::new().await;
    edgecore.pod("p").await;
    let store = store();
    let desired = Desired::new(store.clone(), "edge-1".into());
    let mark = Key::new(Resource::new(GROUP, "stores"), "", "takeover");
    take_over(&edgecore.path(), &store, "edge-1").await.unwrap();
    desired
        .set(&mark, Some(json!({"metadata": {}, "state": "begun"})))
        .await
        .unwrap();
    edgecore.pod("q").await;
    let before = desired
        .get(&Key::new(Resource::new("", "pods"), "default", "p"))
        .await
        .unwrap();
    take_over(&edgecore.path(), &store, "edge-1").await.unwrap();
    assert_eq!(names(&store, "pods").await, ["p", "q"]);
    let after = desired
        .get(&Key::new(Resource::new("", "pods"), "default", "p"))
        .await
        .unwrap();
    assert_eq!(before, after);
}

#[tokio::test]
async fn a_store_that_has_worked_already_takes_nothing_over() {
    let mut edgecore = EdgeCore::new().await;
    edgecore.pod("p").await;
    let store = store();
    let key = Key::new(Resource::new("", "pods"), "default", "own");
    Desired::new(store.clone(), "edge-1".into())
        .set(&key, Some(pod("own", "1", "a")))
        .await
        .unwrap();
    assert_eq!(
        take_over(&edgecore.path(), &store, "edge-1").await.unwrap(),
        0
    );
    assert_eq!(names(&store, "pods").await, ["own"]);
    assert!(store.get(&record_key(&key)).await.unwrap().is_none());
}

#[tokio::test]
async fn changes_that_a_journal_undoes_are_not_taken_over() {
    let mut edgecore = EdgeCore::new().await;
    edgecore.pod("committed").await;
    // a writer that is killed after it has written to the file and before its commit
    edgecore.run("PRAGMA cache_size = 1").await;
    edgecore.run("PRAGMA cache_spill = 1").await;
    edgecore.run("BEGIN IMMEDIATE").await;
    edgecore.run("DELETE FROM meta").await;
    for number in 0..200 {
        edgecore.pod(&format!("uncommitted-{number}")).await;
    }
    let cut = tempfile::tempdir().unwrap();
    for name in ["edgecore.db", "edgecore.db-journal"] {
        std::fs::copy(edgecore.directory.path().join(name), cut.path().join(name)).unwrap();
    }
    let journal = std::fs::read(cut.path().join("edgecore.db-journal")).unwrap();
    assert!(journal.len() > 512, "nothing was written before the cut");
    let store = store();
    take_over(&cut.path().join("edgecore.db"), &store, "edge-1")
        .await
        .unwrap();
    assert_eq!(names(&store, "pods").await, ["committed"]);
    let mut left: Vec<_> = std::fs::read_dir(cut.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["edgecore.db", "edgecore.db-journal"]);
    assert!(
        std::fs::read(cut.path().join("edgecore.db-journal")).unwrap() == journal,
        "the journal was changed"
    );
}

#[tokio::test]
async fn a_damaged_database_is_read_as_far_as_possible() {
    let mut edgecore = EdgeCore::new().await;
    for number in 0..100 {
        edgecore.pod(&format!("p-{number:03}")).await;
    }
    Connection::close(edgecore.connection).await.unwrap();
    let path = edgecore.directory.path().join("edgecore.db");
    let whole = std::fs::read(&path).unwrap();
    for length in [0, 1, 100, 4096, whole.len() / 2, whole.len() - 4096] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let store = store();
        take_over(&path, &store, "edge-1").await.unwrap();
        assert!(names(&store, "pods").await.len() < 100);
        assert_eq!(
            take_over(&path, &store, "edge-1").await.unwrap(),
            0,
            "once is enough"
        );
    }
    std::fs::write(&path, "apiVersion: v1\n".repeat(1000)).unwrap();
    assert_eq!(take_over(&path, &store(), "edge-1").await.unwrap(), 0);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(take_over(&path, &store(), "edge-1").await.unwrap(), 0);
}

#[tokio::test]
async fn that_edgecore_has_run_since_is_seen_by_its_database() {
    let mut edgecore = EdgeCore::new().await;
    edgecore.pod("p").await;
    let (database, file) = (
        edgecore.path(),
        edgecore.directory.path().join("outrigger.db"),
    );
    assert!(
        !has_edgecore_run_since(&database, &file).await,
        "there is no store yet"
    );
    let store: Arc<dyn Store> = SqliteStore::open(&file).await.unwrap();
    take_over(&database, &store, "edge-1").await.unwrap();
    assert!(!has_edgecore_run_since(&database, &file).await);
    let touched = std::fs::read(&database).unwrap();
    std::fs::write(&database, touched).unwrap();
    assert!(
        !has_edgecore_run_since(&database, &file).await,
        "its bytes are the same"
    );
    edgecore.run("DELETE FROM meta").await;
    assert!(has_edgecore_run_since(&database, &file).await);
    note_exported(&store, &database).await.unwrap();
    assert!(
        !has_edgecore_run_since(&database, &file).await,
        "what was written from the store is not EdgeCore's"
    );

    // an agent that did not record the header completes the mark at its next start
    let desired = Desired::new(store.clone(), "edge-1".into());
    desired
        .set(&mark::key(), Some(json!({"metadata": {}, "state": "done"})))
        .await
        .unwrap();
    assert!(!has_edgecore_run_since(&database, &file).await);
    assert_eq!(take_over(&database, &store, "edge-1").await.unwrap(), 0);
    edgecore.pod("q").await;
    assert!(has_edgecore_run_since(&database, &file).await);
    std::fs::remove_file(&database).unwrap();
    assert!(!has_edgecore_run_since(&database, &file).await);
}
