//! How often a node looks at things, as it is configured: what is done is seen at the runtime.

use serde_json::json;
use tests::{Setup, World, eventually, manifests::pod_that};

#[tokio::test]
async fn ended_containers_and_images_are_looked_at_as_often_as_it_is_set() {
    let edged = json!({"containerGCPeriod": "200ms", "imageGCPeriod": "200ms", "maxPerPodContainerCount": 0});
    let world = World::with(Setup {
        edged,
        ..Setup::default()
    })
    .await;
    let mut job = pod_that("job", "edge-1", &[("exit-after", "0s")]);
    job["spec"]["restartPolicy"] = "Never".into();
    world
        .apply(&job)
        .await
        .until("Succeeded", |pod| pod["status"]["phase"] == "Succeeded")
        .await;
    let runtime = &world.nodes[0].runtime;
    eventually("the ended container is removed", async || {
        let left = runtime.containers();
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    let before = runtime.calls("ListImages");
    eventually("images are looked at again and again", async || {
        let calls = runtime.calls("ListImages") - before;
        if calls >= 5 { Ok(()) } else { Err(calls) }
    })
    .await;
}

#[tokio::test]
async fn pods_are_looked_at_again_as_often_as_it_is_set() {
    let edged = json!({"tailoredKubeletConfig": {"syncFrequency": "200ms"}});
    let world = World::with(Setup {
        edged,
        ..Setup::default()
    })
    .await;
    world.run(&pod_that("web", "edge-1", &[])).await;
    let runtime = &world.nodes[0].runtime;
    let before = runtime.calls("PodSandboxStatus");
    eventually("the pod is looked at again and again", async || {
        let calls = runtime.calls("PodSandboxStatus") - before;
        if calls >= 10 { Ok(()) } else { Err(calls) }
    })
    .await;
}
