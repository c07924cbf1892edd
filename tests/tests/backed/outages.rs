//! The cluster's API server goes away for a while.

use std::net::SocketAddr;

use serde_json::json;
use tests::{
    World, condition, eventually,
    manifests::{config_map, pod},
    within,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

#[tokio::test]
async fn what_happens_while_the_api_server_is_away_is_made_up_for() {
    let world = World::new(1).await;
    world.until_ready().await;
    world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let running = world.run(&manifest).await;
    let ids = world.running(0);
    world.cluster().link().cut_connections();
    // what the cluster itself still does, as a person at its API would see it
    world
        .apply(&config_map("settings", json!({"mode": "slow"})))
        .await;
    world.apply(&pod("late", Some("edge-1"))).await;
    // the node reports meanwhile, to nobody
    let id = ids.values().next().unwrap();
    assert!(world.nodes[0].runtime.crash_container(id, 1));
    world.cluster().link().through();
    world.until_file(0, &running, "/v/mode", "slow").await;
    world.pod("late").until("running", tests::runs).await;
    let restarted =
        |pod: &serde_json::Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1;
    world.pod("web").until("restarted once", restarted).await;
    assert_eq!(
        condition(&world.node("edge-1").get().await, "Ready"),
        Some("True")
    );
    assert_ne!(world.running(0), ids);
    assert_eq!(world.cloud().sessions().len(), 1);
}

/// What a plain GET is answered: the status line, and all after it.
async fn get(server: SocketAddr, path: &str) -> String {
    let asked = async {
        let mut stream = TcpStream::connect(server).await.unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    within("an answer", asked).await
}

async fn until_ready(server: SocketAddr, status: &str, body: &str) {
    eventually(&format!("/readyz says {status}"), async || {
        let answer = get(server, "/readyz").await;
        if answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(body) {
            Ok(())
        } else {
            Err(answer)
        }
    })
    .await;
}

#[tokio::test]
async fn a_cloud_whose_api_server_is_away_is_not_ready() {
    let world = World::new(0).await;
    let health = world.cloud().addresses().health.unwrap();
    until_ready(health, "200", "ok").await;
    world.cluster().link().cut_connections();
    until_ready(health, "503", "API server").await;
    assert!(
        get(health, "/healthz").await.starts_with("HTTP/1.1 200"),
        "it runs, and is not to be restarted"
    );
    world.cluster().link().through();
    until_ready(health, "200", "ok").await;
    // one that takes connections and says nothing
    world.cluster().link().swallow();
    until_ready(health, "503", "API server").await;
    world.cluster().link().through();
    until_ready(health, "200", "ok").await;
}
