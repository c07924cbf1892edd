//! Stores as the agent leaves them, and what EdgeCore reads from their export.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt, sync::Arc};

use objectstore::{Expect, Key, MemoryStore, Page, Resource, Scope, Store, Write};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, Row as _, SqliteConnection, sqlite::SqliteConnectOptions};

use super::*;
use crate::metamanager::{
    record::{Record, fingerprint, record_key},
    remote::stored_token,
    take_over,
};

fn pod(name: &str, status: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": {"nodeName": "edge-1", "containers": [{"name": "c", "image": "a"}]}, "status": status,
    })
}

fn running() -> Value {
    json!({
        "phase": "Running", "startTime": "2026-05-01T10:00:00Z", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "restartCount": 2}],
    })
}

fn no_devices(_: &Value) -> Option<DeviceRows> {
    None
}

struct Node(Arc<MemoryStore>);

impl Node {
    fn new() -> Self {
        Self(MemoryStore::new())
    }

    async fn put(&self, group: &str, plural: &str, namespace: &str, name: &str, value: Value) {
        let key = Key::new(Resource::new(group, plural), namespace, name);
        self.put_at(key, value).await;
    }

    async fn put_at(&self, key: Key, value: Value) {
        self.0
            .commit(vec![Write {
                key,
                expect: Expect::Anything,
                value: Some(value),
            }])
            .await
            .unwrap();
    }

    async fn pod(&self, name: &str, status: Value, record: Record) {
        let key = Key::new(Resource::new("", "pods"), "default", name);
        self.put_at(key.clone(), pod(name, status)).await;
        self.put_at(record_key(&key), record.write()).await;
    }

    async fn objects(&self) -> Vec<Object> {
        let mut all = Vec::new();
        for (resource, _) in self.0.sizes().await.unwrap() {
            let scope = Scope {
                resource,
                namespace: None,
            };
            all.extend(self.0.list(&scope, &Page::default()).await.unwrap().items);
        }
        all
    }
}

/// Returns the record of a pod whose status the cloud has confirmed.
fn reported_record(uid: &str, revision: u64, status: &Value) -> Record {
    Record {
        reported: Some(fingerprint(status)),
        ..Record::of(uid, revision)
    }
}

/// Returns the rows of a table: the first column and the last one.
async fn rows(path: &Path, query: &'static str) -> Vec<(String, String)> {
    let options = SqliteConnectOptions::new().filename(path).read_only(true);
    let mut connection: SqliteConnection = options.connect().await.unwrap();
    let rows = sqlx::query(query).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    rows.iter()
        .map(|row| (row.get::<String, _>(0), row.get::<String, _>(1)))
        .collect()
}

async fn pods(path: &Path) -> BTreeMap<String, Value> {
    let rows = rows(
        path,
        "SELECT key, value FROM meta WHERE type = 'pod' ORDER BY key",
    )
    .await;
    rows.into_iter()
        .map(|(key, value)| (key, serde_json::from_str(&value).unwrap()))
        .collect()
}

