//! A cloud that leaves work to other programs: Kubernetes' own scheduler and controller manager beside its API.

use cloudsim::{Cloud, Options};
use serde_json::{Value, json};
use tests::{Object, Setup, World, condition, manifests::pod};

fn authority(client: &kube::Client) -> Object {
    Object::new(
        client,
        "v1",
        "ConfigMap",
        Some("kube-system"),
        "extension-apiserver-authentication",
    )
}

#[tokio::test]
async fn other_servers_learn_which_clients_the_api_takes() {
    let mut world = World::with(Setup {
        nodes: 0,
        durable: true,
        ..Setup::default()
    })
    .await;
    let root = world
        .object("v1", "ConfigMap", "kube-root-ca.crt")
        .until("there", |_| true)
        .await;
    let map = authority(&world.client()).get().await;
    assert_eq!(map["data"]["client-ca-file"], root["data"]["ca.crt"]);
    assert_ne!(
        map["data"]["requestheader-client-ca-file"],
        root["data"]["ca.crt"]
    );
    assert_eq!(
        map["data"]["requestheader-username-headers"],
        r#"["X-Remote-User"]"#
    );
    // an authority from an earlier time is replaced
    authority(&world.client())
        .merge(json!({"data": {"client-ca-file": "old", "mine": "stays"}}))
        .await;
    world.stop_cloud().await;
    world.start_cloud().await;
    let map = authority(&world.client()).get().await;
    assert_eq!(map["data"]["client-ca-file"], root["data"]["ca.crt"]);
    assert_eq!(map["data"]["mine"], "stays");
}

#[tokio::test]
async fn what_is_switched_off_is_left_to_others() {
    let controllers = "scheduler,root-ca-certificate-publisher".parse().unwrap();
    let cloud = Cloud::start(
        Options {
            controllers,
            ..Options::default()
        }
        .any_ports(),
    )
    .await
    .unwrap();
    let client = cloud.client();
    let waiting = Object::of(&client, &pod("waiting", None));
    waiting.apply(&pod("waiting", None)).await;
    // both of these have run by then
    waiting
        .until("unschedulable", |pod| {
            condition(pod, "PodScheduled") == Some("False")
        })
        .await;
    let object = |kind, name| Object::new(&client, "v1", kind, Some("default"), name);
    object("ConfigMap", "kube-root-ca.crt")
        .until("there", |_| true)
        .await;
    assert_eq!(
        object("ServiceAccount", "default").find().await,
        None::<Value>
    );
    cloud.stop().await.expect("no part of it panicked");
}
