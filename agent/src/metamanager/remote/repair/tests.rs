//! Each kind of stored object, damaged in each way on a real disk, with a cloud that has the objects.

use std::{path::Path, sync::Arc};

use componentbase::PodsComplete;
use futures::FutureExt;
use kubeapi::Api;
use objectstore::{Resource, SqliteOptions, SqliteStore, Store};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, ConnectOptions, sqlite::SqliteConnectOptions};
use testkit::{WAIT_TIMEOUT, within};
use tokio::{sync::mpsc, time::timeout};
use wire::{Answer, Change, Downstream, Message, ObjectResp};

use super::*;
use crate::{
    edgehub::fake_cloud::{FakeCloud, fake_cloud},
    metamanager::{
        desired::{CloudChange, Desired},
        pods_complete::CompletenessTracker,
        remote::Config,
    },
};

const NODE: &str = "edge-1";
fn key(plural: &str, name: &str) -> Key {
    Key::new(Resource::new("", plural), "ns", name)
}

fn object(plural: &str, name: &str) -> Value {
    let metadata = json!({"name": name, "namespace": "ns", "uid": format!("{plural}-{name}"), "resourceVersion": "7"});
    match plural {
        "pods" => json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata,
            "spec": {"nodeName": NODE, "containers": [{"name": "c", "image": "i"}]}}),
        "configmaps" => {
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"k": "v"}})
        }
        _ => {
            json!({"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "data": {"k": "dg=="}})
        }
    }
}

const ALL: [(&str, &str); 6] = [
    ("pods", "one"),
    ("pods", "two"),
    ("configmaps", "one"),
    ("configmaps", "two"),
    ("secrets", "one"),
    ("secrets", "two"),
];

/// The damages, each with the SQL expression that causes it.
const DAMAGES: [(&str, &str); 7] = [
    ("cut", "value = substr(value, 1, 20)"),
    ("of another type", "value = CAST('[1]' AS BLOB)"),
    (
        "a byte flipped",
        "value = CAST(replace(CAST(value AS TEXT), 'ns', 'nz') AS BLOB)",
    ),
    ("empty", "value = x''"),
    ("huge", "value = zeroblob(5000000)"),
    ("no UTF-8", "value = x'7b22ff223a317d'"),
    (
        "without a checksum, and no JSON",
        "value = x'7b', checksum = NULL",
    ),
];

async fn run(path: &Path, statement: String) {
    let mut hand = SqliteConnectOptions::new()
        .filename(path)
        .connect()
        .await
        .unwrap();
    let done = sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut hand)
        .await
        .unwrap();
    assert!(done.rows_affected() > 0);
    sqlx::Connection::close(hand).await.unwrap();
}

struct Node {
    desired: Desired,
    store: Arc<dyn Store>,
    remote: Remote,
    whole: PodsComplete,
    line: FakeCloud,
}

/// Returns a node whose store has all objects, one row of which is damaged.
async fn node(path: &Path, row: &str, damage: &str) -> Node {
    {
        let store: Arc<dyn Store> = SqliteStore::open(path).await.unwrap();
        let desired = Desired::new(store.clone(), NODE.into());
        for (plural, name) in ALL {
            desired
                .apply(CloudChange::stored(key(plural, name), object(plural, name)))
                .await
                .unwrap();
        }
        let mark = Key::new(
            Resource::new(crate::metamanager::record::GROUP, "stores"),
            "",
            "whole",
        );
        desired
            .set(&mark, Some(json!({"metadata": {}})))
            .await
            .unwrap();
    }
    run(path, format!("UPDATE objects SET {damage} WHERE {row}")).await;
    let opened = SqliteStore::open_or_begin_anew(path, SqliteOptions::default())
        .await
        .unwrap();
    assert_eq!(opened.set_aside, None);
    let store: Arc<dyn Store> = opened.store;
    let desired = Desired::new(store.clone(), NODE.into());
    let (hub, _inbound, line) = fake_cloud();
    let (mut completeness, whole) = CompletenessTracker::new(desired.clone(), hub.link());
    tokio::spawn(async move { completeness.run().await });
    let api = Api::builder(store.clone()).build();
    let config = Config {
        events: mpsc::channel(1).0,
        timeout: WAIT_TIMEOUT,
    };
    let remote = Remote::new(api.service(), desired.clone(), hub, whole.clone(), config);
    Node {
        desired,
        store,
        remote,
        whole,
        line,
    }
}

/// Answers as a cloud that has all objects but those whose name is `without`.
fn answer(message: &Message, without: &str) -> Option<Message> {
    let path = message.route.resource.clone();
    let text = path.to_string();
    let name = text.rsplit('/').next()?.to_owned();
    let missing = || json!({"code": 404, "message": "none", "reason": "NotFound"});
    let answer = match name == without {
        true => Answer::Failed(missing()),
        false if text.contains("podpatch") => {
            Answer::Response(ObjectResp::ok(object("pods", &name)))
        }
        false if text.contains("configmap") => Answer::Found(object("configmaps", &name)),
        false => Answer::Found(object("secrets", &name)),
    };
    Some(
        Downstream::Answer { path, answer }
            .into_message(clock::unix_millis())
            .answering(&message.header.msg_id),
    )
}