#[tokio::test]
async fn an_export_has_existing_pods_and_none_that_the_cloud_has_deleted() {
    let (node, directory) = (Node::new(), tempfile::tempdir().unwrap());
    let path = directory.path().join("edgecore.db");
    node.pod(
        "told",
        running(),
        reported_record("uid-told", 41, &running()),
    )
    .await;
    node.pod("new", running(), Record::of("uid-new", 42)).await;
    node.pod(
        "gone",
        running(),
        Record {
            deleted_in_cloud: true,
            ..Record::of("uid-gone", 43)
        },
    )
    .await;
    let over = json!({"phase": "Succeeded", "startTime": "2026-05-01T10:00:00Z", "conditions": []});
    node.pod("job", over, Record::of("uid-job", 44)).await;
    let ended = record_key(&Key::new(Resource::new("", "pods"), "default", "ended"));
    node.put_at(
        ended,
        Record {
            terminated_here: true,
            ..Record::of("uid-ended", 45)
        }
        .write(),
    )
    .await;
    let exported = export(&node.objects().await, "edge-1", no_devices, &path)
        .await
        .unwrap();

    let found = pods(&path).await;
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["default/pod/job", "default/pod/new", "default/pod/told"]
    );
    let of = |name: &str| &found[&format!("default/pod/{name}")];
    assert_eq!(of("told")["metadata"]["uid"], "uid-told");
    assert_eq!(
        of("told")["metadata"]["resourceVersion"],
        "41",
        "the cloud's, not the store's"
    );
    assert_eq!(of("told")["status"], running());
    // EdgeCore reports to the cloud where it finds a difference
    assert_eq!(
        of("new")["status"],
        json!({"phase": "Running", "startTime": "2026-05-01T10:00:00Z"})
    );
    assert_eq!(
        of("job")["status"]["phase"],
        "Succeeded",
        "or it would be started again"
    );
    let skipped: Vec<_> = exported
        .skipped
        .values()
        .flatten()
        .map(String::as_str)
        .collect();
    assert_eq!(skipped, ["default/job", "default/ended"]);
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing is left beside it"
    );

    let copies = rows(
        &path,
        "SELECT key, group_version_resource FROM meta_v2 ORDER BY key",
    )
    .await;
    assert_eq!(
        copies[2],
        (
            "/core/v1/pods/default/told".into(),
            "/v1, Resource=pods".into()
        )
    );
}

