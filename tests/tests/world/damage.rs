//! A node whose database is damaged.

use serde_json::json;
use tests::{
    World,
    manifests::{config_map, pod},
    uid,
};

#[tokio::test]
async fn a_damaged_database_is_healed_from_the_cloud_and_no_container_restarts() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    world.apply(&config_map("settings", json!({"mode": "fast"}))).await;
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
    assert_eq!(running.get(&place), ids.get(&place), "the container that ran all the time");
}
