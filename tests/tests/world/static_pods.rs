//! Static pods: from a file to the node, and from the node to the cloud.

use std::fs;

use serde_json::{Value, json};
use tests::{Setup, World, eventually, runs, uid};

fn manifest(image: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "main", "image": image}],
        },
    })
    .to_string()
}

fn write(world: &World, file: &str, text: &str) {
    let folder = world.nodes[0].directory().join("manifests");
    fs::write(folder.join(file), text).unwrap();
}

/// The one running container of the node's static pod: the pod's own UID and the container's id.
async fn running(world: &World) -> (String, String) {
    eventually("one container runs", async || {
        let all = world.running(0);
        match all.iter().next() {
            Some(((uid, _), id)) if all.len() == 1 => Ok((uid.clone(), id.clone())),
            _ => Err(all),
        }
    })
    .await
}

fn mirrors(pod: &Value, hash: &str) -> bool {
    pod["metadata"]["annotations"]["kubernetes.io/config.mirror"] == hash && runs(pod)
}

#[tokio::test]
async fn a_static_pod_is_shown_by_a_mirror_with_its_status() {
    let world = World::new(1).await;
    write(&world, "web.yaml", &manifest("registry.example/app:1"));
    world.until_ready().await;
    let (hash, id) = running(&world).await;
    let mirror = world
        .pod("web-edge-1")
        .until("mirrored", |pod| mirrors(pod, &hash))
        .await;
    let node = world.node("edge-1").get().await;
    assert_eq!(
        mirror["metadata"]["ownerReferences"][0]["uid"],
        node["metadata"]["uid"]
    );
    assert_eq!(mirror["metadata"]["labels"]["app"], "web");
    assert_ne!(uid(&mirror), hash, "the mirror has an identity of its own");
    assert!(
        mirror["status"]["containerStatuses"][0]["containerID"]
            .as_str()
            .unwrap()
            .ends_with(&id)
    );
}

#[tokio::test]
async fn a_mirror_that_is_deleted_is_made_again_and_the_pod_runs_on() {
    let world = World::new(1).await;
    write(&world, "web.yaml", &manifest("registry.example/app:1"));
    let (hash, id) = running(&world).await;
    let mut last = world
        .pod("web-edge-1")
        .until("mirrored", |pod| mirrors(pod, &hash))
        .await;
    for grace in [None, Some(0)] {
        world.pod("web-edge-1").delete(grace).await;
        let old = uid(&last).to_owned();
        let again = |pod: &Value| uid(pod) != old && mirrors(pod, &hash);
        last = world.pod("web-edge-1").until("mirrored again", again).await;
    }
    assert_eq!(running(&world).await, (hash, id));
}

#[tokio::test]
async fn a_file_that_changes_or_goes_takes_its_pod_along() {
    let world = World::new(1).await;
    write(&world, "web.yaml", &manifest("registry.example/app:1"));
    let (old, _) = running(&world).await;
    let mirror = world
        .pod("web-edge-1")
        .until("mirrored", |pod| mirrors(pod, &old))
        .await;
    write(&world, "web.yaml", &manifest("registry.example/app:2"));
    let changed = |pod: &Value| {
        uid(pod) != uid(&mirror)
            && runs(pod)
            && pod["spec"]["containers"][0]["image"] == "registry.example/app:2"
    };
    world
        .pod("web-edge-1")
        .until("the new one's mirror", changed)
        .await;
    let (new, _) = running(&world).await;
    assert_ne!(old, new);
    fs::remove_file(world.nodes[0].directory().join("manifests/web.yaml")).unwrap();
    world.pod("web-edge-1").until_gone().await;
    for uid in [old, new] {
        world
            .until_nothing_is_left(0, &json!({"metadata": {"uid": uid}}))
            .await;
    }
}

#[tokio::test]
async fn a_bad_file_keeps_its_pod_and_disturbs_no_other() {
    let world = World::new(1).await;
    world.until_ready().await;
    write(&world, "web.yaml", &manifest("registry.example/app:1"));
    let first = running(&world).await;
    write(&world, "web.yaml", "kind: [");
    write(
        &world,
        "other.yaml",
        &manifest("registry.example/other:1").replace("\"web\"", "\"other\""),
    );
    world.pod("other-edge-1").until("mirrored", runs).await;
    let all = world.running(0);
    assert_eq!(
        (all.len(), all.values().any(|id| *id == first.1)),
        (2, true)
    );
    let events =
        kube::Api::<k8s_openapi::api::core::v1::Event>::namespaced(world.client(), "default");
    eventually("an event about the file", async || {
        let all = events
            .list(&kube::api::ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let told = |event: &k8s_openapi::api::core::v1::Event| {
            event.reason.as_deref() == Some("InvalidStaticPod")
                && event
                    .message
                    .as_deref()
                    .is_some_and(|text| text.contains("web.yaml"))
        };
        if all.items.iter().any(told) {
            Ok(())
        } else {
            Err(format!("{} events", all.items.len()))
        }
    })
    .await;
}

#[tokio::test]
async fn a_restart_of_the_agent_restarts_no_static_pod() {
    let mut world = World::new(1).await;
    write(&world, "web.yaml", &manifest("registry.example/app:1"));
    let first = running(&world).await;
    let mirror = world
        .pod("web-edge-1")
        .until("mirrored", |pod| mirrors(pod, &first.0))
        .await;
    world.nodes[0].kill().await;
    world.nodes[0].start().await.unwrap();
    world.until_connected(0, true).await;
    world
        .run(&tests::manifests::pod("marker", Some("edge-1")))
        .await;
    let ids: Vec<_> = world.running(0).into_values().collect();
    assert!(ids.contains(&first.1), "{ids:?} lack {first:?}");
    assert_eq!(uid(&world.pod("web-edge-1").get().await), uid(&mirror));
}

#[tokio::test]
async fn what_changes_without_the_cloud_is_mirrored_when_it_is_back() {
    let mut world = World::with(Setup {
        durable: true,
        ..Setup::default()
    })
    .await;
    world.until_ready().await;
    write(&world, "web.yaml", &manifest("registry.example/app:1"));
    let (old, _) = running(&world).await;
    world
        .pod("web-edge-1")
        .until("mirrored", |pod| mirrors(pod, &old))
        .await;
    world.stop_cloud().await;
    world.nodes[0].stop().await;
    world.nodes[0].start().await.unwrap();
    write(&world, "web.yaml", &manifest("registry.example/app:2"));
    let new = eventually("the new pod runs without the cloud", async || {
        let (new, _) = running(&world).await;
        if new == old { Err(new) } else { Ok(new) }
    })
    .await;
    world.start_cloud().await;
    world
        .pod("web-edge-1")
        .until("the new one's mirror", |pod| mirrors(pod, &new))
        .await;
}

#[tokio::test]
async fn static_pods_start_on_a_node_that_knows_nothing_of_its_cloud() {
    let mut world = World::with(Setup {
        durable: true,
        ..Setup::default()
    })
    .await;
    world.stop_cloud().await;
    world.nodes[0].stop().await;
    fs::remove_file(world.nodes[0].directory().join("agent.db")).unwrap();
    write(&world, "web.yaml", &manifest("registry.example/app:1"));
    world.nodes[0].start().await.unwrap();
    let (hash, id) = running(&world).await;
    world.start_cloud().await;
    world
        .pod("web-edge-1")
        .until("mirrored", |pod| mirrors(pod, &hash))
        .await;
    assert_eq!(running(&world).await, (hash, id));
}
