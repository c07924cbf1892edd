//! Images that cannot be had.

use serde_json::Value;
use tests::{World, manifests::pod};

fn waiting(pod: &Value) -> (&str, &str) {
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    (
        waiting["reason"].as_str().unwrap_or_default(),
        waiting["message"].as_str().unwrap_or_default(),
    )
}

#[tokio::test]
async fn an_image_that_does_not_exist_is_told_and_waited_for() {
    let world = World::new(1).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["containers"][0]["image"] = "absent.sim/app:1".into();
    let place = world.apply(&manifest).await;
    let told = |pod: &Value| matches!(waiting(pod).0, "ErrImagePull" | "ImagePullBackOff");
    let pod = place.until("told why", told).await;
    assert!(waiting(&pod).1.contains("absent.sim/app:1"), "{pod:#}");
    assert_eq!(pod["status"]["phase"], "Pending");
    let backs_off = |pod: &Value| waiting(pod).0 == "ImagePullBackOff";
    let pod = place.until("backing off", backs_off).await;
    assert!(
        waiting(&pod)
            .1
            .starts_with("Back-off pulling image \"absent.sim/app:1\""),
        "{pod:#}"
    );
}

#[tokio::test]
async fn a_pod_recovers_from_a_wrong_image_when_it_is_mended() {
    let world = World::new(1).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["containers"][0]["image"] = "denied.sim/app:1".into();
    let place = world.apply(&manifest).await;
    place
        .until("told why", |pod| waiting(pod).0.contains("Image"))
        .await;
    manifest["spec"]["containers"][0]["image"] = "registry.example/app:1".into();
    world.run(&manifest).await;
}

/// Pulls are serialized by default, as the kubelet's: only a pod whose image is present does not wait for the slow pull.
#[tokio::test]
async fn a_slow_pull_holds_up_no_pod_whose_image_is_present() {
    let world = World::new(1).await;
    world.run(&pod("first", Some("edge-1"))).await;
    let mut slow = pod("slow", Some("edge-1"));
    slow["spec"]["containers"][0]["image"] = "slow-1h.sim/app:1".into();
    let slow = world.apply(&slow).await;
    slow.until("waiting for its image", |pod| {
        waiting(pod).0 == "ContainerCreating"
    })
    .await;
    world.run(&pod("quick", Some("edge-1"))).await;
    assert_eq!(slow.get().await["status"]["phase"], "Pending");
}

#[tokio::test]
async fn image_of_a_registry_that_fails_once_is_pulled_after_the_back_off() {
    let world = World::new(1).await;
    let unavailable = "unexpected status code 503 Service Unavailable";
    let refusal = tonic::Status::unavailable(unavailable);
    world.nodes[0].runtime.fail_next("PullImage", refusal);
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["containers"][0]["image"] = "registry.example/new:1".into();
    let place = world.apply(&manifest).await;
    let waits = |pod: &Value| waiting(pod).0 == "ImagePullBackOff";
    let found = place.until("backing off", waits).await;
    assert!(waiting(&found).1.contains(unavailable), "{found:#}");
    let runs = |pod: &Value| pod["status"]["phase"] == "Running";
    let found = place.until("running", runs).await;
    let status = &found["status"]["containerStatuses"][0];
    assert_eq!(status["restartCount"], 0, "{found:#}");
}
