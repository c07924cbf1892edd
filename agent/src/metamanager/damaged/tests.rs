//! One damaged object among others in each module's collection: the module starts with the others.

use std::path::Path;

use objectstore::SqliteStore;
use sqlx::{AssertSqlSafe, ConnectOptions, sqlite::SqliteConnectOptions};

use super::*;

async fn list(store: &Arc<dyn Store>, resource: &Resource) -> Vec<String> {
    let scope = Scope {
        resource: resource.clone(),
        namespace: None,
    };
    let items = store.list(&scope, &Page::default()).await.unwrap().items;
    items.into_iter().map(|object| object.key.name).collect()
}

async fn damaged_store(path: &Path, resource: &Resource) -> Arc<dyn Store> {
    {
        let store = SqliteStore::open(path).await.unwrap();
        for name in ["one", "two"] {
            let key = Key::new(resource.clone(), "", name);
            let value = Some(json!({"metadata": {"name": name}}));
            store
                .commit(vec![Write {
                    key,
                    expect: Expect::Absent,
                    value,
                }])
                .await
                .unwrap();
        }
    }
    let mut hand = SqliteConnectOptions::new()
        .filename(path)
        .connect()
        .await
        .unwrap();
    let statement = "UPDATE objects SET value = x'7b22' WHERE name = 'one'".to_owned();
    sqlx::raw_sql(AssertSqlSafe(statement))
        .execute(&mut hand)
        .await
        .unwrap();
    sqlx::Connection::close(hand).await.unwrap();
    SqliteStore::open(path).await.unwrap()
}

#[tokio::test]
async fn unrecoverable_objects_are_removed_and_the_others_stay() {
    for (collection, left) in [
        ("devices.twins.outrigger.dev", &["two"] as &[&str]),
        ("chunks.history.outrigger.dev", &["two"]),
        ("uploads.outbox.outrigger.dev", &["two"]),
        ("events.outbox.outrigger.dev", &["two"]),
        ("mappers.mappers.outrigger.dev", &["two"]),
        ("devicemapper.edgecore.outrigger.dev", &["two"]),
        ("topics.eventbus.outrigger.dev", &["one", "two"]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (plural, group) = collection.split_once('.').unwrap();
        let resource = Resource::new(group, plural);
        let store = damaged_store(&directory.path().join("a.db"), &resource).await;
        assert_eq!(store.damaged_objects().now().len(), 1, "{collection}");
        remove_unrecoverable(&store).await.unwrap();
        assert!(store.damaged_objects().now().is_empty(), "{collection}");
        assert_eq!(list(&store, &resource).await, left, "{collection}");
    }
}

#[tokio::test]
async fn objects_of_a_wrong_type_are_removed_with_their_record() {
    let store: Arc<dyn Store> = objectstore::MemoryStore::new();
    let key = |name: &str| Key::new(Resource::new("", "pods"), "ns", name);
    for (name, spec) in [
        ("bad", json!({"containers": [null]})),
        ("good", json!({"containers": []})),
    ] {
        write(
            &store,
            &key(name),
            Some(json!({"metadata": {"name": name}, "spec": spec})),
        )
        .await
        .unwrap();
        let record = super::super::record::record_key(&key(name));
        write(&store, &record, Some(json!({"metadata": {}, "uid": "u"})))
            .await
            .unwrap();
    }
    remove_unrecoverable(&store).await.unwrap();
    assert_eq!(list(&store, &Resource::new("", "pods")).await, ["good"]);
    assert_eq!(
        list(&store, &Resource::new("records.outrigger.dev", "pods")).await,
        ["good"]
    );
}

#[tokio::test]
async fn objects_that_the_cloud_has_are_kept_for_repair() {
    let directory = tempfile::tempdir().unwrap();
    let store = damaged_store(&directory.path().join("a.db"), &Resource::new("", "pods")).await;
    remove_unrecoverable(&store).await.unwrap();
    assert_eq!(store.damaged_objects().now().len(), 1);
}

#[tokio::test]
async fn a_copy_is_forgotten_with_its_record() {
    for damages in ["configmaps", "configmaps.records.outrigger.dev"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let resource = match damages.split_once('.') {
            Some((plural, group)) => Resource::new(group, plural),
            None => Resource::new("", damages),
        };
        let store = damaged_store(&path, &resource).await;
        let (objects, records) = (
            Resource::new("", "configmaps"),
            Resource::new("records.outrigger.dev", "configmaps"),
        );
        let other = if resource == objects {
            &records
        } else {
            &objects
        };
        let key = Key::new(other.clone(), "", "one");
        write(&store, &key, Some(json!({"metadata": {}})))
            .await
            .unwrap();
        remove_damaged_copies(&store).await.unwrap();
        assert!(store.damaged_objects().now().is_empty());
        assert_eq!(list(&store, &resource).await, ["two"]);
        assert!(list(&store, other).await.is_empty());
    }
}
