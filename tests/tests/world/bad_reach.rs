//! A node that reaches for what is another node's.

use serde_json::json;
use tests::{
    World,
    manifests::{pod, secret},
};
use wire::{Change, ResourceType, Upstream};

use crate::raw::Caller;

#[tokio::test]
async fn a_node_neither_reads_nor_writes_what_is_another_nodes() {
    let world = World::new(1).await;
    world.until_ready().await;
    world.apply(&secret("keys", json!({"password": "open sesame"}))).await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "keys"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let before = world.run(&manifest).await;
    let mut session = Caller::node(&world, "rogue").await.session(&world, "rogue").await;
    let lease = json!({"metadata": {"name": "edge-1", "namespace": "kube-node-lease"}, "spec": {"holderIdentity": "rogue"}});
    let uid = tests::uid(&before);
    let failed = json!({"metadata": {"uid": uid}, "status": {"phase": "Failed"}}).to_string();
    let foreign = [
        Upstream::query("default", &ResourceType::Secret, "keys"),
        Upstream::query("", &ResourceType::Node, "edge-1"),
        Upstream::query("kube-node-lease", &ResourceType::Lease, "edge-1"),
        Upstream::query("kubeedge", &ResourceType::Secret, "casecret"),
        Upstream::pod_patch("default", "web", failed),
        Upstream::pod_delete("default", "web", uid),
        Upstream::node_patch("edge-1", json!({"status": {"phase": "Terminated"}}).to_string()),
        Upstream::put(
            Change::Insert,
            "",
            &ResourceType::Node,
            "edge-1",
            json!({"metadata": {"name": "edge-1"}}),
        ),
        Upstream::put(Change::Update, "kube-node-lease", &ResourceType::Lease, "edge-1", lease),
        Upstream::token(
            "default",
            "default",
            json!({"spec": {"boundObjectRef": {"kind": "Pod", "uid": uid}}}),
        ),
    ];
    for request in foreign {
        let text = format!("{request:?}");
        let answer = session.ask(request).await;
        let said = answer.content.to_string();
        assert!(said.contains("is not node rogue's"), "{text}: {said}");
        assert!(!said.contains("b3BlbiBzZXNhbWU"), "{text}: {said}");
    }
    let after = world.pod("web").get().await;
    assert_eq!(after["status"]["phase"], "Running");
    let lease = tests::Object::new(
        &world.client(),
        "coordination.k8s.io/v1",
        "Lease",
        Some("kube-node-lease"),
        "edge-1",
    );
    lease.until("held by its node", |lease| lease["spec"]["holderIdentity"] == "edge-1").await;
}

#[tokio::test]
async fn a_node_that_registers_under_a_foreign_name_in_the_body_does_not() {
    let world = World::new(0).await;
    let mut session = Caller::node(&world, "rogue").await.session(&world, "rogue").await;
    let body = json!({"metadata": {"name": "king"}, "spec": {}});
    session.ask(Upstream::put(Change::Insert, "", &ResourceType::Node, "rogue", body)).await;
    assert!(world.node("king").find().await.is_none(), "the path says who is meant, not the body");
}

#[tokio::test]
async fn a_pod_that_a_node_makes_opens_no_secret() {
    let world = World::new(0).await;
    let mut session = Caller::node(&world, "rogue").await.session(&world, "rogue").await;
    let mirror = |spec: serde_json::Value| {
        let mut pod = json!({
            "metadata": {"name": "m", "namespace": "kubeedge", "annotations": {"kubernetes.io/config.mirror": "x"}},
            "spec": {"nodeName": "rogue", "containers": [{"name": "c", "image": "i:1"}]},
        });
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        Upstream::put(Change::Insert, "kubeedge", &ResourceType::Pod, "m", pod)
    };
    for spec in [
        json!({"volumes": [{"name": "v", "secret": {"secretName": "casecret"}}]}),
        json!({"imagePullSecrets": [{"name": "casecret"}]}),
        json!({"serviceAccountName": "default"}),
        json!({"nodeName": "edge-1"}),
    ] {
        let answer = session.ask(mirror(spec.clone())).await;
        assert!(answer.content.to_string().contains("is not node rogue's"), "{spec}: {answer:?}");
    }
    let pod = tests::Object::new(&world.client(), "v1", "Pod", Some("kubeedge"), "m");
    assert!(pod.find().await.is_none());
    session.ask(mirror(json!({}))).await;
    pod.until("there", |_| true).await;
    for request in [
        Upstream::query("kubeedge", &ResourceType::Secret, "casecret"),
        Upstream::token("kubeedge", "default", json!({"spec": {}})),
    ] {
        let answer = session.ask(request).await;
        assert!(answer.content.to_string().contains("is not node rogue's"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_status_patch_changes_nothing_but_the_status() {
    let mut world = World::new(1).await;
    let before = world.run(&pod("web", Some("edge-1"))).await;
    world.nodes[0].stop().await;
    let mut session = Caller::node(&world, "edge-1").await.session(&world, "edge-1").await;
    let patch = json!({
        "metadata": {"labels": {"stolen": "yes"}}, "spec": {"nodeName": "edge-2", "serviceAccountName": "king"},
        "status": {"message": "told"},
    });
    session.ask(Upstream::pod_patch("default", "web", patch.to_string())).await;
    let after = world.pod("web").get().await;
    assert_eq!(after["status"]["message"], "told");
    assert_eq!(after["spec"], before["spec"]);
}
