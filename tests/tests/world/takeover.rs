//! A node on which EdgeCore has run: the agent goes on from EdgeCore's database.

use std::{path::Path, sync::Arc};

use agent::metamanager::take_over;
use objectstore::{MemoryStore, Store};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
use tests::{
    Setup, World, eventually,
    manifests::{config_map, pod, secret},
    uid,
};

/// EdgeCore's database with these rows of `meta`: key, type, value.
async fn edgecore_db(path: &Path, rows: &[(&str, &str, &Value)]) {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    let schema = "CREATE TABLE `meta` (`key` text,`type` text,`value` text,PRIMARY KEY (`key`))";
    sqlx::query(schema).execute(&mut connection).await.unwrap();
    for (key, kind, value) in rows {
        let query = sqlx::query("INSERT INTO meta VALUES (?1, ?2, ?3)")
            .bind(key)
            .bind(kind);
        query
            .bind(value.to_string())
            .execute(&mut connection)
            .await
            .unwrap();
    }
    connection.close().await.unwrap();
}

/// The token of the pod `web` as EdgeCore keeps it: key and value.
fn token_row(pod_uid: &str) -> (String, Value) {
    let reference = format!(
        r#"v1.BoundObjectReference{{Kind:"Pod", APIVersion:"v1", Name:"web", UID:"{pod_uid}"}}"#
    );
    let spec = json!({
        "audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3607,
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": pod_uid},
    });
    let status = json!({"token": "taken over", "expirationTimestamp": "2126-01-01T00:00:00Z"});
    (
        format!(r#""default"/"default"/[]string(nil)/3607/{reference}"#),
        json!({"spec": spec, "status": status}),
    )
}

/// A new store after the takeover.
async fn taken_over(world: &World, rows: &[(&str, &str, &Value)], node: &str) -> Arc<dyn Store> {
    let path = world.directory().join("edgecore.db");
    edgecore_db(&path, rows).await;
    let store: Arc<dyn Store> = MemoryStore::new();
    take_over(&path, &store, node).await.unwrap();
    store
}

#[tokio::test]
async fn its_pods_start_from_disk_without_the_cloud() {
    let mut world = World::with(Setup {
        durable: true,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    let settings = world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await
        .get()
        .await;
    let password = world
        .apply(&secret("password", json!({"p": "open sesame"})))
        .await
        .get()
        .await;
    world.nodes[0].stop().await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([
        {"name": "c", "configMap": {"name": "settings"}}, {"name": "s", "secret": {"secretName": "password"}},
    ]);
    manifest["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "c", "mountPath": "/c"}, {"name": "s", "mountPath": "/s"}]);
    let web = world.apply(&manifest).await.get().await;
    let node = world.node("edge-1").get().await;
    let authorities = world
        .object("v1", "ConfigMap", "kube-root-ca.crt")
        .get()
        .await;
    let (token_key, token) = token_row(uid(&web));
    // the one that has the ConfigMaps, the Secret and the pod's token is EdgeCore alone
    let rows = [
        ("default/pod/web", "pod", &web),
        ("default/configmap/settings", "configmap", &settings),
        (
            "default/configmap/kube-root-ca.crt",
            "configmap",
            &authorities,
        ),
        ("default/secret/password", "secret", &password),
        (&token_key, "serviceaccounttoken", &token),
        ("null/node/edge-1", "node", &node),
    ];
    let store = taken_over(&world, &rows, "edge-1").await;
    world.stop_cloud().await;
    assert!(world.running(0).is_empty());
    world.nodes[0].start_on(store).await.unwrap();
    eventually("the pod runs", async || {
        if world.running(0).keys().any(|place| place.0 == uid(&web)) {
            Ok(())
        } else {
            Err(world.running(0))
        }
    })
    .await;
    world.until_file(0, &web, "/c/mode", "fast").await;
    world.until_file(0, &web, "/s/p", "open sesame").await;
    world
        .until_file(
            0,
            &web,
            "/var/run/secrets/kubernetes.io/serviceaccount/token",
            "taken over",
        )
        .await;

    world.start_cloud().await;
    let seen = world.pod("web").until("running", tests::runs).await;
    assert_eq!(uid(&seen), uid(&web));
}

#[tokio::test]
async fn its_containers_are_not_restarted() {
    let mut world = World::with(Setup {
        durable: true,
        ..Setup::default()
    })
    .await;
    let web = world.run(&pod("web", Some("edge-1"))).await;
    let node = world.node("edge-1").get().await;
    let ids = world.running(0);
    world.nodes[0].stop().await;
    let rows = [
        ("default/pod/web", "pod", &web),
        ("null/node/edge-1", "node", &node),
    ];
    let store = taken_over(&world, &rows, "edge-1").await;
    world.nodes[0].start_on(store).await.unwrap();
    world.run(&pod("fence", Some("edge-1"))).await;
    world.pod("fence").delete(None).await;
    world.pod("fence").until_gone().await;
    assert_eq!(world.running(0), ids);
}
