//! Nodes come, are heard of, and are missed.

use std::time::Duration;

use tests::{Setup, World, condition};

#[tokio::test]
async fn a_node_registers_itself_and_is_ready() {
    let world = World::new(2).await;
    world.until_ready().await;
    let node = world.node("edge-1").get().await;
    assert_eq!(node["metadata"]["labels"]["node-role.kubernetes.io/edge"], "");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "edge-1");
    assert!(node["status"]["nodeInfo"]["kubeletVersion"].as_str().unwrap().contains("kubeedge"));
    assert_eq!(node["status"]["addresses"][0]["address"], "127.0.0.1");
    assert!(node["status"]["allocatable"]["pods"].is_string());
}

#[tokio::test]
async fn a_node_whose_agent_is_gone_becomes_not_ready_and_comes_back_with_it() {
    let (lease, lease_grace) = (Duration::from_secs(1), Duration::from_secs(2));
    let mut world = World::with(Setup { lease, lease_grace, ..Setup::default() }).await;
    world.until_ready().await;
    world.nodes[0].stop().await;
    let node = world.node("edge-1");
    let missed = node
        .until("NotReady", |node| {
            condition(node, "Ready") == Some("Unknown") && !node["spec"]["taints"].is_null()
        })
        .await;
    assert_eq!(missed["spec"]["taints"][0]["key"], "node.kubernetes.io/unreachable");
    world.nodes[0].start().await.unwrap();
    node.until("Ready and without a taint", |node| {
        condition(node, "Ready") == Some("True")
            && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
    })
    .await;
}

#[tokio::test]
async fn a_node_that_was_deleted_in_the_cloud_registers_itself_again() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let old = world.node("edge-1").get().await["metadata"]["uid"].clone();
    world.nodes[0].stop().await;
    world.node("edge-1").delete(None).await;
    world.nodes[0].start().await.unwrap();
    let ready =
        |node: &serde_json::Value| node["metadata"]["uid"] != old && condition(node, "Ready") == Some("True");
    world.node("edge-1").until("registered anew", ready).await;
}

#[tokio::test]
async fn a_node_that_is_deleted_while_it_is_connected_registers_itself_again() {
    let world = World::new(1).await;
    world.until_ready().await;
    let old = world.node("edge-1").get().await["metadata"]["uid"].clone();
    world.node("edge-1").delete(None).await;
    let ready =
        |node: &serde_json::Value| node["metadata"]["uid"] != old && condition(node, "Ready") == Some("True");
    world.node("edge-1").until("registered anew", ready).await;
}
