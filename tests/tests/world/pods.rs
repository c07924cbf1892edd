//! Pods come, run, change and go.

use serde_json::json;
use tests::{
    World, eventually,
    manifests::{pod, pod_that},
    uid,
};

#[tokio::test]
async fn a_pod_runs_and_its_status_comes_back() {
    let world = World::new(1).await;
    let pod = world.run(&pod("web", Some("edge-1"))).await;
    let status = &pod["status"];
    assert_eq!(status["hostIP"], "127.0.0.1");
    assert!(status["podIP"].as_str().unwrap().contains('.'), "{status}");
    assert_eq!(status["podIPs"][0]["ip"], status["podIP"]);
    let container = &status["containerStatuses"][0];
    let id = world.running(0).into_values().next().unwrap();
    assert_eq!(container["containerID"], format!("outrigger-sim://{id}"));
    assert_eq!(container["image"], "registry.example/app:1");
    assert!(
        container["imageID"].as_str().unwrap().contains("sha256:"),
        "{container}"
    );
    assert_eq!(container["restartCount"], 0);
    assert!(container["state"]["running"]["startedAt"].is_string());
    for condition in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
        assert_eq!(
            tests::condition(&pod, condition),
            Some("True"),
            "{condition}"
        );
    }
}

#[tokio::test]
async fn init_containers_run_one_after_the_other_before_the_others() {
    let world = World::new(1).await;
    let mut manifest = pod("ordered", Some("edge-1"));
    manifest["metadata"]["annotations"] = json!({"sim.outrigger.dev/one.exit-after": "10ms", "sim.outrigger.dev/two.exit-after": "10ms"});
    manifest["spec"]["initContainers"] =
        json!([{"name": "one", "image": "a:1"}, {"name": "two", "image": "a:1"}]);
    let pod = world.run(&manifest).await;
    let times = [
        "/status/initContainerStatuses/0",
        "/status/initContainerStatuses/1",
    ]
    .map(|place| {
        let terminated = pod.pointer(place).unwrap()["state"]["terminated"].clone();
        assert_eq!(terminated["exitCode"], 0, "{pod:#}");
        (
            terminated["startedAt"].as_str().unwrap().to_owned(),
            terminated["finishedAt"].as_str().unwrap().to_owned(),
        )
    });
    assert!(times[0].1 <= times[1].0, "{times:?}");
}

