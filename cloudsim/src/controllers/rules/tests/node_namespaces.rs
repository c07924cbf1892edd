//! Nodes whose annotation names the namespaces whose rules may use them.

use http::StatusCode;
use k8s_openapi::api::core::v1::{Namespace, Node as ApiNode};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use testkit::{eventually, until};
use wire::{Downstream, Upstream};

use super::{
    super::node_namespaces::ANNOTATION,
    world::{Node, Target, World},
};

/// A cloud with the node `own-1`, whose annotation has this value, and a namespace `tenant`.
async fn world(annotation: &str) -> World {
    let world = World::new().await;
    let namespace: Namespace =
        serde_json::from_value(json!({"metadata": {"name": "tenant"}})).unwrap();
    Api::all(world.client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    world.endpoints("tenant").await;
    let node = json!({"metadata": {"name": "own-1", "annotations": {ANNOTATION: annotation}}});
    let node: ApiNode = serde_json::from_value(node).unwrap();
    Api::all(world.client.clone())
        .create(&PostParams::default(), &node)
        .await
        .unwrap();
    until("the cloud has read the annotation", || {
        world.rules.table().may_use("own-1", "nobody").is_err()
    })
    .await;
    world
}

async fn annotate(world: &World, value: Value) {
    let patch = json!({"metadata": {"annotations": {ANNOTATION: value}}});
    let nodes = Api::<ApiNode>::all(world.client.clone());
    nodes
        .patch("own-1", &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// Waits until the rule's status begins with the reason why it is not in force, or has none.
async fn until_in_force(world: &World, namespace: &str, name: &str, in_force: bool) {
    eventually("the status says whether the rule is in force", async || {
        let errors = world.status_of(namespace, name).await.errors;
        let is_refused = errors
            .first()
            .is_some_and(|error| error.starts_with("not in force: ") && error.contains(ANNOTATION));
        if is_refused == in_force {
            Err(errors)
        } else {
            Ok(())
        }
    })
    .await;
}

fn program(node: &Node, url: &str, id: &str) {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let call = json!({"method": "POST", "targetURL": url, "payload": {"secret": 1}});
    let content = STANDARD.encode(call.to_string()).into();
    assert!(node.say(
        Upstream::ServiceUpload {
            target: url.into(),
            content
        },
        id,
        ""
    ));
}

/// A tenant's older rule names the URL that programs of a node call for the node's owner.
#[tokio::test]
async fn a_tenant_does_not_take_the_calls_of_programs_of_a_node_that_is_not_its_own() {
    const URL: &str = "http://orders.example/x";
    let world = world("default").await;
    let theirs = Target::new(StatusCode::OK, b"forged".to_vec()).await;
    let own = Target::new(StatusCode::OK, b"true".to_vec()).await;
    let from = ("http", &[("target_url", URL), ("node_name", "own-1")][..]);
    world
        .try_rule_of(
            "tenant",
            "orders",
            from,
            ("rest", &[("resource", &theirs.url)]),
        )
        .await
        .unwrap();
    until_in_force(&world, "tenant", "orders", false).await;
    world
        .rule("orders", from, ("rest", &[("resource", &own.url)]))
        .await;
    let mut node = Node::connect(&world, "own-1");
    let told = node.next().await.body;
    assert_eq!(
        told,
        Downstream::ServiceTarget {
            on: true,
            url: URL.into(),
            content: Value::Null
        }
    );
    program(&node, URL, "one");
    let Downstream::UploadAnswer { failed, .. } = node.next().await.body else {
        panic!("no answer")
    };
    assert!(!failed);
    assert_eq!(
        (theirs.bodies().await.len(), own.bodies().await.len()),
        (0, 1)
    );
}

/// What a node was told to listen to is taken back when the annotation changes, and told again when it allows it again.
#[tokio::test]
async fn rules_follow_the_annotation() {
    let world = world("tenant, default").await;
    let rest = ("rest", &[("resource", "http://127.0.0.1:1")][..]);
    let from = ("mqtt", &[("topic", "up/#"), ("node_name", "own-1")][..]);
    world.try_rule_of("tenant", "up", from, rest).await.unwrap();
    let mut node = Node::connect(&world, "own-1");
    let is_told = async |node: &mut Node, wanted: bool| {
        let Downstream::Subscription { on, topic, .. } = node.next().await.body else {
            panic!("no topic")
        };
        assert_eq!((on, &*topic), (wanted, "tenant/up/#"));
    };
    is_told(&mut node, true).await;
    for (value, in_force) in [
        (json!("default"), false),
        (json!("default,tenant"), true),
        (json!(""), false),
        (Value::Null, true),
        (json!("other"), false),
    ] {
        annotate(&world, value).await;
        is_told(&mut node, in_force).await;
        until_in_force(&world, "tenant", "up", in_force).await;
    }
    // a Node that is gone restricts nobody
    Api::<ApiNode>::all(world.client.clone())
        .delete("own-1", &Default::default())
        .await
        .unwrap();
    is_told(&mut node, true).await;
    until_in_force(&world, "tenant", "up", true).await;
}

/// A rule from rest names no node, its caller does.
#[tokio::test]
async fn a_call_reaches_no_node_that_does_not_take_the_rules_namespace() {
    let world = world("tenant").await;
    world
        .rule(
            "call",
            ("rest", &[("path", "a")]),
            ("http", &[("path", "/")]),
        )
        .await;
    world
        .rule(
            "publish",
            ("rest", &[("path", "p")]),
            ("mqtt", &[("topic", "t")]),
        )
        .await;
    let mut node = Node::connect(&world, "own-1");
    for path in ["a", "p"] {
        let error = world.call("own-1", path, b"x").await.unwrap().unwrap_err();
        assert_eq!(
            (error.status, error.reason),
            (StatusCode::FORBIDDEN, "NamespaceRefused"),
            "{path}"
        );
        assert!(error.why.contains(ANNOTATION), "{}", error.why);
    }
    world.counts("call", 0, 1).await;
    annotate(&world, json!("tenant,default")).await;
    until("the cloud has read the annotation", || {
        world.rules.table().may_use("own-1", "default").is_ok()
    })
    .await;
    let calling = world.call("own-1", "p", b"x");
    let asked = node.next().await;
    assert_eq!(
        asked.body,
        Downstream::Publish {
            topic: "t".into(),
            payload: "x".into()
        },
        "the first message"
    );
    let answer = Upstream::BusAnswer {
        topic: "t".into(),
        failed: false,
        content: "OK".into(),
    };
    node.say(answer, "a", &asked.header.msg_id);
    assert_eq!(calling.await.unwrap().unwrap().0, StatusCode::OK);
}
