//! `pods/binding` and `serviceaccounts/token`.

use objectstore::MemoryStore;
use serde_json::{Value, json};

use super::world::{PODS, World, named_map, pod, pod_on, refusal};

#[tokio::test]
async fn a_pod_is_bound_once() {
    let world = World::new().await;
    world.create(PODS, pod("a")).await;
    let mut held = pod("ending");
    held["metadata"]["finalizers"] = json!(["x/y"]);
    world.create(PODS, held).await;
    world
        .expect(
            &format!("DELETE {PODS}/ending"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    let path = format!("POST {PODS}/a/binding");
    let of = |pod: &str, node: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
    let to = |node: &str| of("a", node);
    let taken = "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"edge-1\"";
    let stranger = json!({"metadata": {"name": "a", "uid": "other"}, "target": {"name": "edge-1"}});
    let conflict = json!({"reason": "Conflict"});
    world
        .expect_all(vec![
            (
                &path,
                named_map("a"),
                422,
                refusal(
                    "Invalid",
                    "Binding \"a\" is invalid: target.name: Required value",
                ),
            ),
            (
                &path,
                json!({"target": {"name": "x"}}),
                400,
                refusal(
                    "BadRequest",
                    "name in URL does not match name in Binding object",
                ),
            ),
            (
                &path,
                json!({"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": "x"}}),
                422,
                json!({"reason": "Invalid"}),
            ),
            (
                &path,
                json!({"metadata": {"name": "b"}, "target": {"name": "x"}}),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (&path, stranger, 409, conflict.clone()),
            (
                &format!("{path}?dryRun=All"),
                to("edge-9"),
                201,
                json!({"status": "Success"}),
            ),
            (
                &path,
                to("edge-1"),
                201,
                json!({"kind": "Status", "status": "Success", "code": 201}),
            ),
            (&path, to("edge-2"), 409, refusal("Conflict", taken)),
            (
                &format!("POST {PODS}/ending/binding"),
                of("ending", "edge-1"),
                409,
                conflict,
            ),
            (
                &format!("POST {PODS}/absent/binding"),
                of("absent", "edge-1"),
                404,
                json!({"reason": "NotFound"}),
            ),
        ])
        .await;
    let expected = json!({
        "spec": {"nodeName": "edge-1"}, "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]},
    });
    world
        .expect(&format!("GET {PODS}/a"), Value::Null, 200, expected)
        .await;
    // who names a node at once needs no binding
    world.create(PODS, pod_on("b", "edge-1")).await;
    world
        .expect(
            &format!("POST {PODS}/b/binding"),
            of("b", "edge-1"),
            409,
            json!({}),
        )
        .await;
}

#[tokio::test]
async fn tokens_come_from_the_issuer() {
    let world = World::new().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    world.create(accounts, named_map("failing")).await;
    let robot = world.create(accounts, named_map("robot")).await;
    let uid = robot["metadata"]["uid"].as_str().unwrap();
    let path = format!("POST {accounts}/robot/token");
    let issued = json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "status": {"token": format!("default/robot/{uid}/600"), "expirationTimestamp": "2025-06-01T12:00:00Z"},
    });
    let of_absent = refusal("NotFound", "serviceaccounts \"absent\" not found");
    world
        .expect_all(vec![
            (
                &path,
                json!({"spec": {"audiences": ["a"], "expirationSeconds": 600}}),
                201,
                issued,
            ),
            (
                &path,
                json!({}),
                201,
                json!({"status": {"token": format!("default/robot/{uid}/3600")}}),
            ),
            (
                &path,
                json!({"spec": {"audiences": ["other"]}}),
                400,
                refusal("BadRequest", "no tokens for other"),
            ),
            (
                &path,
                json!({"spec": {"audiences": 5}}),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &format!("POST {accounts}/absent/token"),
                json!({}),
                404,
                of_absent,
            ),
            (
                &format!("POST {accounts}/failing/token"),
                json!({}),
                500,
                json!({"reason": "InternalError"}),
            ),
        ])
        .await;
}

#[tokio::test]
async fn without_issuer_there_are_no_tokens() {
    let api = apiserver::builder(MemoryStore::new()).build();
    let request =
        kube::core::Request::new("/api/v1/namespaces/default/serviceaccounts/robot/token");
    let request = request
        .create(&kube::api::PostParams::default(), b"{}".to_vec())
        .unwrap();
    // the path of a collection, which `create` asks for
    let (mut parts, body) = request.into_parts();
    parts.uri = "/api/v1/namespaces/default/serviceaccounts/robot/token"
        .parse()
        .unwrap();
    let answer = api
        .client("default")
        .request::<Value>(http::Request::from_parts(parts, body))
        .await;
    let Err(kube::Error::Api(status)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(
        (status.code, status.reason.as_str()),
        (501, "NotImplemented")
    );
}
