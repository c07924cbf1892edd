//! Restarts of the agent, of the cloud, and of both restart no container.

use hollow::runtime::{Options, SimRuntime};
use serde_json::json;
use tests::{
    Gate, Setup, World, condition, eventually,
    manifests::{config_map, pod, pod_that},
    runs,
};

/// Three pods on one node of a cloud that can be started again; a ConfigMap among what they use.
async fn with_pods() -> World {
    let world = World::with(Setup {
        durable: true,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await;
    for name in ["one", "two", "three"] {
        let mut manifest = pod(name, Some("edge-1"));
        manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
        manifest["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "v", "mountPath": "/v"}]);
        world.run(&manifest).await;
    }
    world
}

/// Both sides work together: a pod that is new runs, and one that is deleted goes.
async fn works(world: &World, name: &str) {
    world.run(&pod(name, Some("edge-1"))).await;
    world.pod(name).delete(None).await;
    world.pod(name).until_gone().await;
}

#[tokio::test]
async fn an_agent_that_starts_again_touches_no_container() {
    let mut world = with_pods().await;
    let (ids, sandboxes) = (
        world.running(0),
        world.nodes[0].runtime.calls("RunPodSandbox"),
    );
    world.nodes[0].stop().await;
    world.nodes[0].start().await.unwrap();
    works(&world, "fence").await;
    assert_eq!(world.running(0), ids);
    assert_eq!(
        world.nodes[0].runtime.calls("RunPodSandbox"),
        sandboxes + 1,
        "the fence's alone"
    );
    assert_eq!(
        world.nodes[0].runtime.calls("StopContainer"),
        1,
        "the fence's alone"
    );
}

#[tokio::test]
async fn a_cloud_that_starts_again_restarts_nothing_and_forgets_nothing() {
    let mut world = with_pods().await;
    let ids = world.running(0);
    // the cloud writes down what was acknowledged beside everything else
    let synced = eventually("three pods and a ConfigMap are acknowledged", async || {
        let synced = world.object_syncs("edge-1").await;
        if synced.len() >= 4 {
            Ok(synced)
        } else {
            Err(synced)
        }
    })
    .await;
    world.stop_cloud().await;
    world.until_connected(0, false).await;
    world.start_cloud().await;
    works(&world, "fence").await;
    assert_eq!(world.running(0), ids);
    let after = world.object_syncs("edge-1").await;
    assert!(synced.is_subset(&after), "{synced:?} {after:?}");
    assert_eq!(
        condition(&world.node("edge-1").get().await, "Ready"),
        Some("True")
    );
}

#[tokio::test]
async fn both_start_again_the_cloud_first() {
    let mut world = with_pods().await;
    let ids = world.running(0);
    world.stop_cloud().await;
    world.nodes[0].kill().await;
    world.start_cloud().await;
    world.nodes[0].start().await.unwrap();
    works(&world, "fence").await;
    assert_eq!(world.running(0), ids);
}

#[tokio::test]
async fn both_start_again_the_agent_first() {
    let mut world = with_pods().await;
    let ids = world.running(0);
    world.nodes[0].stop().await;
    world.stop_cloud().await;
    world.nodes[0].start().await.unwrap();
    world.start_cloud().await;
    works(&world, "fence").await;
    assert_eq!(world.running(0), ids);
}

#[tokio::test]
async fn a_node_that_starts_before_its_cloud_enrols_when_it_comes() {
    let mut world = World::with(Setup {
        nodes: 0,
        durable: true,
        ..Setup::default()
    })
    .await;
    let mut node = world.prepare("edge-1", &Setup::default()).await;
    world.stop_cloud().await;
    node.start().await.unwrap();
    world.nodes.push(node);
    world.start_cloud().await;
    world.until_ready().await;
    works(&world, "fence").await;
}

#[tokio::test]
async fn two_agents_of_one_name_take_turns_and_the_newer_has_the_session() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    world.run(&pod("web", Some("edge-1"))).await;
    let ids = world.running(0);
    for _ in 0..5 {
        world.nodes[0].kill().await;
        world.nodes[0].start().await.unwrap();
        world.until_connected(0, true).await;
    }
    works(&world, "fence").await;
    assert_eq!(world.running(0), ids);
}

#[tokio::test]
async fn an_agent_that_has_lost_its_store_adopts_what_the_cloud_sends() {
    let mut world = with_pods().await;
    let (ids, starts) = (
        world.running(0),
        world.nodes[0].runtime.calls("StartContainer"),
    );
    world.nodes[0].stop().await;
    world.stop_cloud().await;
    // its first look at what runs here is without the cloud
    let lost = Gate::new();
    let looked = world.nodes[0].runtime.calls("ListPodSandbox");
    world.nodes[0].start_on(lost.clone()).await.unwrap();
    eventually("a look at what runs", async || {
        let looks = world.nodes[0].runtime.calls("ListPodSandbox") - looked;
        if looks > 0 { Ok(()) } else { Err(looks) }
    })
    .await;
    assert_eq!(world.running(0), ids, "nobody knows them, and they run");
    // the agent starts once more before the cloud is back
    world.nodes[0].start_on(lost).await.unwrap();
    world.start_cloud().await;
    works(&world, "fence").await;
    assert_eq!(world.running(0), ids);
    assert_eq!(
        world.nodes[0].runtime.calls("StartContainer"),
        starts + 1,
        "the fence's alone"
    );
    assert_eq!(
        world.nodes[0].runtime.calls("StopContainer"),
        1,
        "the fence's alone"
    );
    // one that the agent has adopted is like any other
    let one = world.pod("one").get().await;
    world.pod("one").delete(None).await;
    world.until_nothing_is_left(0, &one).await;
}

#[tokio::test]
async fn a_machine_that_has_lost_its_containers_starts_them_at_once_and_counts_on() {
    let mut world = World::new(1).await;
    world
        .apply(&pod_that(
            "web",
            "edge-1",
            &[("exit-code", "1"), ("exit-attempts", "3")],
        ))
        .await;
    let waits = |pod: &serde_json::Value| {
        let status = &pod["status"]["containerStatuses"][0];
        status["restartCount"] == 1 && status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    world.pod("web").until("in a crash loop", waits).await;
    world.nodes[0].stop().await;
    let root = Some(world.directory().join("another-disk"));
    world.nodes[0].runtime = SimRuntime::new(Options {
        root,
        ..Options::default()
    })
    .unwrap();
    world.nodes[0].start().await.unwrap();
    // two more fail; the fourth one runs
    let counted = |pod: &serde_json::Value| {
        pod["status"]["containerStatuses"][0]["restartCount"] == 3 && runs(pod)
    };
    world
        .pod("web")
        .until("running, the third restart", counted)
        .await;
}
