//! Objects that are damaged on the disk of an API: it serves the others, names them, and takes them anew.

use std::path::Path;

use http::StatusCode;
use objectstore::SqliteStore;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, ConnectOptions, sqlite::SqliteConnectOptions};

use crate::world::{Answer, MAPS, WIDGETS, World, registry};

/// What the row of an object becomes.
const DAMAGES: [&str; 6] = [
    "value = substr(value, 1, 30)",
    "value = CAST('[]' AS BLOB)",
    "value = x''",
    "value = zeroblob(5000000)",
    "value = x'7b22ff223a317d'",
    "value = CAST(replace(CAST(value AS TEXT), 'ConfigMap', 'ConfigNap') AS BLOB)",
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

fn map(name: &str) -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "labels": {"a": "b"}}, "data": {"k": "v"}})
}

async fn damaged_world(path: &Path, damage: &str) -> World {
    {
        let world = World::over(SqliteStore::open(path).await.unwrap()).await;
        for name in ["one", "two"] {
            assert_eq!(post(&world, MAPS, map(name)).await, StatusCode::CREATED);
        }
    }
    run(
        path,
        format!("UPDATE objects SET {damage} WHERE resource = 'configmaps' AND name = 'one'"),
    )
    .await;
    reopen(path).await
}

async fn reopen(path: &Path) -> World {
    let store = SqliteStore::open(path).await.unwrap();
    World::around(apiserver::builder(store).registry(registry()).build())
}

async fn get(world: &World, path: &str) -> Answer {
    world.send(&format!("GET {path}"), Value::Null).await
}

async fn post(world: &World, path: &str, object: Value) -> StatusCode {
    world.send(&format!("POST {path}"), object).await.code
}

async fn delete(world: &World, path: &str, options: Value) -> Answer {
    world.send(&format!("DELETE {path}"), options).await
}

fn names(list: &Value) -> Vec<&str> {
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect()
}

