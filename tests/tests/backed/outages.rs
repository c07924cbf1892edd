//! The cluster's API server goes away for a while.

use serde_json::json;
use tests::{
    World, condition,
    manifests::{config_map, pod},
};

#[tokio::test]
async fn what_happens_while_the_api_server_is_away_is_made_up_for() {
    let world = World::new(1).await;
    world.until_ready().await;
    world.apply(&config_map("settings", json!({"mode": "fast"}))).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let running = world.run(&manifest).await;
    let ids = world.running(0);
    world.cluster().link().cut();
    // what the cluster itself still does, as a person at its API would see it
    world.apply(&config_map("settings", json!({"mode": "slow"}))).await;
    world.apply(&pod("late", Some("edge-1"))).await;
    // the node reports meanwhile, to nobody
    let id = ids.values().next().unwrap();
    assert!(world.nodes[0].runtime.crash_container(id, 1));
    world.cluster().link().through();
    world.until_file(0, &running, "/v/mode", "slow").await;
    world.pod("late").until("running", tests::runs).await;
    let restarted = |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1;
    world.pod("web").until("restarted once", restarted).await;
    assert_eq!(condition(&world.node("edge-1").get().await, "Ready"), Some("True"));
    assert_ne!(world.running(0), ids);
    assert_eq!(world.cloud().sessions().len(), 1);
}
