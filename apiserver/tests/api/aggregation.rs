//! APIServices: requests for other groups and versions are forwarded to their servers.

use std::sync::Arc;

use apiserver::{RemoteTarget, RemoteTransport};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use kubeapi::{Identity, NodeIo};
use objectstore::MemoryStore;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::world::{World, named_map};

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const FISH: &str = "/apis/fish.example.com/v1/namespaces/default/fish";

/// A server of fish, which tells what it was asked.
#[derive(Debug, Default)]
struct FishServer {
    hosts: Mutex<Vec<String>>,
    is_away: Mutex<bool>,
}

#[async_trait]
impl RemoteTransport for FishServer {
    async fn connect(&self, target: RemoteTarget) -> Result<Box<dyn NodeIo>, String> {
        if *self.is_away.lock() {
            return Err("dial tcp 10.0.0.9:8443: connect: connection refused".to_owned());
        }
        self.hosts.lock().push(format!(
            "{}:{} {:?}",
            target.host, target.port, target.addresses
        ));
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(async move {
            // a client that has its answer leaves
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(theirs), service_fn(answer))
                .await;
        });
        Ok(Box::new(ours))
    }
}

async fn answer(
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path_and_query().unwrap().to_string();
    let answer = match path.as_str() {
        "/apis/fish.example.com/v1" => {
            json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "fish.example.com/v1", "resources": [
            {"name": "fish", "singularName": "fish", "namespaced": true, "kind": "Fish", "verbs": ["get", "list"], "shortNames": ["fi"]},
            {"name": "fish/status", "singularName": "", "namespaced": true, "kind": "Fish", "verbs": ["get"]}]})
        }
        "/openapi/v3/apis/fish.example.com/v1" => {
            json!({"openapi": "3.0.0", "info": {"title": "fish"}})
        }
        _ => {
            let body = body.collect().await.unwrap().to_bytes();
            let header = |name: &str| {
                let all = parts.headers.get_all(name).iter();
                all.map(|value| value.to_str().unwrap().to_owned())
                    .collect::<Vec<_>>()
            };
            json!({"request": format!("{} {path} {}", parts.method, String::from_utf8_lossy(&body)),
                "user": header("x-remote-user"), "groups": header("x-remote-group"), "host": header("host"), "authorization": header("authorization")})
        }
    };
    Ok(Response::builder()
        .status(if path.ends_with("/teapot") { 418 } else { 200 })
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(answer.to_string())))
        .unwrap())
}

