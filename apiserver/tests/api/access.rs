//! Who gets in, and requests that are for nothing that there is.

use kubeapi::Identity;
use serde_json::{Value, json};

use super::world::{MAPS, PODS, World, named_map, pod, refusal, widget};

fn node() -> Identity {
    Identity::new("system:node:edge-1", ["system:nodes"])
}

#[tokio::test]
async fn only_masters_get_in() {
    let world = World::new().await;
    let nobody = world.called_by(None);
    for path in ["/api", "/apis", "/api/v1/pods", "/openapi/v3", "/nowhere"] {
        let expected = refusal("Unauthorized", "Unauthorized");
        nobody
            .expect(&format!("GET {path}"), Value::Null, 401, expected)
            .await;
    }
    let node = world.called_by(Some(node()));
    let all = "cannot list resource \"pods\" in API group \"\" at the cluster scope";
    let one = "cannot get resource \"pods\" in API group \"\" in the namespace \"default\"";
    let part =
        "cannot update resource \"pods/status\" in API group \"\" in the namespace \"default\"";
    let watch = "cannot watch resource \"widgets\" in API group \"example.com\" in the namespace \"default\"";
    let rows = [
        (
            "GET /api/v1/pods".to_owned(),
            format!("pods is forbidden: User \"system:node:edge-1\" {all}"),
        ),
        (
            format!("GET {PODS}/a"),
            format!("pods \"a\" is forbidden: User \"system:node:edge-1\" {one}"),
        ),
        (
            format!("PUT {PODS}/a/status"),
            format!("pods \"a\" is forbidden: User \"system:node:edge-1\" {part}"),
        ),
        (
            "GET /apis/example.com/v1/namespaces/default/widgets?watch=1".to_owned(),
            format!("widgets.example.com is forbidden: User \"system:node:edge-1\" {watch}"),
        ),
        (
            "GET /apis".to_owned(),
            "forbidden: User \"system:node:edge-1\" cannot get path \"/apis\"".to_owned(),
        ),
    ];
    for (request, message) in rows {
        node.expect(&request, Value::Null, 403, refusal("Forbidden", &message))
            .await;
    }
}

#[tokio::test]
async fn some_paths_are_public() {
    let nobody = World::new().await.called_by(None);
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert_eq!(nobody.get(path).await, json!("ok"));
    }
    assert_eq!(nobody.get("/version").await["major"], "1");
    // but not with a false token
    for path in ["/healthz", "/version"] {
        let request = format!("GET {path} authorization:Bearer~abc");
        let expected = refusal("Unauthorized", "Unauthorized");
        nobody.expect(&request, Value::Null, 401, expected).await;
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let world = World::new().await;
    let gone = || {
        refusal(
            "NotFound",
            "the server could not find the requested resource",
        )
    };
    assert_eq!(
        world.send("GET /nowhere", Value::Null).await.body,
        "404 page not found\n"
    );
    let paths = [
        "/api/v2",
        "/api/v1/absent",
        "/api/v2/pods",
        "/apis/absent.example.com",
        "/apis/example.com/v2",
        "/apis/example.com/v2/gadgets",
        "/api/v1/pods/a",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/nodes/a",
        "/api/v1/namespaces/default/pods/a/absent",
        "/api/v1/namespaces/default/configmaps/a/status",
        "/apis/example.com/v1/gadgets/a/status",
        "/api/v1/namespaces/default/pods/a/b/c",
        "/openapi/v3/apis/absent/v1",
    ];
    for path in paths {
        world
            .expect(&format!("GET {path}"), Value::Null, 404, gone())
            .await;
    }
    let missing = json!({
        "reason": "NotFound", "message": "pods \"a\" not found", "code": 404,
        "details": {"name": "a", "kind": "pods", "group": null},
    });
    let missing_widget = json!({
        "message": "widgets.example.com \"a\" not found",
        "details": {"name": "a", "kind": "widgets", "group": "example.com"},
    });
    world
        .expect(&format!("GET {PODS}/a"), Value::Null, 404, missing.clone())
        .await;
    world
        .expect(
            &format!("DELETE {PODS}/a"),
            Value::Null,
            404,
            missing.clone(),
        )
        .await;
    world
        .expect(&format!("PUT {PODS}/a"), pod("a"), 404, missing.clone())
        .await;
    world
        .expect(&format!("MERGE {PODS}/a"), json!({}), 404, missing)
        .await;
    let path = "/apis/example.com/v1/namespaces/default/widgets/a";
    world
        .expect(
            &format!("GET {path}"),
            Value::Null,
            404,
            missing_widget.clone(),
        )
        .await;
    world
        .expect(&format!("PUT {path}"), widget("a", 1), 404, missing_widget)
        .await;
}

#[tokio::test]
async fn methods_have_their_places() {
    let world = World::new().await;
    let message = "the server does not allow this method on the requested resource";
    let requests = [
        "POST /api/v1/pods",
        "DELETE /api/v1/pods",
        "DELETE /api/v1/namespaces",
        "PUT /api/v1/namespaces/default/pods",
        "MERGE /api/v1/namespaces/default/pods",
        "POST /api/v1/namespaces/default/pods/a",
        "DELETE /api/v1/namespaces/default/pods/a/status",
        "GET /api/v1/namespaces/default/pods/a/binding",
        "OPTIONS /api/v1/namespaces/default/pods/a",
        "POST /api",
        "DELETE /version",
    ];
    for request in requests {
        world
            .expect(
                request,
                Value::Null,
                405,
                refusal("MethodNotAllowed", message),
            )
            .await;
    }
}

#[tokio::test]
async fn bodies_have_limits_and_types() {
    let world = World::new().await;
    let create = format!("POST {MAPS}");
    let large = format!(
        "{{\"metadata\":{{\"name\":\"a\"}},\"data\":{{\"a\":\"{}\"}}}}",
        "x".repeat(3 << 20)
    );
    let too_large = refusal(
        "RequestEntityTooLarge",
        "Request entity too large: limit is 3145728",
    );
    let unsupported = json!({"reason": "UnsupportedMediaType"});
    let deep = "[".repeat(100_000);
    world
        .expect_all(vec![
            (&create, large.into(), 413, too_large),
            (
                &format!("{create} content-type:application/cbor"),
                named_map("a"),
                415,
                unsupported.clone(),
            ),
            (
                &format!("{create} content-type:text/plain"),
                named_map("a"),
                415,
                unsupported,
            ),
            (&create, "{".into(), 400, json!({"reason": "BadRequest"})),
            (
                &create,
                deep.clone().into(),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &format!("{create} content-type:application/yaml"),
                deep.into(),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (&create, json!([]), 400, json!({"reason": "BadRequest"})),
            (&create, Value::Null, 400, json!({"reason": "BadRequest"})),
            (
                &format!("{create} content-type:application/json;charset=utf-8"),
                named_map("a"),
                201,
                json!({}),
            ),
            (
                &format!("{create} content-type:application/yaml"),
                "kind: ConfigMap\nmetadata: {name: b}\ndata:\n  a: 'yes'\n".into(),
                201,
                json!({"data": {"a": "yes"}}),
            ),
        ])
        .await;
    let unacceptable = format!("GET {MAPS}/a accept:application/vnd.kubernetes.protobuf");
    world
        .expect(
            &unacceptable,
            Value::Null,
            406,
            json!({"reason": "NotAcceptable"}),
        )
        .await;
    let either =
        format!("GET {MAPS}/a accept:application/vnd.kubernetes.protobuf,application/json");
    world
        .expect(&either, Value::Null, 200, json!({"kind": "ConfigMap"}))
        .await;
}