#[tokio::test]
async fn a_static_pod_is_its_mirror_to_edgecore() {
    let (node, directory) = (Node::new(), tempfile::tempdir().unwrap());
    let path = directory.path().join("edgecore.db");
    let mut object = pod("web-edge-1", running());
    object["metadata"]["uid"] = "0123456789abcdef0123456789abcdef".into();
    object["metadata"]["annotations"] =
        json!({"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "h"});
    let key = Key::new(Resource::new("", "pods"), "default", "web-edge-1");
    node.put(
        "",
        "nodes",
        "",
        "edge-1",
        json!({"metadata": {"name": "edge-1", "uid": "node-uid"}}),
    )
    .await;
    node.put_at(key.clone(), object.clone()).await;
    export(&node.objects().await, "edge-1", no_devices, &path)
        .await
        .unwrap();
    assert!(pods(&path).await.is_empty(), "EdgeCore makes the mirror");

    node.put_at(
        record_key(&key),
        reported_record("mirror-uid", 9, &running()).write(),
    )
    .await;
    export(&node.objects().await, "edge-1", no_devices, &path)
        .await
        .unwrap();
    let mirror = &pods(&path).await["default/pod/web-edge-1"];
    let annotations = json!({
        "kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "h", "kubernetes.io/config.mirror": "h",
    });
    assert_eq!(mirror["metadata"]["annotations"], annotations);
    assert_eq!(
        (&mirror["metadata"]["uid"], &mirror["status"]),
        (&json!("mirror-uid"), &running())
    );
    assert_eq!(mirror["metadata"]["ownerReferences"][0]["uid"], "node-uid");
    assert_eq!(
        (&mirror["kind"], &mirror["spec"]),
        (&json!("Pod"), &object["spec"])
    );
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn exported_objects_are_under_edgecores_keys() {
    let (node, directory) = (Node::new(), tempfile::tempdir().unwrap());
    let path = directory.path().join("edgecore.db");
    let named = |name: &str| json!({"metadata": {"name": name, "namespace": "ns"}});
    node.put(
        "",
        "nodes",
        "",
        "edge-1",
        json!({"metadata": {"name": "edge-1"}}),
    )
    .await;
    for (plural, name) in [
        ("configmaps", "c"),
        ("secrets", "s"),
        ("persistentvolumeclaims", "v"),
    ] {
        node.put("", plural, "ns", name, named(name)).await;
    }
    node.put(
        "",
        "persistentvolumes",
        "",
        "disk",
        json!({"metadata": {"name": "disk"}}),
    )
    .await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "kubernetes", "namespace": "default"}});
    node.put("", "services", "default", "kubernetes", service)
        .await;
    let thing = json!({"apiVersion": "a.io/v1", "kind": "Policy", "metadata": {"name": "p", "namespace": "ns"}});
    node.put("a.io", "policies", "ns", "p", thing).await;
    let device = json!({"apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device", "metadata": {"name": "d", "namespace": "ns"}});
    node.put("kubeedge.io", "device", "ns", "d", device).await;
    let request = json!({"spec": {"audiences": [], "expirationSeconds": 3607, "boundObjectRef": {"uid": "uid-told"}}});
    let granted = json!({"spec": {"audiences": ["https://a"], "expirationSeconds": 3607}, "status": {"token": "t"}});
    let (key, token) = stored_token("default", "app", &request, "", granted.clone());
    node.put_at(key, token).await;
    node.pod(
        "told",
        running(),
        reported_record("uid-told", 41, &running()),
    )
    .await;
    let mapper =
        json!({"name": "m", "version": "1", "protocol": "modbus", "socket": "/run/m.sock"});
    node.put(
        "mappers.outrigger.dev",
        "mappers",
        "",
        "modbus",
        json!({"metadata": {}, "mapper": mapper}),
    )
    .await;
    node.put(
        "eventbus.outrigger.dev",
        "topics",
        "",
        "a/b",
        json!({"metadata": {}}),
    )
    .await;
    node.put(
        "edgecore.outrigger.dev",
        "target_urls",
        "",
        "http://x",
        json!({"metadata": {}, "row": {}}),
    )
    .await;
    node.put(
        "servicebus.outrigger.dev",
        "targets",
        "",
        "http://y",
        json!({"metadata": {}, "detail": null}),
    )
    .await;
    export(&node.objects().await, "edge-1", no_devices, &path)
        .await
        .unwrap();

    let meta: BTreeMap<_, _> = rows(&path, "SELECT key, type FROM meta")
        .await
        .into_iter()
        .collect();
    let token = r#""app"/"default"/[]string(nil)/3607/v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"told", UID:"uid-told"}"#;
    let expected = [
        (token, "serviceaccounttoken"),
        ("default/pod/told", "pod"),
        ("node/nodeID/namespace/devicemapper/m", "devicemapper"),
        ("ns/configmap/c", "configmap"),
        ("ns/device/d", "device"),
        ("ns/persistentvolumeclaim/v", "persistentvolumeclaim"),
        ("ns/secret/s", "secret"),
        ("null/node/edge-1", "node"),
        ("null/persistentvolume/disk", "persistentvolume"),
    ];
    let expected: BTreeMap<_, _> = expected
        .map(|(key, kind)| (key.to_owned(), kind.to_owned()))
        .into();
    assert_eq!(meta, expected);
    let values: BTreeMap<_, _> = rows(&path, "SELECT key, value FROM meta")
        .await
        .into_iter()
        .collect();
    assert_eq!(
        serde_json::from_str::<Value>(&values[token]).unwrap(),
        granted
    );
    let mapper: Value =
        serde_json::from_str(&values["node/nodeID/namespace/devicemapper/m"]).unwrap();
    assert_eq!(mapper["address"], "L3J1bi9tLnNvY2s=", "Go's JSON of bytes");
    let copies = rows(&path, "SELECT key, group_version_resource FROM meta_v2").await;
    for copy in [
        ("/a.io/v1/policies/ns/p", "a.io/v1, Resource=policies"),
        ("/core/v1/nodes/null/edge-1", "/v1, Resource=nodes"),
        ("/core/v1/secrets/ns/s", "/v1, Resource=secrets"),
        (
            "/devices.kubeedge.io/v1beta1/devices/ns/d",
            "devices.kubeedge.io/v1beta1, Resource=devices",
        ),
    ] {
        assert!(
            copies.contains(&(copy.0.into(), copy.1.into())),
            "{copy:?} {copies:?}"
        );
    }
    assert!(
        !copies.iter().any(|(key, _)| key.contains("services")),
        "this agent's own"
    );
    assert_eq!(
        rows(&path, "SELECT topic, topic FROM sub_topics").await[0].0,
        "a/b"
    );
    let urls = rows(&path, "SELECT url, url FROM target_urls ORDER BY url").await;
    assert_eq!(
        urls.iter().map(|(url, _)| url.as_str()).collect::<Vec<_>>(),
        ["http://x", "http://y"]
    );
}

