//! A node that reaches for what is another node's.

use serde_json::json;
use tests::{
    World,
    manifests::{pod, secret},
};
use wire::{Change, ResourceType, Upstream};

use crate::raw::{Caller, Session};

#[tokio::test]
async fn a_node_neither_reads_nor_writes_what_is_another_nodes() {
    let world = World::new(1).await;
    world.until_ready().await;
    world
        .apply(&secret("keys", json!({"password": "open sesame"})))
        .await;
    let mut manifest = pod("web", Some("edge-1"));
    manifest["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "keys"}}]);
    manifest["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    let before = world.run(&manifest).await;
    let mut session = Caller::node(&world, "rogue")
        .await
        .session(&world, "rogue")
        .await;
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
        Upstream::node_patch(
            "edge-1",
            json!({"status": {"phase": "Terminated"}}).to_string(),
        ),
        Upstream::put(
            Change::Insert,
            "",
            &ResourceType::Node,
            "edge-1",
            json!({"metadata": {"name": "edge-1"}}),
        ),
        Upstream::put(
            Change::Update,
            "kube-node-lease",
            &ResourceType::Lease,
            "edge-1",
            lease,
        ),
    ];
    for request in foreign {
        let text = format!("{request:?}");
        let answer = session.ask(request).await;
        let said = answer.content.to_string();
        assert!(said.contains("is not node rogue's"), "{text}: {said}");
        assert!(!said.contains("b3BlbiBzZXNhbWU"), "{text}: {said}");
    }
    let bound = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": uid}}});
    let answer = session
        .ask(Upstream::token("default", "default", bound))
        .await;
    assert!(
        answer
            .content
            .to_string()
            .contains("node rogue gets no token"),
        "{answer:?}"
    );
    let after = world.pod("web").get().await;
    assert_eq!(after["status"]["phase"], "Running");
    let lease = tests::Object::new(
        &world.client(),
        "coordination.k8s.io/v1",
        "Lease",
        Some("kube-node-lease"),
        "edge-1",
    );
    lease
        .until("held by its node", |lease| {
            lease["spec"]["holderIdentity"] == "edge-1"
        })
        .await;
}

#[tokio::test]
async fn a_node_that_registers_under_a_foreign_name_in_the_body_does_not() {
    let world = World::new(0).await;
    let mut session = Caller::node(&world, "rogue")
        .await
        .session(&world, "rogue")
        .await;
    let body = json!({"metadata": {"name": "king"}, "spec": {}});
    session
        .ask(Upstream::put(
            Change::Insert,
            "",
            &ResourceType::Node,
            "rogue",
            body,
        ))
        .await;
    assert!(
        world.node("king").find().await.is_none(),
        "the path says who is meant, not the body"
    );
}

/// A node of a rogue, and its Node.
async fn rogue(world: &World) -> (Session, String) {
    let mut session = Caller::node(world, "rogue")
        .await
        .session(world, "rogue")
        .await;
    let own = json!({"metadata": {"name": "rogue"}, "spec": {}});
    session
        .ask(Upstream::put(
            Change::Insert,
            "",
            &ResourceType::Node,
            "rogue",
            own,
        ))
        .await;
    let node = world.node("rogue").until("registered", |_| true).await;
    (session, tests::uid(&node).to_owned())
}

fn mirror(namespace: &str, uid: &str, spec: serde_json::Value) -> Upstream {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "rogue", "uid": uid, "controller": true});
    let mut pod = json!({
        "metadata": {"name": "m", "namespace": namespace, "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "rogue", "containers": [{"name": "c", "image": "i:1"}]},
    });
    pod["spec"]
        .as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    Upstream::put(Change::Insert, namespace, &ResourceType::Pod, "m", pod)
}

