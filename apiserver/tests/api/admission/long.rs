//! What takes long to be checked.

use kubeapi::Identity;
use serde_json::{Value, json};

use crate::world::World;

/// Whoever sends what takes long to be checked holds up nobody else.
#[tokio::test]
async fn long_checks_hold_up_nobody() {
    let world = World::new().await;
    let names: Vec<_> = (0..40).map(|index| format!("f{index}")).collect();
    let properties: serde_json::Map<_, _> = names
        .iter()
        .map(|name| {
            (
                name.clone(),
                json!({"type": "string", "pattern": "^[a-z]{1,500}$"}),
            )
        })
        .collect();
    let rule =
        json!({"rule": "self.list.all(a, self.list.all(b, self.list.all(c, a + b + c >= 0)))"});
    let mut spec =
        json!({"type": "object", "properties": properties, "x-kubernetes-validations": [rule]});
    spec["properties"]["list"] = json!({"type": "array", "items": {"type": "integer"}});
    let definition = json!({
        "metadata": {"name": "slows.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"kind": "Slow", "plural": "slows"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": spec}}}}],
        },
    });
    world
        .create(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition,
        )
        .await;
    let text = "a".repeat(20_000);
    let mut spec: serde_json::Map<_, _> = names
        .iter()
        .map(|name| (name.clone(), json!(text)))
        .collect();
    spec.insert("list".into(), (0..1000).collect());
    let slow = json!({"metadata": {"name": "a"}, "spec": spec});
    assert_holds_up_nobody(
        world,
        "POST /apis/example.org/v1/namespaces/default/slows",
        slow,
        422,
    )
    .await;
}

/// Reading a policy of many expressions takes as long, and holds up nobody either.
#[tokio::test]
async fn long_policies_hold_up_nobody() {
    let expression = vec!["object.spec.size > 1"; 20].join(" && ");
    let validations = vec![json!({"expression": expression}); 300];
    let policy = json!({"metadata": {"name": "long"}, "spec": {
        "matchConstraints": {"resourceRules": super::about(&["CREATE"], &["widgets"])}, "validations": validations,
    }});
    let path = "POST /apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    assert_holds_up_nobody(World::new().await, path, policy, 201).await;
}

/// Others are answered until this request is.
async fn assert_holds_up_nobody(world: World, request: &'static str, body: Value, code: u16) {
    let attacker = world.called_by(Some(Identity::master()));
    // one thread: whatever is done on it holds up the other
    let attack = tokio::spawn(async move { attacker.send(request, body).await.code.as_u16() });
    let mut answered = 0;
    while !attack.is_finished() {
        world.get("/api/v1/namespaces/default").await;
        answered += 1;
        tokio::task::yield_now().await;
    }
    assert_eq!(attack.await.unwrap(), code);
    assert!(answered > 10, "{answered}");
}