async fn serve(line: FakeCloud, without: &'static str) {
    loop {
        let message = line.next().await;
        if let Some(answer) = answer(&message, without) {
            line.say(answer).await;
        }
    }
}

async fn until_whole(store: &Arc<dyn Store>) {
    let mut damaged = store.damaged_objects();
    let healed = async {
        while !damaged.now().is_empty() {
            damaged.changed().await;
        }
    };
    let healed = timeout(WAIT_TIMEOUT, healed).await;
    assert!(
        healed.is_ok(),
        "still damaged: {:?}",
        store.damaged_objects().now()
    );
}

#[tokio::test]
async fn a_damaged_object_comes_from_the_cloud_again_and_the_others_are_read_meanwhile() {
    for (what, damage) in DAMAGES {
        for plural in ["pods", "configmaps", "secrets"] {
            let directory = tempfile::tempdir().unwrap();
            let row = format!("resource = '{plural}' AND name = 'one'");
            let Node {
                desired,
                store,
                remote,
                whole,
                mut line,
            } = node(&directory.path().join("a.db"), &row, damage).await;
            let client = kubeapi::client_of(remote.clone(), "ns");
            // what EdgeD reads at its start
            let pods: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::all(client);
            let listed = pods
                .list(&kube::api::ListParams::default())
                .await
                .unwrap()
                .items;
            assert_eq!(
                listed.len(),
                if plural == "pods" { 1 } else { 2 },
                "{what} {plural}"
            );
            let mending = tokio::spawn(remote.repair_damaged());
            assert_eq!(
                store.damaged_objects().now().len(),
                1,
                "{what} {plural}: nobody could be asked"
            );
            line.up();
            tokio::spawn(serve(line, ""));
            until_whole(&store).await;
            let mut found = desired.get(&key(plural, "one")).await.unwrap().unwrap();
            let mut wanted = object(plural, "one");
            for value in [&mut found, &mut wanted] {
                value["metadata"]["resourceVersion"] = Value::Null;
            }
            assert_eq!(found, wanted, "{what}");
            within("all pods count", whole.until()).await;
            mending.abort();
        }
    }
}

#[tokio::test]
async fn pods_do_not_count_as_all_while_one_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let node = node(&path, "resource = 'pods' AND name = 'one'", "value = x'7b'").await;
    assert!(node.whole.until().now_or_never().is_none());
    assert!(!node.whole.now());
    // written anew by any other component
    node.desired
        .apply(CloudChange::stored(
            key("pods", "one"),
            object("pods", "one"),
        ))
        .await
        .unwrap();
    within("all pods count", node.whole.until()).await;
}

#[tokio::test]
async fn a_deletion_by_the_cloud_also_removes_a_damaged_object() {
    for damage in ["value = x'7b'", "revision = revision - 1"] {
        let directory = tempfile::tempdir().unwrap();
        let node = node(
            &directory.path().join("a.db"),
            "resource = 'configmaps' AND name = 'one'",
            damage,
        )
        .await;
        let path = wire::ResourcePath::object("ns", &ResourceType::ConfigMap, "one");
        let header = wire::Header::default();
        let put =
            CloudChange::new(Change::Delete, &path, object("configmaps", "one"), &header).unwrap();
        node.desired.apply(put).await.unwrap();
        assert!(node.store.damaged_objects().now().is_empty());
        let entry = node.desired.entry(&key("configmaps", "one")).await.unwrap();
        assert!(
            entry.object.is_none() && entry.record.is_none(),
            "{entry:?}"
        );
    }
}

#[tokio::test]
async fn damaged_objects_that_the_cloud_does_not_have_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let Node {
        desired,
        store,
        remote,
        mut line,
        ..
    } = node(
        &directory.path().join("a.db"),
        "resource = 'secrets' AND name = 'one'",
        "value = x''",
    )
    .await;
    tokio::spawn(remote.repair_damaged());
    line.up();
    tokio::spawn(serve(line, "one"));
    until_whole(&store).await;
    assert_eq!(desired.get(&key("secrets", "one")).await.unwrap(), None);
    assert!(desired.get(&key("secrets", "two")).await.unwrap().is_some());
}

#[tokio::test]
async fn a_damaged_record_is_recreated_from_its_object() {
    for (what, damage) in DAMAGES {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let row = "resource = 'pods.records.outrigger.dev' AND name = 'one'";
        let Node {
            desired,
            store,
            remote,
            ..
        } = node(&path, row, damage).await;
        // while the cloud is not connected
        tokio::spawn(remote.repair_damaged());
        until_whole(&store).await;
        let entry = desired.entry(&key("pods", "one")).await.unwrap();
        assert_eq!(
            entry.record.map(|record| record.uid).as_deref(),
            Some("pods-one"),
            "{what}"
        );
        assert!(entry.object.is_some(), "{what}");
    }
}

#[tokio::test]
async fn a_mark_of_the_store_that_is_damaged_counts_as_not_set() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let node = node(
        &path,
        "resource = 'stores.records.outrigger.dev'",
        "value = x'7b'",
    )
    .await;
    assert!(
        node.whole.until().now_or_never().is_none(),
        "pods count as all although nobody knows"
    );
}
