//! Messages that are lost, doubled, mixed or old, and acknowledgements and answers that are not given.

use serde_json::{Value, json};
use tests::{
    Setup, World,
    manifests::{config_map, pod},
    uid,
};

use super::{NODES, link, set, until_anew, with};

/// A world in which what is not acknowledged is soon sent again.
async fn impatient() -> World {
    let mut setup = Setup::default();
    setup.limits.acknowledgement = std::time::Duration::from_millis(50);
    with(setup).await
}

/// A pod on the node that has a ConfigMap of its name as files.
fn reader(name: &str, node: &str) -> Value {
    let mut manifest = pod(name, Some(node));
    manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": name}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    manifest
}

fn restarts(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["restartCount"]
}

#[tokio::test]
async fn old_versions_never_replace_newer_ones_however_often_and_mixed_they_come() {
    let world = impatient().await;
    let faults = world.cloud().faults();
    set(
        faults,
        json!({"stale": 1.0, "duplicate": 0.5, "reorder": 0.3, "jitter": "5ms"}),
    );
    let mut pods = Vec::new();
    for node in NODES {
        let name = format!("on-{node}");
        world.apply(&config_map(&name, json!({"key": "v0"}))).await;
        pods.push(world.run(&reader(&name, node)).await);
    }
    for version in 1..=6 {
        for node in NODES {
            world
                .apply(&config_map(
                    &format!("on-{node}"),
                    json!({"key": format!("v{version}")}),
                ))
                .await;
        }
        for (number, pod) in pods.iter().enumerate() {
            world
                .until_file(number, pod, "/v/key", &format!("v{version}"))
                .await;
        }
    }
    // behind everything that was old
    faults.clear_everything();
    for (number, node) in NODES.iter().enumerate() {
        world.run(&pod(&format!("last-{node}"), Some(node))).await;
        world
            .until_file(number, &pods[number], "/v/key", "v6")
            .await;
        assert_eq!(restarts(&world.pod(&format!("on-{node}")).get().await), 0);
    }
}

#[tokio::test]
async fn a_pod_that_was_deleted_does_not_come_back_with_an_old_message() {
    let world = impatient().await;
    let faults = world.cloud().faults();
    set(faults, json!({"stale": 1.0}));
    for (number, node) in NODES.iter().enumerate() {
        let name = format!("on-{node}");
        let ran = world.run(&pod(&name, Some(node))).await;
        world.pod(&name).delete(Some(0)).await;
        world.pod(&name).until_gone().await;
        // behind the old message
        world.run(&pod(&format!("last-{node}"), Some(node))).await;
        world.until_nothing_is_left(number, &ran).await;
        assert!(
            world
                .running(number)
                .keys()
                .all(|(pod, _)| pod != uid(&ran))
        );
    }
}

#[tokio::test]
async fn what_was_lost_comes_with_the_next_connection() {
    let world = impatient().await;
    let faults = world.cloud().faults();
    for (number, node) in NODES.iter().enumerate() {
        let name = format!("on-{node}");
        world.run(&pod(&name, Some(node))).await;
        set(faults, json!({"drop": 1.0}));
        let id = world.running(number).into_values().next().unwrap();
        assert!(world.nodes[number].runtime.crash_container(&id, 9));
        world.apply(&pod(&format!("lost-{node}"), Some(node))).await;
        let before = link(&world, number);
        faults.clear_everything();
        faults.cut_link(node);
        world.until_connected(number, false).await;
        faults.restore(node);
        until_anew(&world, number, before).await;
        world
            .pod(&name)
            .until("told of its restart", |pod| *restarts(pod) == 1)
            .await;
        world
            .pod(&format!("lost-{node}"))
            .until("running", tests::runs)
            .await;
    }
}

#[tokio::test]
async fn a_cloud_that_hears_no_acknowledgement_makes_nothing_start_twice() {
    let world = impatient().await;
    let faults = world.cloud().faults();
    set(faults, json!({"refuseAcknowledgements": true}));
    for node in NODES {
        world.run(&pod(&format!("on-{node}"), Some(node))).await;
    }
    let ran = [world.running(0), world.running(1)];
    // it goes on repeating itself, and others get their turn
    for node in NODES {
        world.run(&pod(&format!("next-{node}"), Some(node))).await;
    }
    let held = world.pod("on-edge-1").get().await;
    let record = format!("edge-1.{}", uid(&held));
    let record = world.object("reliablesyncs.kubeedge.io/v1alpha1", "ObjectSync", &record);
    let acknowledged = |record: Option<&Value>| {
        let revision = record.and_then(|record| record["status"]["objectResourceVersion"].as_str());
        revision.is_some_and(|revision| revision != "0")
    };
    assert!(!acknowledged(record.find().await.as_ref()));
    faults.clear_everything();
    record.state("an acknowledgement", acknowledged).await;
    for (number, before) in ran.iter().enumerate() {
        let now = world.running(number);
        assert!(
            before.iter().all(|(place, id)| now.get(place) == Some(id)),
            "the same containers"
        );
    }
}

#[tokio::test]
async fn reports_that_nobody_answers_are_told_again() {
    let world = impatient().await;
    let faults = world.cloud().faults();
    for node in NODES {
        world.run(&pod(&format!("on-{node}"), Some(node))).await;
    }
    set(faults, json!({"refuseAnswers": true}));
    for (number, node) in NODES.iter().enumerate() {
        let id = world.running(number).into_values().next().unwrap();
        assert!(world.nodes[number].runtime.crash_container(&id, 9));
        // what is told counts, whether it is answered or not
        world
            .pod(&format!("on-{node}"))
            .until("told of its restart", |pod| *restarts(pod) == 1)
            .await;
    }
    faults.clear_everything();
    for (number, node) in NODES.iter().enumerate() {
        let before = link(&world, number);
        faults.cut_link(node);
        world.until_connected(number, false).await;
        faults.restore(node);
        until_anew(&world, number, before).await;
        let id = world.running(number).into_values().next().unwrap();
        assert!(world.nodes[number].runtime.crash_container(&id, 9));
        world
            .pod(&format!("on-{node}"))
            .until("told of its restart", |pod| *restarts(pod) == 2)
            .await;
    }
}
