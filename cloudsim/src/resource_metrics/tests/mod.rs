//! `metrics.k8s.io` as kubectl and other clients see it, over nodes that answer in various ways.

mod fakes;
mod kubectl;

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use kubeapi::Identity;
use serde_json::{Value, json};
// the clock is virtual
use tokio::time::sleep;
use tower::ServiceExt;

use self::fakes::{Answers, World};

const NODES: &str = "/apis/metrics.k8s.io/v1beta1/nodes";
const PODS: &str = "/apis/metrics.k8s.io/v1beta1/pods";

/// Returns the answer to a user.
async fn answer(
    world: &World,
    method: Method,
    path: &str,
    caller: Identity,
) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .extension(caller);
    let answer = world
        .api
        .service()
        .oneshot(request.body(Full::<Bytes>::default()).unwrap())
        .await
        .unwrap();
    let code = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

async fn get(world: &World, path: &str) -> (StatusCode, Value) {
    answer(world, Method::GET, path, Identity::master()).await
}

/// Returns the names in a list, with their namespaces.
async fn names(world: &World, path: &str) -> Vec<String> {
    let (code, list) = get(world, path).await;
    assert_eq!(code, StatusCode::OK, "{list}");
    let name = |item: &Value| {
        let text = |field: &str| {
            item["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        format!("{}/{}", text("namespace"), text("name"))
    };
    list["items"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_question_is_answered_and_says_what_is_used() {
    let world = World::new(&[("edge-1", Answers::Well)]).await;
    world.pod("web", "edge-1", &["main", "side"]).await;
    let (code, list) = get(&world, NODES).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("NodeMetricsList"), &json!("metrics.k8s.io/v1beta1"))
    );
    let node = &list["items"][0];
    assert_eq!(node["usage"], json!({"cpu": "500m", "memory": "512Mi"}));
    assert_eq!(node["metadata"]["labels"], json!({"zone": "edge-1"}));
    assert_eq!(node["window"], "1.2s");
    let at = node["timestamp"]
        .as_str()
        .unwrap()
        .parse::<jiff::Timestamp>()
        .unwrap();
    assert!(
        at.duration_since(clock::now()).abs() < jiff::SignedDuration::from_mins(5),
        "{node}"
    );
    let (_, pod) = get(
        &world,
        "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/web",
    )
    .await;
    assert_eq!(
        (&pod["kind"], &pod["metadata"]["namespace"]),
        (&json!("PodMetrics"), &json!("default"))
    );
    let usage = json!({"cpu": "250m", "memory": "64Mi"});
    let containers = json!([{"name": "main", "usage": usage}, {"name": "side", "usage": usage}]);
    assert_eq!(pod["containers"], containers);
    assert_eq!(
        get(&world, &format!("{NODES}/edge-1")).await.1["usage"],
        node["usage"]
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_that_do_not_answer_are_missing_and_keep_nobody_waiting() {
    let world = World::new(&[
        ("absent", Answers::NotConnected),
        ("broken", Answers::Text("node_cpu_usage_seconds_total")),
        ("endless", Answers::Endless),
        ("good", Answers::Well),
        ("hangs", Answers::Never),
        ("refuses", Answers::Code(StatusCode::TOO_MANY_REQUESTS)),
        ("stops", Answers::HalfOfAPage),
    ])
    .await;
    world.pod("web", "good", &["main"]).await;
    world.pod("lost", "absent", &["main"]).await;
    let began = tokio::time::Instant::now();
    assert_eq!(names(&world, NODES).await, ["/good"]);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(names(&world, PODS).await, ["default/web"]);
    let (code, refusal) = get(&world, &format!("{NODES}/absent")).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    assert_eq!(
        refusal["message"],
        "nodes.metrics.k8s.io \"absent\" not found"
    );
    // one that comes back, and one that goes
    world.set("absent", Answers::Well);
    world.set("good", Answers::NotConnected);
    sleep(Duration::from_secs(32)).await;
    assert_eq!(names(&world, NODES).await, ["/absent"]);
    assert_eq!(names(&world, PODS).await, ["default/lost"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_measured_on_its_own_node_and_while_it_runs() {
    let world = World::new(&[("edge-1", Answers::Well), ("edge-2", Answers::Well)]).await;
    world.pod("web", "edge-1", &["main"]).await;
    world.pod("done", "edge-1", &["main"]).await;
    world.phase("done", "Succeeded").await;
    // the other node claims to have the pod as well, with more containers
    world.claim("edge-2", "web", &["main", "other"]);
    world.claim("edge-2", "not-there", &["main"]);
    let (_, list) = get(&world, PODS).await;
    let containers: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| &pod["containers"])
        .collect();
    assert_eq!(containers.len(), 1, "{list}");
    assert_eq!(containers[0].as_array().unwrap().len(), 1, "{list}");
}

#[tokio::test(start_paused = true)]
async fn selectors_select() {
    let world = World::new(&[("edge-1", Answers::Well), ("edge-2", Answers::Well)]).await;
    for (name, node) in [("a", "edge-1"), ("b", "edge-2")] {
        world.pod(name, node, &["main"]).await;
    }
    for (query, expected) in [
        ("labelSelector=app%3Da", "default/a"),
        ("labelSelector=app%21%3Da", "default/b"),
        ("fieldSelector=metadata.name%3Db", "default/b"),
        ("fieldSelector=metadata.namespace%3Dother", ""),
    ] {
        let expected: Vec<_> = Some(expected)
            .filter(|name| !name.is_empty())
            .into_iter()
            .collect();
        assert_eq!(
            names(&world, &format!("{PODS}?{query}")).await,
            expected,
            "{query}"
        );
    }
    let own = "/apis/metrics.k8s.io/v1beta1/namespaces/other/pods";
    assert!(names(&world, own).await.is_empty());
    assert_eq!(
        names(&world, &format!("{NODES}?labelSelector=zone%3Dedge-2")).await,
        ["/edge-2"]
    );
    let (code, _) = get(
        &world,
        &format!("{PODS}?fieldSelector=spec.nodeName%3Dedge-1"),
    )
    .await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_asked_only_while_somebody_asks() {
    let world = World::new(&[("edge-1", Answers::Well)]).await;
    sleep(Duration::from_secs(600)).await;
    assert_eq!(world.scrape_count("edge-1"), 0);
    for _ in 0..100 {
        assert_eq!(names(&world, NODES).await, ["/edge-1"]);
    }
    assert_eq!(world.scrape_count("edge-1"), 2);
    sleep(Duration::from_secs(150)).await;
    assert_eq!(world.scrape_count("edge-1"), 12);
    sleep(Duration::from_secs(600)).await;
    assert_eq!(world.scrape_count("edge-1"), 14);
    // the samples from then are outdated
    assert_eq!(get(&world, NODES).await.1["items"][0]["window"], "1.2s");
}

#[tokio::test(start_paused = true)]
async fn roles_say_who_may_read_and_nobody_writes() {
    let world = World::new(&[("edge-1", Answers::Well)]).await;
    world.pod("web", "edge-1", &["main"]).await;
    let ann = || Identity::new("ann", ["system:authenticated"]);
    let own = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";
    let (code, refusal) = answer(&world, Method::GET, own, ann()).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        refusal["message"],
        "pods.metrics.k8s.io is forbidden: User \"ann\" cannot list resource \"pods\" in API group \
         \"metrics.k8s.io\" in the namespace \"default\""
    );
    world.bind("ann", "view").await;
    assert_eq!(
        answer(&world, Method::GET, own, ann()).await.0,
        StatusCode::OK
    );
    assert_eq!(
        answer(&world, Method::GET, NODES, ann()).await.0,
        StatusCode::FORBIDDEN
    );
    for method in [Method::POST, Method::DELETE] {
        let (code, _) = answer(&world, method, own, Identity::master()).await;
        assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED);
    }
    let (code, _) = get(&world, &format!("{own}?watch=true")).await;
    assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED);
}
