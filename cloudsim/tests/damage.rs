//! A cloud whose store was damaged on the disk: it starts, serves what is whole, and is repaired.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{path::Path, process::Command};

use cloudsim::{Cloud, Options, StartError};
use k8s_openapi::{
    api::core::v1::ConfigMap, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use sqlx::{AssertSqlSafe, ConnectOptions, sqlite::SqliteConnectOptions};

async fn run(path: &Path, statement: &str) {
    let mut hand = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    let done = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut hand).await.unwrap();
    assert!(done.rows_affected() > 0, "{statement}");
    sqlx::Connection::close(hand).await.unwrap();
}

fn options(directory: &Path) -> Options {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Options { data_dir: Some(directory.to_owned()), rbac: true, ..Options::default().any_ports() }
}

/// What `cloudsim db` says, and whether it succeeded.
fn db(directory: &Path, command: &str) -> (bool, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_cloudsim"));
    let output = program.args(["db", command, "--data-dir"]).arg(directory).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "v"}})).unwrap()
}

async fn names(maps: &Api<ConfigMap>) -> Vec<String> {
    let items = maps.list(&ListParams::default()).await.unwrap().items;
    items.iter().map(ResourceExt::name_any).filter(|name| name != "kube-root-ca.crt").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_with_damaged_objects_starts_and_is_repaired() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cloudsim.db");
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cloud.client());
    for name in ["one", "three", "two"] {
        maps.create(&PostParams::default(), &map(name)).await.unwrap();
    }
    drop(maps);
    cloud.stop().await.unwrap();
    assert!(db(directory.path(), "check").0);
    for row in [
        "resource = 'configmaps' AND name IN ('one', 'two')",
        "resource = 'customresourcedefinitions.apiextensions.k8s.io' AND name LIKE 'devices.%'",
        "resource = 'clusterroles.rbac.authorization.k8s.io' AND name IN ('view', 'cluster-admin')",
        "resource = 'namespaces' AND name = 'default'",
    ] {
        run(&path, &format!("UPDATE objects SET value = substr(value, 1, 40) WHERE {row}")).await;
    }
    let (is_whole, told) = db(directory.path(), "check");
    assert!(!is_whole && told.contains("damaged: configmaps default/one: "), "{told}");

    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    let maps = Api::<ConfigMap>::default_namespaced(cloud.client());
    assert_eq!(names(&maps).await, ["three"]);
    let definitions = Api::<CustomResourceDefinition>::all(cloud.client());
    assert!(definitions.get_opt("devices.devices.kubeedge.io").await.unwrap().is_some());
    // by hand
    maps.delete("one", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &map("one")).await.unwrap();
    assert_eq!(names(&maps).await, ["one", "three"]);
    drop((maps, definitions));
    cloud.stop().await.unwrap();

    // and what is left by the program
    assert!(!db(directory.path(), "check").0);
    let (repaired, told) = db(directory.path(), "repair");
    assert!(repaired && told.contains("lost: configmaps default/two: "), "{told}");
    assert!(db(directory.path(), "check").0);
    let cloud = Cloud::start(options(directory.path())).await.unwrap();
    assert_eq!(names(&Api::default_namespaced(cloud.client())).await, ["one", "three"]);
    cloud.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_cannot_be_read_or_is_empty_is_no_new_cloud() {
    for bytes in [Vec::new(), b"apiVersion: v1\n".repeat(500)] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cloudsim.db");
        Cloud::start(options(directory.path())).await.unwrap().stop().await.unwrap();
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
        std::fs::write(&path, &bytes).unwrap();
        let refused = Cloud::start(options(directory.path())).await.unwrap_err();
        assert!(matches!(refused, StartError::Damaged { .. }), "{refused:?}");
        assert!(refused.to_string().contains("cloudsim db repair --data-dir"), "{refused}");
        assert!(std::fs::read(&path).unwrap() == bytes, "it was written to");
        assert!(!db(directory.path(), "check").0);
        assert!(db(directory.path(), "repair").0);
        Cloud::start(options(directory.path())).await.unwrap().stop().await.unwrap();
    }
}
