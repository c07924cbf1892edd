//! Lists: pages, revisions, selectors, shapes.

use std::io::Read;

use flate2::read::GzDecoder;
use kubeapi::store::{LogLimits, MemoryStore};
use serde_json::{Value, json};

use super::world::{MAPS, World, labelled, named, names, pod_on, refusal, version};

async fn five() -> World {
    let world = World::new().await;
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web"), ("d", "db"), ("e", "web")] {
        world.create(MAPS, labelled(name, app)).await;
    }
    world
}

#[tokio::test]
async fn pages_follow_each_other() {
    let world = five().await;
    let whole = world.get(MAPS).await;
    assert_eq!((names(&whole), &whole["kind"]), (vec!["a", "b", "c", "d", "e"], &json!("ConfigMapList")));
    assert!(whole["metadata"].get("continue").is_none());

    let first = world.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(3)));
    // what goes meanwhile is gone, what comes may be seen; all pages name the revision of the first
    world.expect(&format!("DELETE {MAPS}/c"), Value::Null, 200, json!({})).await;
    world.create(MAPS, named("f")).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = world.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((names(&second), version(&second)), (vec!["d", "e"], version(&first)));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = world.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!((names(&third), version(&third)), (vec!["f"], version(&first)));
    assert!(third["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn pages_are_filled_with_what_is_selected() {
    let world = five().await;
    let first = world.get(&format!("{MAPS}?limit=2&labelSelector=app%3Dweb")).await;
    assert_eq!(names(&first), ["a", "c"]);
    assert!(first["metadata"].get("remainingItemCount").is_none());
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = world.get(&format!("{MAPS}?limit=2&labelSelector=app%3Dweb&continue={token}")).await;
    assert_eq!(names(&second), ["e"]);
}

#[tokio::test]
async fn selectors_select() {
    let world = five().await;
    world.create("/api/v1/namespaces/other/configmaps", labelled("a", "web")).await;
    world.create("/api/v1/namespaces/default/pods", pod_on("p", "edge-1")).await;
    world.create("/api/v1/namespaces/default/pods", pod_on("q", "edge-2")).await;
    let rows: [(&str, &[&str]); 9] = [
        ("/api/v1/configmaps?labelSelector=app=web", &["a", "c", "e", "a"]),
        ("/api/v1/configmaps?labelSelector=app+in+(db,x)", &["b", "d"]),
        ("/api/v1/configmaps?labelSelector=!app", &[]),
        ("/api/v1/configmaps?fieldSelector=metadata.name%3Da", &["a", "a"]),
        ("/api/v1/configmaps?fieldSelector=metadata.namespace=other", &["a"]),
        ("/api/v1/namespaces/absent/configmaps", &[]),
        ("/api/v1/pods?fieldSelector=spec.nodeName=edge-1", &["p"]),
        ("/api/v1/pods?fieldSelector=spec.nodeName!=edge-1,status.phase=Pending", &["q"]),
        ("/api/v1/configmaps?resourceVersion=0&limit=0&labelSelector=app=db", &["b", "d"]),
    ];
    for (path, expected) in rows {
        assert_eq!(names(&world.get(path).await), expected, "{path}");
    }
}

#[tokio::test]
async fn what_cannot_be_listed_is_refused() {
    let world = five().await;
    let page = world.get(&format!("{MAPS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let revision = world.api.store().revision();
    let options =
        |cause: &str| refusal("Invalid", &format!("ListOptions.meta.k8s.io \"\" is invalid: {cause}"));
    let field = "resourceVersionMatch";
    let rows = [
        ("continue=garbage".to_owned(), 400, json!({"reason": "BadRequest"})),
        ("limit=many".to_owned(), 400, json!({"reason": "BadRequest"})),
        ("resourceVersion=abc".to_owned(), 400, json!({"reason": "BadRequest"})),
        (
            "resourceVersion=999999".to_owned(),
            504,
            refusal("Timeout", &format!("Timeout: Too large resource version: 999999, current: {revision}")),
        ),
        (
            format!("continue={token}&resourceVersion={revision}"),
            400,
            refusal("BadRequest", "specifying resource version is not allowed when using continue"),
        ),
        (
            "resourceVersion=2&resourceVersionMatch=Exact".to_owned(),
            410,
            json!({"reason": "Expired", "code": 410}),
        ),
        (
            "resourceVersionMatch=Exact".to_owned(),
            422,
            options(&format!("{field}: Forbidden: {field} is forbidden unless resourceVersion is provided")),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0".to_owned(),
            422,
            options(&format!("{field}: Forbidden: {field} \"exact\" is forbidden for resourceVersion \"0\"")),
        ),
        (
            "resourceVersionMatch=Newest&resourceVersion=1".to_owned(),
            422,
            options(&format!(
                "{field}: Unsupported value: \"Newest\": supported values: \"Exact\", \"NotOlderThan\", \"\""
            )),
        ),
        (
            "sendInitialEvents=true".to_owned(),
            422,
            options("sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        ),
        ("labelSelector=a==b=c".to_owned(), 400, json!({"reason": "BadRequest"})),
        (
            "fieldSelector=spec.x=1".to_owned(),
            400,
            refusal(
                "BadRequest",
                "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
        ),
    ];
    for (query, code, expected) in rows {
        world.expect(&format!("GET {MAPS}?{query}"), Value::Null, code, expected).await;
    }
    for query in [
        format!("resourceVersion={revision}&resourceVersionMatch=Exact"),
        format!("resourceVersion={revision}"),
    ] {
        assert_eq!(names(&world.get(&format!("{MAPS}?{query}")).await).len(), 5);
    }
}

#[tokio::test]
async fn lists_take_the_shape_asked_for() {
    let world = five().await;
    let table = "accept:application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let metadata = "accept:application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"});
    let row = |name: &str| json!({"object": {"kind": "PartialObjectMetadata", "metadata": {"name": name}}});
    world
        .expect_all(vec![
            (
                &format!("GET {MAPS}?limit=1 {table}"),
                Value::Null,
                200,
                json!({"kind": "Table", "rows": [row("a")], "metadata": {"remainingItemCount": 4}}),
            ),
            (
                &format!("GET {MAPS}?limit=1&includeObject=Object {table}"),
                Value::Null,
                200,
                json!({"rows": [{"object": {"kind": "ConfigMap"}}]}),
            ),
            (
                &format!("GET {MAPS}/b {table}"),
                Value::Null,
                200,
                json!({"kind": "Table", "rows": [row("b")]}),
            ),
            (&format!("GET {MAPS}?includeObject=Half {table}"), Value::Null, 400, json!({})),
            (
                &format!("GET {MAPS}?limit=1 {metadata}"),
                Value::Null,
                200,
                json!({"kind": "PartialObjectMetadataList", "items": [partial]}),
            ),
            (
                &format!("GET {MAPS}/a accept:application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
                Value::Null,
                200,
                partial,
            ),
        ])
        .await;
}

#[tokio::test]
async fn a_list_that_paused_too_long_goes_on_only_when_asked_to() {
    let log = LogLimits { events: 3, ..LogLimits::CLOUD };
    let world = World::over(MemoryStore::with_log(log)).await;
    for name in ["a", "b"] {
        world.create(MAPS, named(name)).await;
    }
    let first = world.get(&format!("{MAPS}?limit=1")).await;
    let page = |token: &Value| format!("GET {MAPS}?limit=1&continue={}", token.as_str().unwrap());
    let token = &first["metadata"]["continue"];
    let revision = json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}});
    world.expect(&page(token), Value::Null, 200, revision).await;
    for name in ["c", "d", "e", "f"] {
        world.create(MAPS, named(name)).await;
    }
    let expired =
        world.expect(&page(token), Value::Null, 410, json!({"reason": "Expired", "code": 410})).await;
    let message = expired["message"].as_str().unwrap();
    assert!(
        message
            .starts_with("The provided continue parameter is too old to display a consistent list result.")
    );
    let current = json!({"metadata": {"resourceVersion": world.api.store().revision().to_string()}});
    let rest = world.expect(&page(&expired["metadata"]["continue"]), Value::Null, 200, current).await;
    assert_eq!(names(&rest), ["b"]);
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_take_it() {
    let world = World::new().await;
    let large = json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(200_000)}});
    world.create(MAPS, large).await;
    world.create(MAPS, named("small")).await;
    let rows = [
        (format!("GET {MAPS} accept-encoding:gzip"), true),
        (format!("GET {MAPS}/large accept-encoding:deflate,gzip"), true),
        (format!("GET {MAPS}/small accept-encoding:gzip"), false),
        (format!("GET {MAPS}"), false),
        (format!("GET {MAPS}?watch=1&timeoutSeconds=1 accept-encoding:gzip"), false),
    ];
    for (request, compressed) in rows {
        let (headers, bytes) = world.bytes(&request).await;
        let encoding = headers.get("content-encoding").map(|value| value.to_str().unwrap());
        assert_eq!(encoding, compressed.then_some("gzip"), "{request}");
        assert_eq!(headers.get("vary").is_some(), compressed, "{request}");
        if compressed {
            let mut plain = String::new();
            GzDecoder::new(&*bytes).read_to_string(&mut plain).unwrap();
            assert!(bytes.len() < 5_000 && plain.len() > 200_000, "{request}");
            let object: Value = serde_json::from_str(&plain).unwrap();
            assert_eq!(object["apiVersion"], "v1", "{request}");
        }
    }
}
