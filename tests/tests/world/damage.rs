//! A node whose database is damaged.

use std::path::Path;

use serde_json::json;
use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tests::{
    Setup, World, eventually,
    manifests::{config_map, pod},
    uid,
};

#[tokio::test]
async fn a_damaged_database_is_healed_from_the_cloud_and_no_container_restarts() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await;
    for name in ["one", "two"] {
        let mut manifest = pod(name, Some("edge-1"));
        manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
        world.run(&manifest).await;
    }
    let ids = world.running(0);
    world.nodes[0].stop().await;
    let file = world.nodes[0].directory().join("agent.db");
    std::fs::write(&file, "not a database ".repeat(1000)).unwrap();
    world.nodes[0].start().await.unwrap();

    // they are this node's again: what the cloud wants of them is done
    let two = world.pod("two").get().await;
    world.pod("two").delete(None).await;
    world.pod("two").until_gone().await;
    world.until_nothing_is_left(0, &two).await;
    world.run(&pod("three", Some("edge-1"))).await;
    let running = world.running(0);
    let one = world.pod("one").get().await;
    let place = (uid(&one).to_owned(), "main".to_owned());
    assert_eq!(
        running.get(&place),
        ids.get(&place),
        "the container that ran all the time"
    );
}

#[tokio::test]
async fn pods_come_back_also_where_the_node_was_started_anew() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let one = world.run(&pod("one", Some("edge-1"))).await;
    let place = (uid(&one).to_owned(), "main".to_owned());
    let before = world.running(0).remove(&place);
    world.nodes[0].stop().await;
    let directory = world.nodes[0].directory().to_owned();
    std::fs::write(directory.join("agent.db"), "not a database ".repeat(1000)).unwrap();
    // nothing of the runtime is left, neither containers nor sandboxes
    std::fs::remove_dir_all(directory.join("runtime")).unwrap();
    world.nodes[0] = world.prepare("edge-1", &Setup::default()).await;
    world.nodes[0].start().await.unwrap();

    eventually(
        "the pod runs again, in a new container",
        async || match world.running(0).remove(&place) {
            Some(id) if Some(&id) != before.as_ref() => Ok(()),
            other => Err(other),
        },
    )
    .await;
}

/// Opens a node's or a cloud's file.
pub(super) async fn by_hand(file: &Path) -> SqliteConnection {
    SqliteConnectOptions::new()
        .filename(file)
        .connect()
        .await
        .unwrap()
}

/// Does this to a node's or a cloud's file that nobody has open.
async fn damage(file: &Path, statement: &'static str) {
    let mut hand = by_hand(file).await;
    let done = sqlx::raw_sql(statement).execute(&mut hand).await.unwrap();
    assert!(done.rows_affected() > 0, "{statement}");
    hand.close().await.unwrap();
}

#[tokio::test]
async fn a_damaged_pod_stops_no_other_and_goes_on_without_a_restart() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    for name in ["one", "two"] {
        world.run(&pod(name, Some("edge-1"))).await;
    }
    let ids = world.running(0);
    world.nodes[0].stop().await;
    let file = world.nodes[0].directory().join("agent.db");
    let cut =
        "UPDATE objects SET value = substr(value, 1, 50) WHERE resource = 'pods' AND name = 'one'";
    damage(&file, cut).await;
    world.nodes[0].start().await.unwrap();

    // new pods run, and what is to go goes
    world.run(&pod("three", Some("edge-1"))).await;
    let two = world.pod("two").get().await;
    world.pod("two").delete(None).await;
    world.pod("two").until_gone().await;
    world.until_nothing_is_left(0, &two).await;
    // it is this node's again, and was all the time
    let one = world.pod("one").get().await;
    let place = (uid(&one).to_owned(), "main".to_owned());
    assert_eq!(
        world.running(0).get(&place),
        ids.get(&place),
        "the container that ran all the time"
    );
    world.pod("one").delete(None).await;
    world.pod("one").until_gone().await;
    world.until_nothing_is_left(0, &one).await;
}

#[tokio::test]
async fn a_damaged_record_of_a_pod_is_made_anew() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let one = world.run(&pod("one", Some("edge-1"))).await;
    let ids = world.running(0);
    world.nodes[0].stop().await;
    let file = world.nodes[0].directory().join("agent.db");
    damage(
        &file,
        "UPDATE objects SET value = x'7b' WHERE resource = 'pods.records.outrigger.dev'",
    )
    .await;
    world.nodes[0].start().await.unwrap();
    world.run(&pod("two", Some("edge-1"))).await;
    let place = (uid(&one).to_owned(), "main".to_owned());
    assert_eq!(
        world.running(0).get(&place),
        ids.get(&place),
        "the container that ran all the time"
    );
    world.pod("one").delete(None).await;
    world.pod("one").until_gone().await;
    world.until_nothing_is_left(0, &one).await;
}
