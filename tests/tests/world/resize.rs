//! Running pods get other resources.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tests::{World, manifests::pod};

async fn resize(world: &World, resources: Value) {
    let patch = json!({"spec": {"containers": [{"name": "app", "resources": resources}]}});
    Api::<Pod>::default_namespaced(world.client())
        .patch_subresource(
            "resize",
            "web",
            &PatchParams::default(),
            &Patch::Strategic(patch),
        )
        .await
        .unwrap();
}

/// The container's status, as soon as its resources have this value.
async fn until_resource(world: &World, pointer: &str, value: &str) -> Value {
    let what = format!("{pointer} is {value}");
    let resources = |pod: &Value| pod["status"]["containerStatuses"][0]["resources"].clone();
    let pod = world
        .pod("web")
        .until(&what, |pod| {
            resources(pod).pointer(pointer) == Some(&json!(value))
        })
        .await;
    pod["status"]["containerStatuses"][0].clone()
}

fn pending_reason(pod: &Value) -> Option<String> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let pending = conditions
        .iter()
        .find(|condition| condition["type"] == "PodResizePending")?;
    Some(pending["reason"].as_str()?.to_owned())
}

#[tokio::test]
async fn containers_are_resized_in_place_or_restarted_or_wait() {
    let mut world = World::new(1).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["containers"][0]["name"] = json!("app");
    manifest["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}});
    manifest["spec"]["containers"][0]["resizePolicy"] =
        json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    let first = world.run(&manifest).await["status"]["containerStatuses"][0].clone();
    assert_eq!(first["resources"]["requests"]["cpu"], "100m", "{first}");

    resize(&world, json!({"requests": {"cpu": "200m"}})).await;
    let second = until_resource(&world, "/requests/cpu", "200m").await;
    assert_eq!(second["containerID"], first["containerID"]);
    assert_eq!(second["allocatedResources"]["cpu"], "200m");
    assert_eq!(world.nodes[0].runtime.calls("UpdateContainerResources"), 1);

    resize(&world, json!({"limits": {"memory": "64Mi"}})).await;
    let third = until_resource(&world, "/limits/memory", "64Mi").await;
    assert_ne!(third["containerID"], first["containerID"]);
    assert_eq!(third["restartCount"], 1);

    resize(&world, json!({"requests": {"cpu": "100000"}})).await;
    let pending = world
        .pod("web")
        .until("the resize is refused", |pod| pending_reason(pod).is_some())
        .await;
    assert_eq!(pending_reason(&pending).as_deref(), Some("Infeasible"));
    let status = &pending["status"]["containerStatuses"][0];
    assert_eq!(status["containerID"], third["containerID"]);
    assert_eq!(status["resources"]["requests"]["cpu"], "200m");

    resize(&world, json!({"requests": {"cpu": "300m"}})).await;
    until_resource(&world, "/requests/cpu", "300m").await;
    let done = world
        .pod("web")
        .until("no resize is pending", |pod| pending_reason(pod).is_none())
        .await;
    assert_eq!(
        done["status"]["containerStatuses"][0]["containerID"],
        third["containerID"]
    );
    let updates = world.nodes[0].runtime.calls("UpdateContainerResources");
    world.nodes[0].stop().await;
    world.nodes[0].start().await.unwrap();
    resize(&world, json!({"requests": {"cpu": "400m"}})).await;
    until_resource(&world, "/requests/cpu", "400m").await;
    assert_eq!(
        world.nodes[0].runtime.calls("UpdateContainerResources"),
        updates + 1,
        "a restart of the agent alone resizes nothing"
    );
}
