//! ConfigMaps and Secrets that change, come late, or go.

use serde_json::{Value, json};
use tests::{
    World,
    manifests::{config_map, pod, secret},
};

fn mounting(name: &str, source: Value) -> Value {
    let mut manifest = pod(name, Some("edge-1"));
    let mut volume = json!({"name": "v"});
    volume
        .as_object_mut()
        .unwrap()
        .extend(source.as_object().unwrap().clone());
    manifest["spec"]["volumes"] = json!([volume]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    manifest
}

fn waiting(pod: &Value) -> (&str, &str) {
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    (
        waiting["reason"].as_str().unwrap_or_default(),
        waiting["message"].as_str().unwrap_or_default(),
    )
}

#[tokio::test]
async fn a_changed_config_map_reaches_the_file_and_restarts_nothing() {
    let world = World::new(1).await;
    let map = world
        .apply(&config_map("settings", json!({"mode": "slow", "old": "x"})))
        .await;
    let pod = world
        .run(&mounting("web", json!({"configMap": {"name": "settings"}})))
        .await;
    let ids = world.running(0);
    map.merge(json!({"data": {"mode": "fast", "old": null, "new": "y"}}))
        .await;
    world.until_file(0, &pod, "/v/mode", "fast").await;
    world.until_file(0, &pod, "/v/new", "y").await;
    assert!(
        world.exec(0, &pod, &["cat", "/v/old"]).await.is_err(),
        "a key that is gone has no file"
    );
    assert_eq!(world.running(0), ids);
}

#[tokio::test]
async fn a_changed_secret_reaches_the_file() {
    let world = World::new(1).await;
    world
        .apply(&secret("keys", json!({"password": "one"})))
        .await;
    let pod = world
        .run(&mounting("web", json!({"secret": {"secretName": "keys"}})))
        .await;
    world
        .apply(&secret("keys", json!({"password": "two"})))
        .await;
    world.until_file(0, &pod, "/v/password", "two").await;
}

#[tokio::test]
async fn a_changed_label_reaches_the_file_and_restarts_nothing() {
    let world = World::new(1).await;
    let items = json!([{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]);
    let manifest = mounting("web", json!({"downwardAPI": {"items": items}}));
    let pod = world.run(&manifest).await;
    let ids = world.running(0);
    world
        .pod("web")
        .merge(json!({"metadata": {"labels": {"mode": "fast"}}}))
        .await;
    world
        .until_file(0, &pod, "/v/labels", "mode=\"fast\"")
        .await;
    assert_eq!(world.running(0), ids);
}

#[tokio::test]
async fn a_variable_from_a_missing_config_map_is_told_and_heals() {
    let world = World::new(1).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["containers"][0]["env"] = json!([{"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "mode"}}}]);
    let place = world.apply(&manifest).await;
    let told = |pod: &Value| waiting(pod).0 == "CreateContainerConfigError";
    let pod = place.until("told why", told).await;
    assert!(waiting(&pod).1.contains("late"), "{pod:#}");
    world
        .apply(&config_map("late", json!({"other": "x"})))
        .await;
    let told = |pod: &Value| waiting(pod).1.contains("mode");
    place.until("told of the missing key", told).await;
    world
        .apply(&config_map("late", json!({"mode": "fast"})))
        .await;
    let pod = place.until("running", tests::runs).await;
    assert!(
        world
            .exec(0, &pod, &["env"])
            .await
            .unwrap()
            .contains("MODE=fast\n")
    );
}

#[tokio::test]
async fn a_volume_from_a_missing_secret_is_told_and_heals() {
    let world = World::new(1).await;
    let place = world
        .apply(&mounting("web", json!({"secret": {"secretName": "late"}})))
        .await;
    let told = |pod: &Value| pod["status"].to_string().contains("late");
    let pod = place.until("told why", told).await;
    assert_eq!(waiting(&pod).0, "ContainerCreating", "{pod:#}");
    assert_eq!(world.nodes[0].runtime.calls("CreateContainer"), 0);
    world.apply(&secret("late", json!({"k": "v"}))).await;
    let pod = place.until("running", tests::runs).await;
    world.until_file(0, &pod, "/v/k", "v").await;
}

#[tokio::test]
async fn an_optional_config_map_appears_when_it_comes() {
    let world = World::new(1).await;
    let pod = world
        .run(&mounting(
            "web",
            json!({"configMap": {"name": "late", "optional": true}}),
        ))
        .await;
    world.apply(&config_map("late", json!({"k": "v"}))).await;
    world.until_file(0, &pod, "/v/k", "v").await;
}

#[tokio::test]
async fn a_deleted_config_map_leaves_a_running_pod_alone() {
    let world = World::new(1).await;
    let map = world
        .apply(&config_map("settings", json!({"k": "v"})))
        .await;
    let pod = world
        .run(&mounting("web", json!({"configMap": {"name": "settings"}})))
        .await;
    let ids = world.running(0);
    map.delete(None).await;
    world
        .run(&tests::manifests::pod("after", Some("edge-1")))
        .await;
    assert_eq!(
        world.exec(0, &pod, &["cat", "/v/k"]).await.as_deref(),
        Ok("v")
    );
    assert!(
        ids.iter()
            .all(|(place, id)| world.running(0).get(place) == Some(id))
    );
}