#[tokio::test]
async fn a_deleted_pod_leaves_nothing() {
    let world = World::new(1).await;
    let mut manifest = pod_that(
        "web",
        "edge-1",
        &[("stop-time", "50ms"), ("log-lines", "hello")],
    );
    manifest["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let pod = world.run(&manifest).await;
    world.pod("web").delete(None).await;
    world.pod("web").until_gone().await;
    world.until_nothing_is_left(0, &pod).await;
    assert!(
        world.nodes[0].runtime.calls("StopContainer") >= 1,
        "it was asked to end"
    );
}

#[tokio::test]
async fn a_pod_deleted_by_force_goes_at_once_and_its_containers_follow() {
    let world = World::new(1).await;
    let pod = world
        .run(&pod_that("deaf", "edge-1", &[("stop-time", "never")]))
        .await;
    world.pod("deaf").delete(Some(0)).await;
    world.pod("deaf").until_gone().await;
    world.until_nothing_is_left(0, &pod).await;
}

#[tokio::test]
async fn a_pod_recreated_under_its_name_is_another_pod() {
    let world = World::new(1).await;
    let first = world.run(&pod("web", Some("edge-1"))).await;
    world.pod("web").delete(None).await;
    world.pod("web").until_gone().await;
    let second = world.run(&pod("web", Some("edge-1"))).await;
    assert_ne!(uid(&first), uid(&second));
    world.until_nothing_is_left(0, &first).await;
    assert_eq!(world.running(0).len(), 1);
}

#[tokio::test]
async fn a_bad_pod_does_not_stop_the_others() {
    let world = World::new(1).await;
    world
        .apply(&pod_that(
            "bad",
            "edge-1",
            &[("start-error", "no such file"), ("log-lines", "x")],
        ))
        .await;
    world
        .apply(&pod_that("worse", "edge-1", &[("no-such-annotation", "1")]))
        .await;
    let mut manifest = pod("worst", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "absent"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    world.apply(&manifest).await;
    world.run(&pod("good", Some("edge-1"))).await;
    let reason = |pod: &serde_json::Value| {
        pod.pointer("/status/containerStatuses/0/state/waiting/reason")
            .cloned()
    };
    // on a busy machine it is told before that that the container is being made
    let told = |pod: &serde_json::Value| {
        reason(pod).is_some_and(|reason| reason == "CreateContainerError")
    };
    world.pod("worse").until("told why", told).await;
    let bad = |pod: &serde_json::Value| {
        pod["status"]["containerStatuses"]
            .to_string()
            .contains("no such file")
    };
    world.pod("bad").until("told why", bad).await;
    world.pod("good").until("still running", tests::runs).await;
}

#[tokio::test]
async fn a_changed_image_restarts_just_that_container() {
    let world = World::new(1).await;
    let mut manifest = pod("pair", Some("edge-1"));
    manifest["spec"]["containers"] =
        json!([{"name": "main", "image": "app:1"}, {"name": "beside", "image": "side:1"}]);
    let before = world.run(&manifest).await;
    let ids = world.running(0);
    let place = |name: &str| (uid(&before).to_owned(), name.to_owned());
    manifest["spec"]["containers"][0]["image"] = "app:2".into();
    world.apply(&manifest).await;
    let after = world
        .pod("pair")
        .until("on the new image", |pod| {
            tests::runs(pod)
                && pod["status"]["containerStatuses"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|status| {
                        status["name"] == "main"
                            && status["image"].as_str().unwrap().contains("app:2")
                    })
        })
        .await;
    assert_eq!(uid(&after), uid(&before));
    let now = world.running(0);
    assert_ne!(now[&place("main")], ids[&place("main")]);
    assert_eq!(now[&place("beside")], ids[&place("beside")]);
    assert_eq!(world.nodes[0].runtime.calls("RunPodSandbox"), 1);
}

#[tokio::test]
async fn a_hook_of_a_container_that_has_ended_holds_up_nothing() {
    let world = World::new(1).await;
    let mut manifest = pod_that(
        "hooked",
        "edge-1",
        &[("exec", r#"{"wait": {"delay": "1h"}}"#)],
    );
    manifest["spec"]["terminationGracePeriodSeconds"] = json!(600);
    manifest["spec"]["containers"][0]["lifecycle"] =
        json!({"preStop": {"exec": {"command": ["wait"]}}});
    let pod = world.run(&manifest).await;
    let id = world.running(0).into_values().next().unwrap();
    world.pod("hooked").delete(None).await;
    let runtime = &world.nodes[0].runtime;
    eventually("the hook runs", async || match runtime.calls("ExecSync") {
        0 => Err("not called"),
        _ => Ok(()),
    })
    .await;
    assert!(runtime.crash_container(&id, 1));
    world.pod("hooked").until_gone().await;
    world.until_nothing_is_left(0, &pod).await;
}

#[tokio::test]
async fn a_gate_that_somebody_else_opens_makes_the_pod_ready() {
    let world = World::new(1).await;
    let mut manifest = pod("gated", Some("edge-1"));
    manifest["spec"]["readinessGates"] = json!([{"conditionType": "example.com/gate"}]);
    world.apply(&manifest).await;
    let runs = |pod: &serde_json::Value| tests::condition(pod, "ContainersReady") == Some("True");
    let pod = world.pod("gated").until("running", runs).await;
    assert_eq!(tests::condition(&pod, "Ready"), Some("False"), "{pod:#}");
    let mut conditions = pod["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({"type": "example.com/gate", "status": "True"}));
    world
        .pod("gated")
        .merge_status(json!({"conditions": conditions}))
        .await;
    let ready = |pod: &serde_json::Value| tests::condition(pod, "Ready") == Some("True");
    world.pod("gated").until("ready", ready).await;
}

#[tokio::test]
async fn pods_of_different_nodes_have_different_addresses() {
    let world = World::new(2).await;
    let mut seen = std::collections::BTreeSet::new();
    for node in ["edge-1", "edge-2"] {
        for name in ["a", "b"] {
            let pod = world.run(&pod(&format!("{name}-{node}"), Some(node))).await;
            assert!(
                seen.insert(pod["status"]["podIP"].to_string()),
                "{} of {seen:?}",
                pod["status"]["podIP"]
            );
        }
    }
    // what the cloud gives goes before what the node takes by itself, and is told to the runtime
    let given = json!({"spec": {"podCIDR": "10.7.3.0/24", "podCIDRs": ["10.7.3.0/24"]}});
    world.node("edge-1").merge(given).await;
    // with the node's next status
    eventually("the runtime is told", async || {
        let calls = world.nodes[0].runtime.calls("UpdateRuntimeConfig");
        if calls > 0 { Ok(()) } else { Err(calls) }
    })
    .await;
    let new = world.run(&pod("new", Some("edge-1"))).await;
    assert_eq!(new["status"]["podIP"], "10.7.3.2");
}
