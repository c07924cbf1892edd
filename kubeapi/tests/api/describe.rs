//! What the API says about itself.

use serde_json::{Value, json};

use super::world::{MAPS, World, named};

#[tokio::test]
async fn health_is_told_in_one_word_or_more() {
    let world = World::new().await;
    for which in ["healthz", "livez", "readyz"] {
        assert_eq!(world.get(&format!("/{which}")).await, json!("ok"));
        let verbose = world.get(&format!("/{which}?verbose")).await;
        assert!(verbose.as_str().unwrap().ends_with(&format!("{which} check passed\n")), "{verbose}");
    }
}

#[tokio::test]
async fn requests_watchers_and_objects_are_counted() {
    let world = World::new().await;
    for name in ["a", "b"] {
        world.create(MAPS, named(name)).await;
    }
    world.expect(&format!("GET {MAPS}/absent"), Value::Null, 404, json!({})).await;
    let watch = world.watch(&format!("{MAPS}?watch=1")).await;
    let metrics = world.get("/metrics").await;
    let lines: Vec<_> = metrics.as_str().unwrap().lines().collect();
    for expected in [
        r#"apiserver_request_total{code="201",component="apiserver",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} 2"#,
        r#"apiserver_request_total{code="404",component="apiserver",group="",resource="configmaps",scope="resource",subresource="",verb="GET",version="v1"} 1"#,
        r#"apiserver_request_duration_seconds_count{component="apiserver",group="",resource="configmaps",scope="resource",subresource="",verb="POST",version="v1"} 2"#,
        r#"apiserver_current_inflight_requests{request_kind="readOnly"} 0"#,
        r#"apiserver_current_inflight_requests{request_kind="mutating"} 0"#,
        r#"apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps",scope="namespace",subresource="",verb="WATCH",version="v1"} 1"#,
        r#"apiserver_storage_objects{resource="configmaps"} 2"#,
        r#"apiserver_storage_objects{resource="customresourcedefinitions.apiextensions.k8s.io"} 2"#,
    ] {
        assert!(lines.contains(&expected), "{expected}\n{metrics}");
    }
    drop(watch);
    let metrics = world.get("/metrics").await;
    let lines: Vec<_> = metrics.as_str().unwrap().lines().collect();
    let watches: Vec<_> =
        lines.iter().filter(|line| line.starts_with("apiserver_longrunning_requests{")).collect();
    assert!(watches.len() == 1 && watches[0].ends_with(" 0"), "{watches:?}");
    // how long a watch goes on is no duration of a request
    let is_of_a_watch = |line: &&str| line.contains("duration_seconds_count") && line.contains("WATCH");
    assert_eq!(lines.iter().copied().find(is_of_a_watch), None);
}

#[tokio::test]
async fn older_clients_find_their_document() {
    let world = World::new().await;
    let document = world.get("/openapi/v2").await;
    assert_eq!(document["swagger"], "2.0");
    let definitions = document["definitions"].as_object().unwrap();
    let kinds: Vec<_> = definitions
        .values()
        .filter_map(|schema| schema.pointer("/x-kubernetes-group-version-kind/0/kind")?.as_str())
        .collect();
    for kind in ["Pod", "Deployment", "Widget", "CustomResourceDefinition"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let text = document.to_string();
    assert!(!text.contains("#/components/"));
    // without schemas: kubectl then leaves the items of a `List` to the server
    let protobuf = "GET /openapi/v2 accept:application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let (headers, bytes) = world.bytes(protobuf).await;
    assert_eq!(headers["content-type"], "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    assert_eq!(bytes, "\n\u{3}2.0\u{12}\u{1f}\n\nKubernetes\u{12}\u{11}v1.33.0+outriggerB\0");
}