#[tokio::test]
async fn a_pod_that_a_node_makes_opens_no_secret() {
    let world = World::new(0).await;
    let (mut session, uid) = rogue(&world).await;
    for spec in [
        json!({"volumes": [{"name": "v", "secret": {"secretName": "casecret"}}]}),
        json!({"imagePullSecrets": [{"name": "casecret"}]}),
        json!({"serviceAccountName": "default"}),
        json!({"nodeName": "edge-1"}),
    ] {
        let answer = session.ask(mirror("kubeedge", &uid, spec.clone())).await;
        assert!(
            answer
                .content
                .to_string()
                .contains("can only create mirror pods"),
            "{spec}: {answer:?}"
        );
    }
    let pod = tests::Object::new(&world.client(), "v1", "Pod", Some("kubeedge"), "m");
    assert!(pod.find().await.is_none());
    session.ask(mirror("kubeedge", &uid, json!({}))).await;
    pod.until("there", |_| true).await;
    let answer = session
        .ask(Upstream::query(
            "kubeedge",
            &ResourceType::Secret,
            "casecret",
        ))
        .await;
    assert!(
        answer.content.to_string().contains("is not node rogue's"),
        "{answer:?}"
    );
}

/// A mirror pod in a namespace of the cloud's, which is to become an ordinary one, and then its account's token.
#[tokio::test]
async fn a_node_becomes_no_account() {
    let world = World::new(0).await;
    let (mut session, uid) = rogue(&world).await;
    session.ask(mirror("kube-system", &uid, json!({}))).await;
    let pod = tests::Object::new(&world.client(), "v1", "Pod", Some("kube-system"), "m");
    let made = pod.until("there", |_| true).await;
    assert!(made["spec"]["serviceAccountName"].is_null(), "{made}");
    for metadata in [
        json!({"annotations": {"kubernetes.io/config.mirror": null}}),
        json!({"annotations": null}),
        json!({"$patch": "replace", "name": "m", "namespace": "kube-system"}),
    ] {
        let patch = json!({"metadata": metadata, "status": {"phase": "Running"}}).to_string();
        let answer = session
            .ask(Upstream::pod_patch("kube-system", "m", patch))
            .await;
        assert!(
            answer
                .content
                .to_string()
                .contains("nothing but the status"),
            "{answer:?}"
        );
    }
    let after = pod.get().await;
    assert_eq!(
        after["metadata"]["annotations"]["kubernetes.io/config.mirror"],
        "x"
    );
    for bound in [
        serde_json::Value::Null,
        json!({"kind": "Pod", "apiVersion": "v1", "name": "m", "uid": tests::uid(&made)}),
        json!({"kind": "ServiceAccount", "apiVersion": "v1", "name": "default", "uid": tests::uid(&made)}),
        json!({"kind": "Node", "apiVersion": "v1", "name": "rogue", "uid": uid}),
    ] {
        let request = json!({"spec": {"boundObjectRef": bound}});
        let answer = session
            .ask(Upstream::token("kube-system", "default", request))
            .await;
        let said = answer.content.to_string();
        assert!(said.contains("node rogue gets no token"), "{bound}: {said}");
        assert!(!said.contains("\"token\""), "{said}");
    }
}

#[tokio::test]
async fn a_status_patch_changes_nothing_but_the_status() {
    let mut world = World::new(1).await;
    world.until_ready().await;
    let before = world.run(&pod("web", Some("edge-1"))).await;
    world.nodes[0].stop().await;
    let mut session = Caller::node(&world, "edge-1")
        .await
        .session(&world, "edge-1")
        .await;
    for more in [
        json!({"metadata": {"labels": {"stolen": "yes"}}}),
        json!({"metadata": {"finalizers": ["rogue/stays"]}}),
        json!({"spec": {"nodeName": "edge-2", "serviceAccountName": "king"}}),
    ] {
        let mut patch = more;
        patch["status"] = json!({"message": "told"});
        let answer = session
            .ask(Upstream::pod_patch("default", "web", patch.to_string()))
            .await;
        assert!(
            answer
                .content
                .to_string()
                .contains("nothing but the status"),
            "{answer:?}"
        );
        let answer = session
            .ask(Upstream::node_patch("edge-1", patch.to_string()))
            .await;
        assert!(
            answer
                .content
                .to_string()
                .contains("nothing but the status"),
            "{answer:?}"
        );
    }
    let patch = json!({"metadata": {"uid": tests::uid(&before)}, "status": {"message": "told"}});
    session
        .ask(Upstream::pod_patch("default", "web", patch.to_string()))
        .await;
    let after = world.pod("web").get().await;
    assert_eq!(after["status"]["message"], "told");
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    assert_eq!(
        after["metadata"]["finalizers"],
        before["metadata"]["finalizers"]
    );
}
