//! Containers that end: restart policies, phases, counts.

use serde_json::Value;
use tests::{
    World,
    manifests::{pod, pod_that},
};

fn with_policy(name: &str, policy: &str, behaviour: &[(&str, &str)]) -> Value {
    let mut pod = pod_that(name, "edge-1", behaviour);
    pod["spec"]["restartPolicy"] = policy.into();
    pod
}

fn main_status(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

fn phase(wanted: &str) -> impl Fn(&Value) -> bool {
    move |pod| pod["status"]["phase"] == wanted
}

#[tokio::test]
async fn never_restarted_pods_succeed_or_fail() {
    let world = World::new(1).await;
    world
        .apply(&with_policy("fine", "Never", &[("exit-after", "20ms")]))
        .await;
    world
        .apply(&with_policy("broken", "Never", &[("exit-code", "3")]))
        .await;
    let fine = world
        .pod("fine")
        .until("Succeeded", phase("Succeeded"))
        .await;
    let broken = world.pod("broken").until("Failed", phase("Failed")).await;
    assert_eq!(main_status(&fine)["state"]["terminated"]["exitCode"], 0);
    assert_eq!(
        main_status(&fine)["state"]["terminated"]["reason"],
        "Completed"
    );
    assert_eq!(main_status(&broken)["state"]["terminated"]["exitCode"], 3);
    assert_eq!(main_status(&broken)["restartCount"], 0);
    assert_eq!(world.running(0).len(), 0);
}

#[tokio::test]
async fn a_failure_is_tried_again_until_it_is_none() {
    let world = World::new(1).await;
    let behaviour = [("exit-code", "1"), ("exit-attempts", "1")];
    world
        .apply(&with_policy("job", "OnFailure", &behaviour))
        .await;
    let again = |pod: &Value| main_status(pod)["restartCount"] == 1 && tests::runs(pod);
    let pod = world.pod("job").until("restarted", again).await;
    assert_eq!(main_status(&pod)["lastState"]["terminated"]["exitCode"], 1);
    let id = world.running(0).into_values().next().unwrap();
    assert!(world.nodes[0].runtime.crash_container(&id, 0));
    world
        .pod("job")
        .until("Succeeded", phase("Succeeded"))
        .await;
}

#[tokio::test]
async fn a_crash_is_restarted_at_once_and_a_crash_loop_waits() {
    let world = World::new(1).await;
    world
        .apply(&with_policy("loop", "Always", &[("exit-code", "2")]))
        .await;
    let loops = |pod: &Value| main_status(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    let pod = world.pod("loop").until("in a crash loop", loops).await;
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(main_status(&pod)["restartCount"], 1);
    assert_eq!(main_status(&pod)["lastState"]["terminated"]["exitCode"], 2);
    assert!(
        main_status(&pod)["state"]["waiting"]["message"]
            .as_str()
            .unwrap()
            .contains("back-off 10s"),
        "{pod:#}"
    );
}

#[tokio::test]
async fn a_crash_shows_its_reason_and_the_pod_keeps_its_address() {
    let world = World::new(1).await;
    let before = world.run(&pod("web", Some("edge-1"))).await;
    let id = world.running(0).into_values().next().unwrap();
    assert!(world.nodes[0].runtime.crash_container(&id, 139));
    let again = |pod: &Value| main_status(pod)["restartCount"] == 1 && tests::runs(pod);
    let after = world.pod("web").until("restarted", again).await;
    assert_eq!(
        main_status(&after)["lastState"]["terminated"]["exitCode"],
        139
    );
    assert_eq!(after["status"]["podIP"], before["status"]["podIP"]);
    assert_eq!(world.nodes[0].runtime.calls("RunPodSandbox"), 1);
}

#[tokio::test]
async fn a_deleted_pod_that_has_ended_goes_too() {
    let world = World::new(1).await;
    world
        .apply(&with_policy("done", "Never", &[("exit-after", "0s")]))
        .await;
    let pod = world
        .pod("done")
        .until("Succeeded", phase("Succeeded"))
        .await;
    world.pod("done").delete(None).await;
    world.pod("done").until_gone().await;
    world.until_nothing_is_left(0, &pod).await;
}
