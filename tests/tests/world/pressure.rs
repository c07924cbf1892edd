//! A node that runs short: what it says, whom it refuses, whom it evicts, and what it keeps.

use std::{
    fs,
    time::{Duration, Instant},
};

use edged::Signal;
use serde_json::{Value, json};
use tests::{Readings, Setup, World, condition, eventually, manifests::pod, runs, uid};

/// A node that bears these settings of the kubelet, and forgets at once that it was short of something.
async fn world(kubelet: Value) -> (World, Readings) {
    let readings = Readings::default();
    let mut settings = json!({"evictionPressureTransitionPeriod": "0s"});
    settings
        .as_object_mut()
        .unwrap()
        .extend(kubelet.as_object().unwrap().clone());
    let edged = json!({"tailoredKubeletConfig": settings});
    let world = World::with(Setup {
        edged,
        readings: Some(readings.clone()),
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    (world, readings)
}

fn asking(name: &str, requests: Value) -> Value {
    let mut pod = pod(name, Some("edge-1"));
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod
}

async fn until_node(world: &World, kind: &str, status: &str) {
    world
        .node("edge-1")
        .until(kind, |node| condition(node, kind) == Some(status))
        .await;
}

async fn until_evicted(world: &World, name: &str) -> Value {
    world
        .pod(name)
        .until("evicted", |pod| pod["status"]["phase"] == "Failed")
        .await
}

fn transition(pod: &Value, kind: &str) -> Value {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .find(|one| one["type"] == kind)
        .unwrap_or(&Value::Null)
        .clone()
}

#[tokio::test]
async fn for_want_of_memory_pods_go_by_class_and_static_ones_stay() {
    let (world, readings) = world(json!({"evictionHard": {"memory.available": "100"}})).await;
    let mut file = pod("fixed", None);
    file["spec"].as_object_mut().unwrap().remove("nodeName");
    fs::write(
        world.nodes[0].directory().join("manifests/fixed.yaml"),
        file.to_string(),
    )
    .unwrap();
    let mirror = world.pod("fixed-edge-1").until("mirrored", runs).await;
    let kept = world.running(0);
    world.run(&asking("modest", json!({"memory": "1Gi"}))).await;
    world.run(&pod("any", Some("edge-1"))).await;
    readings.set(Signal::MemoryAvailable, 50);
    until_node(&world, "MemoryPressure", "True").await;
    let first = until_evicted(&world, "any").await;
    assert_eq!(first["status"]["reason"], "Evicted");
    assert_eq!(
        first["status"]["message"],
        "The node was low on resource: memory. Threshold quantity: 100, available: 50. Container main was using 4Mi, \
         request is 0, has larger consumption of memory. "
    );
    let disrupted = transition(&first, "DisruptionTarget");
    assert_eq!(
        (&disrupted["status"], &disrupted["reason"]),
        (&json!("True"), &json!("TerminationByKubelet"))
    );
    let refused = world.apply(&pod("late", Some("edge-1"))).await;
    let refused = refused
        .until("refused", |pod| pod["status"]["phase"] == "Failed")
        .await;
    assert_eq!(
        refused["status"]["message"],
        "Pod was rejected: The node had condition: [MemoryPressure]. "
    );
    // still short: the next one is the one that asks for what it uses
    let second = until_evicted(&world, "modest").await;
    let since = |pod: &Value| transition(pod, "DisruptionTarget")["lastTransitionTime"].clone();
    assert!(
        since(&first).as_str() <= since(&second).as_str(),
        "{first:#}, then {second:#}"
    );
    readings.set(Signal::MemoryAvailable, 900);
    until_node(&world, "MemoryPressure", "False").await;
    world.run(&pod("later", Some("edge-1"))).await;
    assert!(
        kept.iter()
            .all(|(place, id)| world.running(0).get(place) == Some(id)),
        "{kept:?} is not kept"
    );
    assert_eq!(uid(&world.pod("fixed-edge-1").get().await), uid(&mirror));
}

#[tokio::test]
async fn a_node_short_of_process_ids_says_so_and_evicts() {
    let (world, readings) = world(json!({"evictionHard": {"pid.available": "10%"}})).await;
    world.run(&pod("any", Some("edge-1"))).await;
    readings.set(Signal::PidAvailable, 99);
    until_node(&world, "PIDPressure", "True").await;
    let evicted = until_evicted(&world, "any").await;
    assert_eq!(
        evicted["status"]["message"],
        "The node was low on resource: pids. Threshold quantity: 100, available: 99. "
    );
    readings.set(Signal::PidAvailable, 100);
    until_node(&world, "PIDPressure", "False").await;
}

#[tokio::test]
async fn a_soft_threshold_is_borne_for_its_grace_period() {
    let grace = Duration::from_secs(2);
    let (world, readings) = world(json!({
        "evictionSoft": {"memory.available": "100"},
        "evictionSoftGracePeriod": {"memory.available": "2s"},
        "evictionMaxPodGracePeriod": 1,
    }))
    .await;
    let before = world.run(&pod("any", Some("edge-1"))).await;
    let begun = Instant::now();
    readings.set(Signal::MemoryAvailable, 50);
    until_node(&world, "MemoryPressure", "True").await;
    readings.set(Signal::MemoryAvailable, 900);
    until_node(&world, "MemoryPressure", "False").await;
    // what was borne before does not count
    let again = Instant::now();
    readings.set(Signal::MemoryAvailable, 50);
    let evicted = eventually("evicted", async || {
        readings.look();
        let pod = world.pod("any").get().await;
        if pod["status"]["phase"] == "Failed" {
            Ok(pod)
        } else {
            Err(pod["status"]["phase"].clone())
        }
    })
    .await;
    assert!(again.elapsed() >= grace && again > begun);
    assert_eq!(
        (uid(&evicted), &evicted["status"]["reason"]),
        (uid(&before), &json!("Evicted"))
    );
}

/// Names of images on the node, without the runtime's own.
async fn images(world: &World) -> Vec<String> {
    let mut client =
        wire::cri::image_service_client::ImageServiceClient::new(world.nodes[0].runtime.channel());
    let listed = client
        .list_images(wire::cri::ListImagesRequest::default())
        .await
        .unwrap()
        .into_inner();
    let mut names: Vec<_> = listed
        .images
        .into_iter()
        .flat_map(|image| image.repo_tags)
        .collect();
    names.retain(|name| name.contains("registry.example"));
    names
}

fn with_image(name: &str, image: &str) -> Value {
    let mut pod = pod(name, Some("edge-1"));
    pod["spec"]["containers"][0]["image"] = image.into();
    pod
}

#[tokio::test]
async fn a_full_disk_is_freed_of_what_nobody_uses_before_any_pod_goes() {
    let (world, readings) =
        world(json!({"evictionHard": {"nodefs.available": "100"}, "imageMinimumGCAge": "0s"}))
            .await;
    let user = world
        .run(&with_image("user", "registry.example/used:1"))
        .await;
    let mut over = with_image("over", "registry.example/unused:1");
    over["spec"]["restartPolicy"] = "Never".into();
    let over = world.run(&over).await;
    let ended = world.nodes[0]
        .runtime
        .container_ids_of(uid(&over))
        .remove(0);
    assert!(world.nodes[0].runtime.crash_container(&ended, 0));
    world
        .pod("over")
        .until("over", |pod| pod["status"]["phase"] == "Succeeded")
        .await;
    readings.set_once(Signal::NodeFsAvailable, 50);
    eventually("what nobody uses is gone", async || {
        let (images, ended) = (
            images(&world).await,
            world.nodes[0].runtime.container_ids_of(uid(&over)),
        );
        if images == ["registry.example/used:1"] && ended.is_empty() {
            Ok(())
        } else {
            Err((images, ended))
        }
    })
    .await;
    readings.look();
    until_node(&world, "DiskPressure", "False").await;
    let now = world.pod("user").get().await;
    assert!(runs(&now) && uid(&now) == uid(&user), "{now:#}");
}

#[tokio::test]
async fn images_that_nobody_uses_go_when_their_disk_fills() {
    let settings = json!({
        "imageGCHighThresholdPercent": 1, "imageGCLowThresholdPercent": 0, "imageMinimumGCAge": "0s",
    });
    let (mut world, _) = world(settings).await;
    world
        .run(&with_image("user", "registry.example/used:1"))
        .await;
    world
        .run(&with_image("goes", "registry.example/unused:1"))
        .await;
    assert_eq!(images(&world).await.len(), 2);
    world.pod("goes").delete(None).await;
    world.pod("goes").until_gone().await;
    // the first look comes with the start
    world.nodes[0].kill().await;
    world.nodes[0].start().await.unwrap();
    eventually("the image that is used is left", async || {
        let images = images(&world).await;
        if images == ["registry.example/used:1"] {
            Ok(())
        } else {
            Err(images)
        }
    })
    .await;
}

#[tokio::test]
async fn containers_that_have_ended_are_forgotten_and_still_counted() {
    let edged = json!({"maxPerPodContainerCount": 0});
    let mut world = World::with(Setup {
        edged,
        ..Setup::default()
    })
    .await;
    let before = world.run(&pod("again", Some("edge-1"))).await;
    let first = world.running(0).into_values().next().unwrap();
    assert!(world.nodes[0].runtime.crash_container(&first, 1));
    let again =
        |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1 && runs(pod);
    world.pod("again").until("restarted", again).await;
    world.nodes[0].kill().await;
    world.nodes[0].start().await.unwrap();
    eventually("the container that runs is left", async || {
        let left = world.nodes[0].runtime.container_ids_of(uid(&before));
        if left.len() == 1 && left[0] != first {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await;
    world.until_connected(0, true).await;
    world.run(&pod("marker", Some("edge-1"))).await;
    let now = world.pod("again").get().await;
    assert!(again(&now) && uid(&now) == uid(&before), "{now:#}");
}

#[tokio::test]
async fn one_that_cannot_be_removed_keeps_no_other() {
    let edged = json!({"maxPerPodContainerCount": 0});
    let mut world = World::with(Setup {
        edged,
        ..Setup::default()
    })
    .await;
    let mut pods = Vec::new();
    for name in ["one", "two"] {
        pods.push(world.run(&pod(name, Some("edge-1"))).await);
    }
    let dead = world.running(0);
    for id in dead.values() {
        assert!(world.nodes[0].runtime.crash_container(id, 1));
    }
    let again =
        |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1 && runs(pod);
    for name in ["one", "two"] {
        world.pod(name).until("restarted", again).await;
    }
    world.nodes[0].kill().await;
    world.nodes[0]
        .runtime
        .fail_next("RemoveContainer", tonic::Status::internal("not now"));
    world.nodes[0].start().await.unwrap();
    eventually("one of the two is gone", async || {
        let all = pods
            .iter()
            .flat_map(|pod| world.nodes[0].runtime.container_ids_of(uid(pod)));
        let left: Vec<_> = all
            .filter(|id| dead.values().any(|dead| dead == id))
            .collect();
        if left.len() == 1 { Ok(()) } else { Err(left) }
    })
    .await;
}