#[tokio::test]
async fn a_list_has_the_others_and_the_object_itself_is_named() {
    for damage in DAMAGES {
        let directory = tempfile::tempdir().unwrap();
        let world = damaged_world(&directory.path().join("a.db"), damage).await;
        for query in ["", "?limit=1", "?labelSelector=a%3Db", "?resourceVersion=0"] {
            let list = get(&world, &format!("{MAPS}{query}")).await;
            assert_eq!(
                (list.code, names(&list.body)),
                (StatusCode::OK, vec!["two"]),
                "{damage} {query}"
            );
        }
        let one = get(&world, &format!("{MAPS}/one")).await;
        assert_eq!(one.code, StatusCode::INTERNAL_SERVER_ERROR, "{damage}");
        let message = one.body["message"].as_str().unwrap();
        assert!(
            message.contains("configmaps default/one is damaged; delete it"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn it_can_be_deleted_and_made_anew() {
    for damage in DAMAGES {
        let directory = tempfile::tempdir().unwrap();
        let world = damaged_world(&directory.path().join("a.db"), damage).await;
        let uid = json!({"preconditions": {"uid": "some"}});
        let refused = delete(&world, &format!("{MAPS}/one"), uid).await;
        assert_eq!(
            refused.code,
            StatusCode::CONFLICT,
            "{damage}: which one it is nobody knows"
        );
        let tried = delete(&world, &format!("{MAPS}/one?dryRun=All"), json!({})).await;
        assert_eq!(tried.code, StatusCode::OK);
        assert_eq!(
            get(&world, &format!("{MAPS}/one")).await.code,
            StatusCode::INTERNAL_SERVER_ERROR
        );
        let deleted = delete(&world, &format!("{MAPS}/one"), json!({})).await;
        assert_eq!(
            (deleted.code, &deleted.body["status"]),
            (StatusCode::OK, &json!("Success")),
            "{damage}"
        );
        assert_eq!(
            get(&world, &format!("{MAPS}/one")).await.code,
            StatusCode::NOT_FOUND
        );
        assert_eq!(post(&world, MAPS, map("one")).await, StatusCode::CREATED);
        assert_eq!(names(&get(&world, MAPS).await.body), ["one", "two"]);
    }
}

#[tokio::test]
async fn it_can_be_made_anew_in_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let world = damaged_world(&directory.path().join("a.db"), DAMAGES[0]).await;
    assert_eq!(post(&world, MAPS, map("one")).await, StatusCode::CREATED);
    assert_eq!(post(&world, MAPS, map("one")).await, StatusCode::CONFLICT);
    assert_eq!(
        get(&world, &format!("{MAPS}/one")).await.body["data"],
        json!({"k": "v"})
    );
}

#[tokio::test]
async fn a_watcher_is_told_of_its_end() {
    for query in ["", "&labelSelector=a%3Db"] {
        let directory = tempfile::tempdir().unwrap();
        let world = damaged_world(&directory.path().join("a.db"), DAMAGES[0]).await;
        let version = get(&world, MAPS).await.body["metadata"]["resourceVersion"].clone();
        let version = version.as_str().unwrap();
        let path = format!("{MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=1{query}");
        let deleted = delete(&world, &format!("{MAPS}/one"), json!({})).await;
        assert_eq!(deleted.code, StatusCode::OK);
        let (_, bytes) = world.bytes(&format!("GET {path}")).await;
        let lines = String::from_utf8_lossy(&bytes);
        let lines: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(
            (&lines[0]["type"], &lines[0]["object"]["kind"]),
            (&json!("DELETED"), &json!("ConfigMap"))
        );
        assert_eq!(lines[0]["object"]["metadata"]["name"], "one");
    }
}

#[tokio::test]
async fn a_damaged_definition_stops_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    {
        let world = World::over(SqliteStore::open(&path).await.unwrap()).await;
        assert_eq!(get(&world, WIDGETS).await.code, StatusCode::OK);
    }
    let crd = "resource = 'customresourcedefinitions.apiextensions.k8s.io'";
    run(
        &path,
        format!("UPDATE objects SET value = x'7b' WHERE {crd}"),
    )
    .await;
    let world = reopen(&path).await;
    // that which the API was built with is there again
    assert_eq!(get(&world, WIDGETS).await.code, StatusCode::OK);
    assert_eq!(post(&world, MAPS, map("one")).await, StatusCode::CREATED);
}

#[tokio::test]
async fn damaged_object_is_written_again_with_its_uid() {
    let flipped = "value = CAST(replace(CAST(value AS TEXT), '\"v\"', '\"w\"') AS BLOB)";
    for (request, code) in [
        (format!("POST {MAPS}"), StatusCode::CREATED),
        (format!("PUT {MAPS}/one"), StatusCode::CREATED),
        (
            format!("APPLY {MAPS}/one?fieldManager=a"),
            StatusCode::CREATED,
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.db");
        let uid = {
            let world = World::over(SqliteStore::open(&path).await.unwrap()).await;
            world.create(MAPS, map("one")).await["metadata"]["uid"].clone()
        };
        run(
            &path,
            format!("UPDATE objects SET {flipped} WHERE resource = 'configmaps' AND name = 'one'"),
        )
        .await;
        let world = reopen(&path).await;
        let patch = world
            .send(&format!("MERGE {MAPS}/one"), json!({"data": {"a": "b"}}))
            .await;
        assert_eq!(
            (patch.code, &patch.body["reason"]),
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                &json!("StorageReadError")
            )
        );
        let mut object = map("one");
        if request.starts_with("PUT") {
            object["metadata"]["resourceVersion"] = json!("3");
        }
        let written = world.send(&request, object).await;
        assert_eq!(
            (written.code, &written.body["metadata"]["uid"]),
            (code, &uid),
            "{request}: {}",
            written.body
        );
        let found = get(&world, &format!("{MAPS}/one")).await.body;
        assert_eq!(
            (&found["data"], &found["metadata"]["uid"]),
            (&json!({"k": "v"}), &uid),
            "{request}"
        );
        // it is an object as any other from then on
        let mut stale = map("one");
        stale["metadata"]["resourceVersion"] = json!("3");
        let refused = world.send(&format!("PUT {MAPS}/one"), stale).await;
        assert_eq!(refused.code, StatusCode::CONFLICT, "{request}");
    }
}

#[tokio::test]
async fn list_that_lacks_a_damaged_object_warns_or_fails() {
    let directory = tempfile::tempdir().unwrap();
    let world = damaged_world(&directory.path().join("a.db"), DAMAGES[0]).await;
    let list = get(&world, MAPS).await;
    let warning = list.headers.get("warning").unwrap().to_str().unwrap();
    assert!(
        warning.contains("configmaps default/one is damaged and not listed"),
        "{warning}"
    );
    let maps =
        |client| kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(client, "default");
    let complete = maps(world.api.complete_client("default"));
    let Err(kube::Error::Api(status)) = complete.list(&Default::default()).await else {
        panic!("a list without it")
    };
    assert!(
        kubeapi::is_damaged(&status) && status.message.contains("configmaps default/one"),
        "{status:?}"
    );
    assert_eq!(
        maps(world.api.client("default"))
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    // a collection that is deleted is deleted whole
    let deleted = delete(&world, MAPS, json!({})).await;
    assert_eq!(deleted.code, StatusCode::OK, "{}", deleted.body);
    assert!(
        complete
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
}

#[tokio::test]
async fn damaged_service_is_written_again_with_its_address() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let services = "/api/v1/namespaces/default/services";
    let service =
        json!({"metadata": {"name": "one"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let made = {
        let world = World::over(SqliteStore::open(&path).await.unwrap()).await;
        world.create(services, service.clone()).await
    };
    let row = "resource = 'services' AND name = 'one'";
    run(
        &path,
        format!("UPDATE objects SET value = substr(value, 1, 30) WHERE {row}"),
    )
    .await;
    let world = reopen(&path).await;
    let mut again = service.clone();
    again["spec"]["clusterIP"] = made["spec"]["clusterIP"].clone();
    again["spec"]["ports"][0]["nodePort"] = made["spec"]["ports"][0]["nodePort"].clone();
    let written = world.send(&format!("POST {services}"), again).await;
    assert_eq!(written.code, StatusCode::CREATED, "{}", written.body);
    assert_eq!(written.body["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    // what it had is free once it is deleted
    delete(&world, &format!("{services}/one"), json!({})).await;
    let mut other = written.body["spec"].clone();
    other.as_object_mut().unwrap().remove("clusterIPs");
    let other = json!({"metadata": {"name": "two"}, "spec": other});
    assert_eq!(post(&world, services, other).await, StatusCode::CREATED);
}
