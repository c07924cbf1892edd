//! KubeEdge's ControllerManager in the cluster: node groups and node jobs are left to it as long as it has a pod.

use serde_json::{Value, json};
use tests::{
    World,
    manifests::{config_map, pod},
};

const GROUP: &str = "apps.kubeedge.io/belonging-to";

/// A pod that nothing schedules.
fn controller_manager() -> Value {
    let mut pod = pod("kubeedge-controller-manager", None);
    let spec = pod["spec"].as_object_mut().unwrap();
    spec.remove("nodeName");
    spec.insert("schedulerName".to_owned(), "none".into());
    pod["spec"]["containers"][0]["image"] = "kubeedge/controller-manager:v1.23.1".into();
    pod
}

#[tokio::test]
async fn groups_and_jobs_are_left_to_a_controller_manager_of_the_cluster() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    world.stop_cloud().await;
    let other = world.apply(&controller_manager()).await;
    world.start_cloud().await;
    world.until_connected(0, true).await;
    let group = |name: &str| {
        json!({"apiVersion": "apps.kubeedge.io/v1alpha1", "kind": "NodeGroup",
        "metadata": {"name": name}, "spec": {"nodes": ["edge-1"]}})
    };
    world.apply(&group("berlin")).await;
    let job = json!({"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "ImagePrePullJob", "metadata": {"name": "job"},
        "spec": {"imagePrePullTemplate": {"nodeNames": ["edge-1"], "images": ["a/b:1"]}}});
    let job = world.apply(&job).await;
    // the node receives something else that was applied later
    world
        .apply(&config_map("settings", json!({"a": "b"})))
        .await;
    let mut user = pod("user", Some("edge-1"));
    user["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    world.run(&user).await;
    let label = |node: &Value| node["metadata"]["labels"][GROUP].clone();
    let node = world.node("edge-1");
    assert_eq!(label(&node.get().await), Value::Null);
    assert_eq!(job.get().await["status"], Value::Null);

    other.delete(Some(0)).await;
    node.until("it is in the group", |node| label(node) == "berlin")
        .await;
    job.until("it has ended", |job| job["status"]["phase"] == "Completed")
        .await;

    // and it comes back
    world.apply(&controller_manager()).await;
    world
        .object_of_cluster("apps.kubeedge.io/v1alpha1", "NodeGroup", "berlin")
        .delete(None)
        .await;
    other.delete(Some(0)).await;
    node.until("it has left the group", |node| label(node).is_null())
        .await;
}
