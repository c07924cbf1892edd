//! Nothing is acknowledged before it is stored.

use tests::{
    Gate, Setup, World,
    manifests::{config_map, pod},
    uid,
};

/// A node that stands on a store with a gate.
async fn gated_world() -> (World, std::sync::Arc<Gate>) {
    let mut world = World::new(0).await;
    let mut node = world.prepare("edge-1", &Setup::default()).await;
    let gate = Gate::new();
    node.start_on(gate.clone()).await.unwrap();
    world.nodes.push(node);
    world.until_ready().await;
    (world, gate)
}

async fn is_acknowledged(world: &World, uid: &str) -> bool {
    world
        .object_syncs("edge-1")
        .await
        .contains(&format!("edge-1.{uid}"))
}

async fn until_acknowledged(world: &World, uid: &str) {
    tests::eventually(
        "the acknowledgement is written down",
        async || match is_acknowledged(world, uid).await {
            true => Ok(()),
            false => Err("nothing"),
        },
    )
    .await;
}

#[tokio::test]
async fn what_is_not_stored_yet_is_not_acknowledged_and_does_not_run() {
    let (world, gate) = gated_world().await;
    gate.close("web");
    let web = world.apply(&pod("web", Some("edge-1"))).await.get().await;
    gate.wait_arrived(1).await;
    assert!(!is_acknowledged(&world, uid(&web)).await);
    assert!(world.running(0).is_empty());
    gate.open();
    until_acknowledged(&world, uid(&web)).await;
    world.pod("web").until("running", tests::runs).await;
}

#[tokio::test]
async fn what_could_not_be_stored_is_not_acknowledged_and_comes_again() {
    let (world, gate) = gated_world().await;
    gate.fail("web");
    let web = world.apply(&pod("web", Some("edge-1"))).await.get().await;
    gate.wait_arrived(1).await;
    assert!(!is_acknowledged(&world, uid(&web)).await);
    // the cloud repeats what was not acknowledged
    gate.wait_arrived(2).await;
    assert!(!is_acknowledged(&world, uid(&web)).await);
    gate.open();
    until_acknowledged(&world, uid(&web)).await;
    world.pod("web").until("running", tests::runs).await;
}

#[tokio::test]
async fn an_agent_that_ends_before_it_has_stored_gets_the_message_again() {
    let (mut world, gate) = gated_world().await;
    gate.close("web");
    let web = world.apply(&pod("web", Some("edge-1"))).await.get().await;
    gate.wait_arrived(1).await;
    world.nodes[0].kill().await;
    assert!(!is_acknowledged(&world, uid(&web)).await);
    gate.open();
    world.nodes[0].start_on(gate.clone()).await.unwrap();
    world.pod("web").until("running", tests::runs).await;
    until_acknowledged(&world, uid(&web)).await;
}

#[tokio::test]
async fn a_status_that_could_not_be_stored_is_not_lost() {
    let (world, gate) = gated_world().await;
    world
        .apply(&config_map("settings", serde_json::json!({"k": "v"})))
        .await;
    world.run(&pod("web", Some("edge-1"))).await;
    gate.fail("web");
    let id = world.running(0).into_values().next().unwrap();
    assert!(world.nodes[0].runtime.crash_container(&id, 9));
    gate.wait_arrived(1).await;
    gate.open();
    world
        .pod("web")
        .until("told of its restart", |pod| {
            pod["status"]["containerStatuses"][0]["restartCount"] == 1
        })
        .await;
}
