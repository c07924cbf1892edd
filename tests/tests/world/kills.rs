//! Thirty power cuts of the agent in the middle of churn: what is wanted runs in the end, and what ran before still does.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::at;
use tests::{
    World,
    manifests::{config_map, pod, pod_that},
    uid,
};
use tokio::time::Instant;

/// Changes of what is wanted, one at a time.
async fn churn(world: &World, step: usize) {
    let fleeting = format!("fleeting-{}", step / 3);
    match step % 3 {
        0 => drop(
            world
                .apply(&pod_that(&fleeting, "edge-1", &[("stop-time", "10ms")]))
                .await,
        ),
        1 => drop(
            world
                .apply(&config_map("settings", json!({"step": step.to_string()})))
                .await,
        ),
        _ => world.pod(&fleeting).delete(None).await,
    }
}

/// After how many of the agent's own steps it is cut off: none, some, many.
async fn live(world: &World, step: usize, calls: u64) {
    let wanted = calls + (step as u64 % 7);
    // a step that makes no more calls ends by the number of looks
    for _ in 0..20 {
        if total(world) >= wanted {
            return;
        }
        at(Instant::now() + Duration::from_millis(1)).await;
    }
}

fn total(world: &World) -> u64 {
    let runtime = &world.nodes[0].runtime;
    [
        "RunPodSandbox",
        "CreateContainer",
        "StartContainer",
        "StopContainer",
        "RemoveContainer",
        "RemovePodSandbox",
    ]
    .iter()
    .map(|call| runtime.calls(call))
    .sum()
}

#[tokio::test]
async fn thirty_power_cuts_in_the_middle_of_churn_heal() {
    let mut world = World::new(1).await;
    world
        .apply(&config_map("settings", json!({"step": "start"})))
        .await;
    let mut manifest = pod("steady", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let steady = world.run(&manifest).await;
    let ids = world.running(0);
    for step in 0..30 {
        let calls = total(&world);
        churn(&world, step).await;
        live(&world, step, calls).await;
        world.nodes[0].kill().await;
        world.nodes[0].start().await.unwrap();
    }
    for fleeting in 0..10 {
        world
            .pod(&format!("fleeting-{fleeting}"))
            .until_gone()
            .await;
    }
    world.until_file(0, &steady, "/v/step", "28").await;
    tests::eventually(
        "the steady pod alone runs, in its old container",
        async || match world.running(0) {
            now if now == ids => Ok(()),
            other => Err(other),
        },
    )
    .await;
    let counts = |pod: &Value| {
        pod["status"]["containerStatuses"][0]["restartCount"] == 0 && tests::runs(pod)
    };
    let after = world.pod("steady").until("never restarted", counts).await;
    assert_eq!(uid(&after), uid(&steady));
    tests::eventually("no sandbox is left of the others", async || {
        let pods = std::fs::read_dir(world.nodes[0].directory().join("kubelet/pods"))
            .unwrap()
            .count();
        if pods == 1 { Ok(()) } else { Err(pods) }
    })
    .await;
}

#[tokio::test]
async fn power_cuts_while_the_cloud_comes_and_goes_heal() {
    let mut world = World::with(tests::Setup {
        durable: true,
        ..Default::default()
    })
    .await;
    let steady = world.run(&pod("steady", Some("edge-1"))).await;
    let ids = world.running(0);
    for round in 0..4 {
        let name = format!("pod-{round}");
        world.apply(&pod(&name, Some("edge-1"))).await;
        match round % 2 {
            0 => {
                world.stop_cloud().await;
                world.nodes[0].kill().await;
                world.start_cloud().await;
                world.nodes[0].start().await.unwrap();
            }
            _ => {
                world.nodes[0].kill().await;
                world.stop_cloud().await;
                world.nodes[0].start().await.unwrap();
                world.start_cloud().await;
            }
        }
    }
    for round in 0..4 {
        world
            .pod(&format!("pod-{round}"))
            .until("running", tests::runs)
            .await;
    }
    let place = (uid(&steady).to_owned(), "main".to_owned());
    assert_eq!(world.running(0).get(&place), ids.get(&place));
    assert_eq!(world.running(0).len(), 5);
}