fn fish_service(more: &Value) -> Value {
    let mut spec = json!({
        "group": "fish.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "service": {"namespace": "default", "name": "fish", "port": 443}, "caBundle": "Y2E=",
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": "v1.fish.example.com"}, "spec": spec})
}

async fn with_fish(rbac: bool) -> (World, Arc<FishServer>) {
    let server = Arc::new(FishServer::default());
    let transport: Arc<dyn RemoteTransport> = Arc::<FishServer>::clone(&server);
    let api = apiserver::builder(MemoryStore::new())
        .remote_transport(transport)
        .rbac(rbac)
        .build();
    let world = World::around(api);
    world
        .create("/api/v1/namespaces", named_map("default"))
        .await;
    let service = json!({"metadata": {"name": "fish"}, "spec": {"ports": [{"port": 443, "targetPort": 8443}]}});
    world
        .create("/api/v1/namespaces/default/services", service)
        .await;
    let slice = json!({"metadata": {"name": "fish-1", "labels": {"kubernetes.io/service-name": "fish"}}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.9"]}], "ports": [{"name": "", "port": 8443}]});
    world
        .create(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            slice,
        )
        .await;
    (world, server)
}

#[tokio::test]
async fn requests_are_forwarded_with_the_caller() {
    let (world, server) = with_fish(false).await;
    world
        .expect(&format!("GET {FISH}"), Value::Null, 404, json!({}))
        .await;
    world.create(SERVICES, fish_service(&json!({}))).await;
    let answer = world
        .expect(
            &format!("GET {FISH}?limit=2 authorization:Bearer~x"),
            Value::Null,
            200,
            json!({"request": format!("GET {FISH}?limit=2 "), "user": ["system:admin"], "authorization": []}),
        )
        .await;
    assert_eq!(answer["host"], json!(["fish.default.svc:443"]));
    assert!(
        answer["groups"]
            .as_array()
            .unwrap()
            .contains(&json!("system:masters"))
    );
    let sent = json!({"name": "a"});
    world
        .expect_all(vec![
            (
                &format!("POST {FISH}"),
                sent.clone(),
                200,
                json!({"request": format!("POST {FISH} {sent}")}),
            ),
            (&format!("GET {FISH}/teapot"), Value::Null, 418, json!({})),
            (
                "GET /openapi/v3/apis/fish.example.com/v1",
                Value::Null,
                200,
                json!({"info": {"title": "fish"}}),
            ),
        ])
        .await;
    assert_eq!(
        server.hosts.lock()[0],
        "fish.default.svc:443 [10.0.0.9:8443]"
    );
    world
        .expect(
            &format!("DELETE {SERVICES}/v1.fish.example.com"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    world
        .expect(&format!("GET {FISH}"), Value::Null, 404, json!({}))
        .await;
}

#[tokio::test]
async fn servers_that_cannot_be_reached_are_named() {
    let (world, server) = with_fish(false).await;
    world.create(SERVICES, fish_service(&json!({}))).await;
    let unavailable = |why: &str| json!({"code": 503, "message": format!("error trying to reach service: {why}")});
    *server.is_away.lock() = true;
    let refused = unavailable("dial tcp 10.0.0.9:8443: connect: connection refused");
    world
        .expect(&format!("GET {FISH}"), Value::Null, 503, refused)
        .await;
    let insecure = "APIService \"v1.fish.example.com\" sets insecureSkipTLSVerify, which is not supported; set caBundle instead";
    for (spec, why) in [
        (
            json!({"service": {"name": "none"}}),
            "service \"none\" not found",
        ),
        (
            json!({"insecureSkipTLSVerify": true, "caBundle": null}),
            insecure,
        ),
    ] {
        let change = format!("MERGE {SERVICES}/v1.fish.example.com");
        let patch = json!({"spec": spec});
        world.expect(&change, patch, 200, json!({})).await;
        world
            .expect(&format!("GET {FISH}"), Value::Null, 503, unavailable(why))
            .await;
    }
    // what this API cannot do without is its own
    let apps = json!({"metadata": {"name": "v1.apps"}, "spec": {"group": "apps", "version": "v1", "groupPriorityMinimum": 100,
        "versionPriority": 10, "service": {"namespace": "default", "name": "none"}, "caBundle": "Y2E="}});
    world.create(SERVICES, apps).await;
    world.get("/apis/apps/v1/deployments").await;
}

#[tokio::test]
async fn other_servers_are_discovered() {
    let (world, server) = with_fish(false).await;
    world.create(SERVICES, fish_service(&json!({}))).await;
    let group = json!({"name": "fish.example.com", "versions": [{"groupVersion": "fish.example.com/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "fish.example.com/v1", "version": "v1"}});
    let groups = world.get("/apis").await;
    assert!(
        groups["groups"].as_array().unwrap().contains(&group),
        "{groups}"
    );
    let alone = world.get("/apis/fish.example.com").await;
    assert_eq!(
        (&alone["kind"], &alone["versions"]),
        (&json!("APIGroup"), &group["versions"])
    );
    let resources = world.get("/apis/fish.example.com/v1").await;
    assert_eq!(resources["resources"][0]["kind"], "Fish");
    let paths = world.get("/").await;
    assert!(
        paths["paths"]
            .as_array()
            .unwrap()
            .contains(&json!("/apis/fish.example.com/v1"))
    );
    let index = world.get("/openapi/v3").await;
    assert_eq!(
        index["paths"]["apis/fish.example.com/v1"]["serverRelativeURL"],
        "/openapi/v3/apis/fish.example.com/v1"
    );
    let aggregated =
        "GET /apis accept:application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let find = async || {
        let all = world.send(aggregated, Value::Null).await.body;
        let items = all["items"].as_array().unwrap().clone();
        let found = items
            .into_iter()
            .find(|item| item["metadata"]["name"] == "fish.example.com");
        found.unwrap()["versions"][0].clone()
    };
    let fish = json!({"group": "fish.example.com", "version": "v1", "kind": "Fish"});
    let current = json!({"version": "v1", "freshness": "Current", "resources": [{
        "resource": "fish", "responseKind": fish, "scope": "Namespaced", "singularResource": "fish", "verbs": ["get", "list"],
        "shortNames": ["fi"], "subresources": [{"subresource": "status", "responseKind": fish, "verbs": ["get"]}]}]});
    assert_eq!(find().await, current);
    *server.is_away.lock() = true;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    world
        .expect(
            &format!("MERGE {SERVICES}/v1.fish.example.com"),
            labels,
            200,
            json!({}),
        )
        .await;
    assert_eq!(
        find().await,
        json!({"version": "v1", "freshness": "Stale", "resources": []})
    );
}

#[tokio::test]
async fn roles_decide_who_reaches_other_servers() {
    let (world, _) = with_fish(true).await;
    world.create(SERVICES, fish_service(&json!({}))).await;
    let bob = world.called_by(Some(Identity::new("bob", ["system:authenticated"])));
    let denied = "fish.fish.example.com is forbidden: User \"bob\" cannot list resource \"fish\" in API group \"fish.example.com\" in \
                  the namespace \"default\"";
    bob.expect(
        &format!("GET {FISH}"),
        Value::Null,
        403,
        json!({"message": denied}),
    )
    .await;
    let rules =
        json!([{"apiGroups": ["fish.example.com"], "resources": ["fish"], "verbs": ["list"]}]);
    let role = json!({"metadata": {"name": "fish"}, "rules": rules});
    world
        .create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        .await;
    let binding = json!({"metadata": {"name": "fish"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fish"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]});
    world
        .create(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            binding,
        )
        .await;
    bob.expect(
        &format!("GET {FISH}"),
        Value::Null,
        200,
        json!({"user": ["bob"]}),
    )
    .await;
    bob.expect(&format!("DELETE {FISH}/a"), Value::Null, 403, json!({}))
        .await;
}