#[tokio::test]
async fn edgecores_rows_survive_takeover_and_export() {
    let directory = tempfile::tempdir().unwrap();
    let (old, new) = (
        directory.path().join("edgecore.db"),
        directory.path().join("new.db"),
    );
    std::fs::write(
        &old,
        include_bytes!("../takeover/testdata/edgecore-1.23.db"),
    )
    .unwrap();
    let node = Node::new();
    let store: Arc<dyn Store> = node.0.clone();
    take_over(&old, &store, "ec1").await.unwrap();
    let objects = node.objects().await;
    export(&objects, "ec1", no_devices, &new).await.unwrap();
    let (before, after) = (pods(&old).await, pods(&new).await);
    for name in ["crash", "job", "many-0"] {
        let key = format!("default/pod/{name}");
        let identity = |pod: &Value| (pod["metadata"]["uid"].clone(), pod["spec"].clone());
        assert_eq!(identity(&before[&key]), identity(&after[&key]), "{name}");
        assert_eq!(
            before[&key]["metadata"]["resourceVersion"],
            after[&key]["metadata"]["resourceVersion"]
        );
    }
    let schema = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let (before, after) = (rows(&old, schema).await, rows(&new, schema).await);
    assert!(
        before.iter().all(|table| after.contains(table)),
        "{before:?} {after:?}"
    );
    // a new store that takes this database over equals the first one
    let again = Node::new();
    let store: Arc<dyn Store> = again.0.clone();
    take_over(&new, &store, "ec1").await.unwrap();
    let places = |objects: &[Object]| -> BTreeSet<Key> {
        objects.iter().map(|object| object.key.clone()).collect()
    };
    assert_eq!(places(&again.objects().await), places(&objects));
}

#[tokio::test]
async fn the_journal_of_the_file_before_is_not_played_into_the_new_one() {
    let (node, directory) = (Node::new(), tempfile::tempdir().unwrap());
    let path = directory.path().join("edgecore.db");
    node.pod("old", running(), reported_record("uid-old", 1, &running()))
        .await;
    export(&node.objects().await, "edge-1", no_devices, &path)
        .await
        .unwrap();
    // an EdgeCore that is killed during a transaction
    let mut edgecore = SqliteConnectOptions::new()
        .filename(&path)
        .connect()
        .await
        .unwrap();
    for statement in [
        "PRAGMA cache_size = 1",
        "PRAGMA cache_spill = 1",
        "BEGIN IMMEDIATE",
        "DELETE FROM meta",
    ] {
        sqlx::query(statement).execute(&mut edgecore).await.unwrap();
    }
    for number in 0..300 {
        let query = sqlx::query("INSERT INTO meta VALUES (?1, 'pod', ?2)").bind(number.to_string());
        query
            .bind("x".repeat(900))
            .execute(&mut edgecore)
            .await
            .unwrap();
    }
    let cut = tempfile::tempdir().unwrap();
    for name in ["edgecore.db", "edgecore.db-journal"] {
        std::fs::copy(directory.path().join(name), cut.path().join(name)).unwrap();
    }
    let path = cut.path().join("edgecore.db");
    assert!(
        std::fs::metadata(cut.path().join("edgecore.db-journal"))
            .unwrap()
            .len()
            > 512
    );
    let node = Node::new();
    node.pod("new", running(), reported_record("uid-new", 2, &running()))
        .await;
    export(&node.objects().await, "edge-1", no_devices, &path)
        .await
        .unwrap();
    assert_eq!(
        pods(&path).await.into_keys().collect::<Vec<_>>(),
        ["default/pod/new"]
    );
    assert_eq!(std::fs::read_dir(cut.path()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_failed_export_leaves_the_old_file() {
    let (node, directory) = (Node::new(), tempfile::tempdir().unwrap());
    let path = directory.path().join("edgecore.db");
    std::fs::create_dir(&path).unwrap();
    assert!(
        export(&node.objects().await, "edge-1", no_devices, &path)
            .await
            .is_err()
    );
    assert!(path.is_dir());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(
        export(
            &[],
            "edge-1",
            no_devices,
            &directory.path().join("no/edgecore.db")
        )
        .await
        .is_err()
    );
}
