//! Nothing is lost while one of the two is away.

use serde_json::{Value, json};
use tests::{
    Setup, World,
    manifests::{config_map, pod, pod_that},
    uid,
};

async fn durable() -> World {
    let world = World::with(Setup {
        durable: true,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    world
}

#[tokio::test]
async fn pods_deleted_while_the_agent_is_away_go_when_it_returns() {
    let mut world = World::new(1).await;
    let gone = world.run(&pod("gone", Some("edge-1"))).await;
    let forced = world.run(&pod("forced", Some("edge-1"))).await;
    let stays = world.run(&pod("stays", Some("edge-1"))).await;
    let ids = world.running(0);
    world.nodes[0].stop().await;
    world.pod("gone").delete(None).await;
    world.pod("forced").delete(Some(0)).await;
    world.pod("forced").until_gone().await;
    assert_eq!(world.running(0), ids, "nothing ends without an agent");
    world.nodes[0].start().await.unwrap();
    world.pod("gone").until_gone().await;
    world.until_nothing_is_left(0, &gone).await;
    world.until_nothing_is_left(0, &forced).await;
    let place = (uid(&stays).to_owned(), "main".to_owned());
    assert_eq!(world.running(0).get(&place), ids.get(&place));
}

#[tokio::test]
async fn a_pod_replaced_under_its_name_while_the_agent_is_away_is_replaced_on_the_node() {
    let mut world = World::new(1).await;
    let old = world.run(&pod("web", Some("edge-1"))).await;
    world.nodes[0].stop().await;
    world.pod("web").delete(Some(0)).await;
    world.pod("web").until_gone().await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["containers"][0]["image"] = "registry.example/app:2".into();
    world.apply(&manifest).await;
    world.nodes[0].start().await.unwrap();
    let new = world.pod("web").until("running", tests::runs).await;
    assert_ne!(uid(&old), uid(&new));
    world.until_nothing_is_left(0, &old).await;
    assert_eq!(
        new["status"]["containerStatuses"][0]["image"],
        "registry.example/app:2"
    );
    assert_eq!(world.running(0).len(), 1);
}

#[tokio::test]
async fn a_pod_moved_to_another_node_while_its_node_is_away_leaves_it() {
    let mut world = World::new(2).await;
    world.until_ready().await;
    let old = world.run(&pod("web", Some("edge-1"))).await;
    world.nodes[0].stop().await;
    world.pod("web").delete(Some(0)).await;
    world.pod("web").until_gone().await;
    world.run(&pod("web", Some("edge-2"))).await;
    world.nodes[0].start().await.unwrap();
    world.until_nothing_is_left(0, &old).await;
    let moved = world.pod("web").until("still running", tests::runs).await;
    assert_eq!(moved["spec"]["nodeName"], "edge-2");
    assert_eq!((world.running(0).len(), world.running(1).len()), (0, 1));
}

#[tokio::test]
async fn what_happened_without_the_cloud_is_told_when_it_is_back() {
    let mut world = durable().await;
    world.run(&pod("web", Some("edge-1"))).await;
    let mut once = pod("once", Some("edge-1"));
    once["spec"]["restartPolicy"] = "Never".into();
    let once = world.run(&once).await;
    let ids = world.running(0);
    world.stop_cloud().await;
    world.until_connected(0, false).await;
    for (place, id) in &ids {
        let code = if place.0 == uid(&once) { 0 } else { 7 };
        assert!(world.nodes[0].runtime.crash_container(id, code));
    }
    tests::eventually("one restarts without the cloud", async || {
        match world.running(0) {
            running
                if running.len() == 1
                    && !ids.values().any(|id| running.values().any(|now| now == id)) =>
            {
                Ok(())
            }
            other => Err(other),
        }
    })
    .await;
    world.start_cloud().await;
    world
        .pod("once")
        .until("Succeeded", |pod| pod["status"]["phase"] == "Succeeded")
        .await;
    let told = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        status["restartCount"] == 1 && status["lastState"]["terminated"]["exitCode"] == 7
    };
    world.pod("web").until("told of its restart", told).await;
}

#[tokio::test]
async fn what_happened_without_the_cloud_and_then_without_the_agent_is_told_too() {
    let mut world = durable().await;
    let mut once = pod("once", Some("edge-1"));
    once["spec"]["restartPolicy"] = "Never".into();
    world.run(&once).await;
    let id = world.running(0).into_values().next().unwrap();
    world.stop_cloud().await;
    world.nodes[0].kill().await;
    assert!(world.nodes[0].runtime.crash_container(&id, 3));
    world.nodes[0].start().await.unwrap();
    world.start_cloud().await;
    let failed = world
        .pod("once")
        .until("Failed", |pod| pod["status"]["phase"] == "Failed")
        .await;
    assert_eq!(
        failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        3
    );
}

#[tokio::test]
async fn cached_pods_run_again_without_the_cloud() {
    let mut world = durable().await;
    world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["containers"][0]["env"] = json!([{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}]);
    let pod = world.run(&manifest).await;
    let old = world.running(0);
    world.stop_cloud().await;
    world.nodes[0].stop().await;
    // as after a power cut: nothing runs any more
    assert!(
        world.nodes[0]
            .runtime
            .crash_container(old.values().next().unwrap(), 137)
    );
    world.nodes[0].start().await.unwrap();
    tests::eventually("the pod runs without the cloud", async || {
        match world.running(0) {
            now if now.len() == 1 && now != old => Ok(()),
            other => Err(other),
        }
    })
    .await;
    assert!(
        world
            .exec(0, &pod, &["env"])
            .await
            .unwrap()
            .contains("MODE=fast\n")
    );
}

#[tokio::test]
async fn changes_made_while_the_agent_is_away_arrive_once_and_newest() {
    let mut world = World::new(1).await;
    let map = world
        .apply(&config_map("settings", json!({"v": "0"})))
        .await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let pod = world.run(&manifest).await;
    world.until_file(0, &pod, "/v/v", "0").await;
    let ids = world.running(0);
    world.nodes[0].stop().await;
    for number in 1..=20 {
        map.merge(json!({"data": {"v": number.to_string()}})).await;
    }
    world.nodes[0].start().await.unwrap();
    world.until_file(0, &pod, "/v/v", "20").await;
    assert_eq!(world.running(0), ids);
}

#[tokio::test]
async fn a_graceful_deletion_goes_on_where_a_killed_agent_left_it() {
    let mut world = World::new(1).await;
    let pod = world
        .run(&pod_that("slow", "edge-1", &[("stop-time", "300ms")]))
        .await;
    world.pod("slow").delete(None).await;
    tests::eventually("it is asked to end", async || {
        match world.nodes[0].runtime.calls("StopContainer") {
            0 => Err(0),
            calls => Ok(calls),
        }
    })
    .await;
    world.nodes[0].kill().await;
    world.nodes[0].start().await.unwrap();
    world.pod("slow").until_gone().await;
    world.until_nothing_is_left(0, &pod).await;
}
