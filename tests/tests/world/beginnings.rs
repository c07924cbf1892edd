//! A machine that joins anew under the name of a node, and has lost all that the node had.

use std::fs;

use serde_json::json;
use tests::{
    Setup, World, eventually,
    manifests::{config_map, pod},
    runs,
};

/// The agent ends, and all that it kept is removed, as `edge-agent reset` does; its containers end, too.
async fn reset(world: &mut World) {
    let mut node = world.nodes.remove(0);
    node.stop().await;
    let directory = node.directory().to_owned();
    drop(node);
    fs::rename(&directory, directory.with_extension("old")).unwrap();
    // `cloudsim node reset edge-1`: a token alone does not give a name that a node has
    assert!(world.cloud().reset_node("edge-1").await.unwrap());
    world
        .nodes
        .push(world.prepare("edge-1", &Setup::default()).await);
    assert!(world.running(0).is_empty());
}

async fn with_pods() -> World {
    let world = World::new(1).await;
    world.until_ready().await;
    world
        .apply(&config_map("settings", json!({"mode": "fast"})))
        .await;
    for name in ["stays", "goes"] {
        let mut manifest = pod(name, Some("edge-1"));
        manifest["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "settings"}}]);
        manifest["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "v", "mountPath": "/v"}]);
        world.run(&manifest).await;
    }
    eventually("two pods and a ConfigMap are acknowledged", async || {
        let synced = world.object_syncs("edge-1").await;
        if synced.len() >= 3 {
            Ok(())
        } else {
            Err(synced)
        }
    })
    .await;
    world
}

async fn until_it_runs_again(world: &World, name: &str) {
    let pod = world.pod(name).until("running", runs).await;
    let uid = tests::uid(&pod).to_owned();
    eventually("a container of the pod runs", async || {
        let running = world.running(0);
        if running.keys().any(|(of, _)| *of == uid) {
            Ok(())
        } else {
            Err(running)
        }
    })
    .await;
    world.until_file(0, &pod, "/v/mode", "fast").await;
}

#[tokio::test]
async fn a_machine_that_joins_anew_with_a_token_gets_all_that_its_name_has() {
    let mut world = with_pods().await;
    let gone = format!("edge-1.{}", tests::uid(&world.pod("goes").get().await));
    reset(&mut world).await;
    // nobody is there to end it
    world.pod("goes").delete(Some(0)).await;
    world.nodes[0].start().await.unwrap();
    until_it_runs_again(&world, "stays").await;
    world.pod("goes").until_gone().await;
    eventually("nothing is waited for in vain", async || {
        let synced = world.object_syncs("edge-1").await;
        if synced.contains(&gone) {
            Err(synced)
        } else {
            Ok(())
        }
    })
    .await;
}

/// The certificate was lost alone: what was deleted meanwhile is still ended.
#[tokio::test]
async fn a_node_that_lost_its_certificate_alone_ends_what_was_deleted_meanwhile() {
    let mut world = with_pods().await;
    let goes = world.pod("goes").get().await;
    world.nodes[0].stop().await;
    world.pod("goes").delete(Some(0)).await;
    for file in ["node.crt", "node.key"] {
        fs::remove_file(world.nodes[0].directory().join(file)).unwrap();
    }
    assert!(world.cloud().reset_node("edge-1").await.unwrap());
    let ids = world.running(0);
    world.nodes[0].start().await.unwrap();
    world.until_nothing_is_left(0, &goes).await;
    let left = world.running(0);
    assert!(
        left.len() == 1 && left.iter().all(|(key, id)| ids.get(key) == Some(id)),
        "{left:?} of {ids:?}"
    );
}
