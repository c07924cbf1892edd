//! What containers are given: environment and volumes, seen from inside.

use serde_json::{Value, json};
use tests::{
    World,
    manifests::{config_map, pod, secret},
    uid,
};

async fn create_config(world: &World) {
    world
        .apply(&config_map(
            "settings",
            json!({"mode": "fast", "level": "3"}),
        ))
        .await;
    world
        .apply(&secret("keys", json!({"password": "open sesame"})))
        .await;
}

#[tokio::test]
async fn every_source_of_environment_arrives() {
    let world = World::new(1).await;
    create_config(&world).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["metadata"]["labels"] = json!({"tier": "front"});
    let container = &mut manifest["spec"]["containers"][0];
    container["resources"] = json!({"limits": {"cpu": "250m", "memory": "64Mi"}});
    container["envFrom"] = json!([{"prefix": "S_", "configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}]);
    container["env"] = json!([
        {"name": "LITERAL", "value": "one"},
        {"name": "EXPANDED", "value": "$(LITERAL) and $$(LITERAL) and $(ABSENT)"},
        {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "password"}}},
        {"name": "OPTIONAL", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "x", "optional": true}}},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "TIER", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tier']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]);
    let pod = world.run(&manifest).await;
    let environment = world.exec(0, &pod, &["env"]).await.unwrap();
    let ip = pod["status"]["podIP"].as_str().unwrap();
    let uid = uid(&pod);
    for line in [
        "S_mode=fast",
        "S_level=3",
        "password=open sesame",
        "LITERAL=one",
        "EXPANDED=one and $(LITERAL) and $(ABSENT)",
        "MODE=fast",
        "PASSWORD=open sesame",
        "POD=web",
        &format!("POD_UID={uid}"),
        "NODE=edge-1",
        "TIER=front",
        &format!("IP={ip}"),
        "HOST=127.0.0.1",
        "MEMORY=64",
    ] {
        assert!(
            environment.lines().any(|found| found == line),
            "{line} is not in:\n{environment}"
        );
    }
    assert!(!environment.contains("OPTIONAL="), "{environment}");
}

#[tokio::test]
async fn every_kind_of_volume_is_seen_inside() {
    let world = World::new(1).await;
    create_config(&world).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["metadata"]["labels"] = json!({"tier": "front"});
    manifest["spec"]["volumes"] = json!([
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "items", "configMap": {"name": "settings", "items": [{"key": "mode", "path": "deep/mode.txt"}]}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "about", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "all", "projected": {"sources": [
            {"configMap": {"name": "settings", "items": [{"key": "level", "path": "level"}]}},
            {"secret": {"name": "keys"}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        ]}},
    ]);
    let mounts = ["config", "items", "keys", "scratch", "about", "all"];
    let mounts: Vec<Value> = mounts
        .iter()
        .map(|name| json!({"name": name, "mountPath": format!("/{name}")}))
        .collect();
    manifest["spec"]["containers"][0]["volumeMounts"] = json!(mounts);
    let pod = world.run(&manifest).await;
    for (path, content) in [
        ("/config/mode", "fast"),
        ("/config/level", "3"),
        ("/items/deep/mode.txt", "fast"),
        ("/keys/password", "open sesame"),
        ("/about/labels", "tier=\"front\""),
        ("/all/level", "3"),
        ("/all/password", "open sesame"),
        ("/all/name", "web"),
    ] {
        assert_eq!(
            world.exec(0, &pod, &["cat", path]).await.as_deref(),
            Ok(content),
            "{path}"
        );
    }
    assert!(
        world.exec(0, &pod, &["cat", "/items/level"]).await.is_err(),
        "only the listed items are there"
    );
    let token = world.exec(0, &pod, &["cat", "/all/token"]).await.unwrap();
    assert_eq!(token.split('.').count(), 3, "a JWT: {token}");
    let scratch = world.nodes[0]
        .directory()
        .join("kubelet/pods")
        .join(uid(&pod));
    assert!(
        scratch
            .join("volumes/kubernetes.io~empty-dir/scratch")
            .is_dir()
    );
}

#[tokio::test]
async fn secrets_are_readable_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new(1).await;
    create_config(&world).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["volumes"] =
        json!([{"name": "keys", "secret": {"secretName": "keys", "defaultMode": 256}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "keys", "mountPath": "/keys"}]);
    let pod = world.run(&manifest).await;
    let volume = world.nodes[0]
        .directory()
        .join("kubelet/pods")
        .join(uid(&pod))
        .join("volumes/kubernetes.io~secret/keys");
    let mode = std::fs::metadata(volume.join("password"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o400);
    let key = std::fs::metadata(world.nodes[0].directory().join("node.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(key & 0o777, 0o600);
}
