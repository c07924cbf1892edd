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
        r#"apiserver_request_total{code="201",group="",resource="configmaps",subresource="",verb="CREATE",version="v1"} 2"#,
        r#"apiserver_request_total{code="404",group="",resource="configmaps",subresource="",verb="GET",version="v1"} 1"#,
        r#"apiserver_longrunning_requests{verb="WATCH"} 1"#,
        r#"apiserver_storage_objects{resource="configmaps"} 2"#,
        r#"apiserver_storage_objects{resource="customresourcedefinitions.apiextensions.k8s.io"} 2"#,
    ] {
        assert!(lines.contains(&expected), "{expected}\n{metrics}");
    }
    drop(watch);
    let metrics = world.get("/metrics").await;
    assert!(
        metrics.as_str().unwrap().contains(r#"apiserver_longrunning_requests{verb="WATCH"} 0"#),
        "{metrics}"
    );
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
