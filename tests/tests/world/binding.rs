//! Pods without a node get one that takes them.

use serde_json::{Value, json};
use tests::{World, condition, manifests::pod};

fn unschedulable(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let found = conditions
        .iter()
        .find(|it| it["type"] == "PodScheduled" && it["reason"] == "Unschedulable")?;
    found["message"].as_str()
}

#[tokio::test]
async fn pods_are_spread_over_the_nodes() {
    let world = World::new(2).await;
    world.until_ready().await;
    let mut nodes = Vec::new();
    for name in ["one", "two"] {
        nodes.push(
            world.run(&pod(name, None)).await["spec"]["nodeName"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    nodes.sort();
    assert_eq!(nodes, ["edge-1", "edge-2"]);
}

#[tokio::test]
async fn a_node_selector_is_respected_and_waits_for_its_node() {
    let world = World::new(2).await;
    world.until_ready().await;
    let mut manifest = pod("picky", None);
    manifest["spec"]["nodeSelector"] = json!({"disk": "fast"});
    let place = world.apply(&manifest).await;
    let of_both =
        |pod: &Value| unschedulable(pod).is_some_and(|message| message.contains("0/2 nodes"));
    let waiting = place.until("Unschedulable on both", of_both).await;
    assert_eq!(condition(&waiting, "PodScheduled"), Some("False"));
    world
        .node("edge-2")
        .merge(json!({"metadata": {"labels": {"disk": "fast"}}}))
        .await;
    let running = place.until("running", tests::runs).await;
    assert_eq!(running["spec"]["nodeName"], "edge-2");
    assert_eq!(condition(&running, "PodScheduled"), Some("True"));
}

#[tokio::test]
async fn taints_keep_pods_away_that_do_not_tolerate_them() {
    let world = World::new(1).await;
    world.until_ready().await;
    let taint =
        json!({"spec": {"taints": [{"key": "reserved", "value": "gpu", "effect": "NoSchedule"}]}});
    world.node("edge-1").merge(taint).await;
    let place = world.apply(&pod("plain", None)).await;
    place
        .until("Unschedulable", |pod| unschedulable(pod).is_some())
        .await;
    let mut tolerant = pod("tolerant", None);
    tolerant["spec"]["tolerations"] = json!([{"key": "reserved", "operator": "Exists"}]);
    world.run(&tolerant).await;
    assert!(place.get().await["spec"]["nodeName"].is_null());
    world
        .node("edge-1")
        .merge(json!({"spec": {"taints": null}}))
        .await;
    place.until("running", tests::runs).await;
}

#[tokio::test]
async fn a_cordoned_node_gets_no_new_pods_and_keeps_its_own() {
    let world = World::new(1).await;
    world.until_ready().await;
    let before = world.run(&pod("before", None)).await;
    world
        .node("edge-1")
        .merge(json!({"spec": {"unschedulable": true}}))
        .await;
    let place = world.apply(&pod("after", None)).await;
    place
        .until("Unschedulable", |pod| unschedulable(pod).is_some())
        .await;
    assert!(tests::runs(&world.pod("before").get().await), "{before:#}");
    world
        .node("edge-1")
        .merge(json!({"spec": {"unschedulable": null}}))
        .await;
    place.until("running", tests::runs).await;
}

#[tokio::test]
async fn a_pod_waits_for_the_first_node() {
    let mut world = World::new(0).await;
    let place = world.apply(&pod("early", None)).await;
    place
        .until("Unschedulable", |pod| unschedulable(pod).is_some())
        .await;
    let mut node = world.prepare("edge-1", &tests::Setup::default()).await;
    node.start().await.unwrap();
    world.nodes.push(node);
    place.until("running", tests::runs).await;
}

#[tokio::test]
async fn what_does_not_fit_waits_and_is_made_once() {
    let world = World::new(1).await;
    world.until_ready().await;
    let mut huge = pod("huge", None);
    huge["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1000"}});
    let place = world.apply(&huge).await;
    let waiting = place
        .until("Unschedulable", |pod| unschedulable(pod).is_some())
        .await;
    assert_eq!(
        unschedulable(&waiting),
        Some(
            "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
    );
    let mut first = pod("first", None);
    first["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 8080}]);
    let mut second = first.clone();
    second["metadata"]["name"] = json!("second");
    world.run(&first).await;
    let second = world.apply(&second).await;
    let waiting = second
        .until("Unschedulable", |pod| unschedulable(pod).is_some())
        .await;
    assert!(
        unschedulable(&waiting)
            .unwrap()
            .contains("didn't have free ports"),
        "{waiting:#}"
    );
    world.pod("first").delete(None).await;
    second.until("running", tests::runs).await;
}
