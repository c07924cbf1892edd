//! Pods that a node cannot take fail with the kubelet's words, and those that it took stay.

use serde_json::{Value, json};
use tests::{World, eventually, manifests::pod, runs, uid};

fn asking(name: &str, requests: Value) -> Value {
    let mut pod = pod(name, Some("edge-1"));
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod
}

/// Waits until the pod has failed: reason and message.
async fn wait_rejected(world: &World, manifest: &Value) -> (String, String) {
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let pod = world.apply(manifest).await.until("rejected", failed).await;
    assert_eq!(
        pod["status"]["containerStatuses"],
        Value::Null,
        "nothing of it ever was"
    );
    let text = |field: &str| pod["status"][field].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

/// Waits until the node's agent has stored its node in this version, or in a newer one.
async fn until_told(world: &World, node: &Value) {
    let version = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    let wanted = version(&node["metadata"]["resourceVersion"]);
    let name = format!("edge-1.{}", uid(node));
    let sync = world.object_of_cluster(
        "reliablesyncs.kubeedge.io/v1alpha1",
        "ClusterObjectSync",
        &name,
    );
    sync.until("as new as the node", |sync| {
        version(&sync["status"]["objectResourceVersion"]) >= wanted
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_does_not_fit_fails_with_the_kubelets_words() {
    let world = World::new(1).await;
    world.until_ready().await;
    let (reason, message) = wait_rejected(&world, &asking("large", json!({"cpu": "10000"}))).await;
    assert_eq!(reason, "OutOfcpu");
    let words = "Pod was rejected: Node didn't have enough resource: cpu, requested: 10000000, used: 0, capacity: ";
    assert!(message.starts_with(words), "{message}");
    let mut elsewhere = pod("elsewhere", Some("edge-1"));
    elsewhere["spec"]["nodeSelector"] = json!({"disk": "fast"});
    let (reason, message) = wait_rejected(&world, &elsewhere).await;
    assert_eq!(reason, "NodeAffinity");
    assert_eq!(
        message,
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    );
    world.run(&pod("fits", Some("edge-1"))).await;
    let events =
        kube::Api::<k8s_openapi::api::core::v1::Event>::namespaced(world.client(), "default");
    eventually("an event says so", async || {
        let all = events
            .list(&kube::api::ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let told = |reason: &str| {
            all.items
                .iter()
                .any(|event| event.reason.as_deref() == Some(reason))
        };
        if told("OutOfcpu") && told("NodeAffinity") {
            Ok(())
        } else {
            Err(format!("{} events", all.items.len()))
        }
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_runs_stays_when_the_node_changes_and_the_agent_restarts() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let node = world
        .node("edge-1")
        .merge(json!({"metadata": {"labels": {"disk": "fast"}}}))
        .await;
    // nobody promises that the label, which is one object's, comes before the pod, which is another's
    until_told(&world, &node).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["nodeSelector"] = json!({"disk": "fast"});
    world.run(&manifest).await;
    let ids = world.running(0);
    let node = world
        .node("edge-1")
        .merge(json!({"metadata": {"labels": {"disk": null}}}))
        .await;
    world.nodes[0].stop().await;
    world.nodes[0].start().await.unwrap();
    until_told(&world, &node).await;
    world.run(&pod("after", Some("edge-1"))).await;
    assert!(
        ids.values()
            .all(|id| world.running(0).values().any(|now| now == id))
    );
    assert!(runs(&world.pod("web").get().await));
    let (reason, _) = wait_rejected(&world, &{
        let mut late = manifest.clone();
        late["metadata"]["name"] = "late".into();
        late
    })
    .await;
    assert_eq!(reason, "NodeAffinity");
}

#[tokio::test]
async fn a_pod_that_was_refused_stays_as_it_is_when_the_agent_restarts() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let (reason, message) = wait_rejected(&world, &asking("large", json!({"cpu": "10000"}))).await;
    world.nodes[0].stop().await;
    world.nodes[0].start().await.unwrap();
    // The agent looks at it for sure: one look tells the generation, and another pod runs after it.
    let annotations = json!({"metadata": {"annotations": {"looked": "at"}}});
    let before = world.pod("large").merge(annotations).await;
    world.run(&pod("fence", Some("edge-1"))).await;
    let after = world.pod("large").get().await;
    assert_eq!(after["status"], before["status"]);
    assert_eq!(after["status"]["phase"], "Failed");
    assert_eq!(
        (&after["status"]["reason"], &after["status"]["message"]),
        (&json!(reason), &json!(message))
    );
    assert_eq!(after["status"]["containerStatuses"], Value::Null);
    world.pod("large").delete(None).await;
    world.pod("large").until_gone().await;
}

#[tokio::test]
async fn of_pods_that_come_together_only_as_many_run_as_fit() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let node = world.node("edge-1").get().await;
    let cpus: u64 = node["status"]["allocatable"]["cpu"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    // each takes more than a half
    let share = format!("{}m", cpus * 1000 / 2 + 1);
    world.nodes[0].stop().await;
    let names = ["a", "b", "c"];
    for name in names {
        world.apply(&asking(name, json!({"cpu": share}))).await;
    }
    world.nodes[0].start().await.unwrap();
    let mut running = 0;
    for name in names {
        let settled = |pod: &Value| runs(pod) || pod["status"]["phase"] == "Failed";
        let pod = world.pod(name).until("settled", settled).await;
        if runs(&pod) {
            running += 1;
        } else {
            assert_eq!(pod["status"]["reason"], "OutOfcpu");
        }
    }
    assert_eq!(running, 1);
}

#[tokio::test]
async fn a_critical_pod_takes_the_place_of_a_lesser_one() {
    let world = World::new(1).await;
    world.until_ready().await;
    let node = world.node("edge-1").get().await;
    let cpus = node["status"]["allocatable"]["cpu"].clone();
    let lesser = world.run(&asking("lesser", json!({"cpu": cpus}))).await;
    let mut critical = asking("critical", json!({"cpu": cpus}));
    critical["spec"]["priorityClassName"] = "system-node-critical".into();
    world.run(&critical).await;
    let failed = |pod: &Value| pod["status"]["phase"] == "Failed";
    let lesser_now = world.pod("lesser").until("preempted", failed).await;
    assert_eq!(uid(&lesser_now), uid(&lesser));
    assert_eq!(lesser_now["status"]["reason"], "Preempting");
    assert_eq!(
        lesser_now["status"]["message"],
        "Preempted in order to admit critical pod"
    );
    let conditions = lesser_now["status"]["conditions"].as_array().unwrap();
    let disrupted = conditions
        .iter()
        .find(|one| one["type"] == "DisruptionTarget")
        .unwrap();
    assert_eq!(
        (&disrupted["status"], &disrupted["reason"]),
        (&json!("True"), &json!("TerminationByKubelet"))
    );
    assert_eq!(
        disrupted["message"],
        "Pod was preempted by Kubelet to accommodate a critical pod."
    );
    world.run(&pod("idle", Some("edge-1"))).await;
}
