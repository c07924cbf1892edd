//! Watches: where they begin, what they tell, how they end.

use objectstore::{LogLimits, MemoryStore};
use serde_json::{Value, json};

use super::world::{MAPS, PODS, World, labelled_map, named_map, pod, refusal, version};

#[tokio::test]
async fn a_watch_goes_on_from_a_revision() {
    let world = World::new().await;
    let first = world.create(MAPS, named_map("a")).await;
    world.create(MAPS, named_map("b")).await;
    world
        .create("/api/v1/namespaces/other/configmaps", named_map("c"))
        .await;
    world.create(PODS, pod("p")).await;
    let mut lines = world
        .watch(&format!(
            "{MAPS}?watch=true&resourceVersion={}",
            version(&first)
        ))
        .await;
    assert_eq!(lines.ready(), ["ADDED b"]);
    world
        .expect(
            &format!("MERGE {MAPS}/a"),
            json!({"data": {"k": "v"}}),
            200,
            json!({}),
        )
        .await;
    let line = lines.next().await.unwrap();
    assert_eq!(
        (&line["type"], &line["object"]["data"]["k"]),
        (&json!("MODIFIED"), &json!("v"))
    );
    world
        .expect(&format!("DELETE {MAPS}/a"), Value::Null, 200, json!({}))
        .await;
    let line = lines.next().await.unwrap();
    assert_eq!(
        (&line["type"], &line["object"]["data"]["k"]),
        (&json!("DELETED"), &json!("v"))
    );
    assert_eq!(version(&line["object"]), world.api.store().revision());
    // a write that changes nothing is none
    world
        .expect(&format!("MERGE {MAPS}/b"), json!({}), 200, json!({}))
        .await;
    assert_eq!(lines.ready(), [""; 0]);
}

#[tokio::test]
async fn a_watch_without_revision_begins_with_what_is_there() {
    let world = World::new().await;
    world.create(MAPS, named_map("a")).await;
    for query in ["watch=1", "watch&resourceVersion=0"] {
        let mut lines = world.watch(&format!("{MAPS}?{query}")).await;
        assert_eq!(lines.ready(), ["ADDED a"], "{query}");
    }
    let mut everywhere = world.watch("/api/v1/configmaps?watch=1").await;
    world
        .create("/api/v1/namespaces/other/configmaps", named_map("b"))
        .await;
    assert_eq!(everywhere.ready(), ["ADDED a", "ADDED b"]);
}

#[tokio::test]
async fn a_list_can_be_watched() {
    let world = World::new().await;
    world.create(MAPS, named_map("a")).await;
    let path = format!("{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let mut lines = world
        .watch(&format!("{path}&allowWatchBookmarks=true"))
        .await;
    assert_eq!(lines.next().await.unwrap()["type"], "ADDED");
    let line = lines.next().await.unwrap();
    let object = &line["object"];
    assert_eq!(
        (&line["type"], &object["kind"]),
        (&json!("BOOKMARK"), &json!("ConfigMap"))
    );
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
    assert_eq!(version(object), world.api.store().revision());
    world.create(MAPS, named_map("b")).await;
    assert_eq!(lines.ready(), ["ADDED b"]);
    // who wants no bookmarks gets none
    assert_eq!(world.watch(&path).await.ready(), ["ADDED a", "ADDED b"]);
    let only_changes = path.replace("=true", "=false");
    let mut lines = world.watch(&only_changes).await;
    world.create(MAPS, named_map("c")).await;
    assert_eq!(lines.ready(), ["ADDED c"]);
}

#[tokio::test]
async fn what_leaves_the_selection_is_deleted() {
    let world = World::new().await;
    world.create(MAPS, labelled_map("a", "web")).await;
    world.create(MAPS, labelled_map("b", "db")).await;
    let mut lines = world
        .watch(&format!("{MAPS}?watch=1&labelSelector=app=web"))
        .await;
    assert_eq!(lines.ready(), ["ADDED a"]);
    let label = |app: &str| json!({"metadata": {"labels": {"app": app}}, "data": {"app": app}});
    let a = format!("MERGE {MAPS}/a");
    let left = world.expect(&a, label("db"), 200, json!({})).await;
    let line = lines.next().await.unwrap();
    // as the watcher knew it, at the revision at which it left
    assert_eq!(
        (&line["type"], &line["object"]["metadata"]["labels"]["app"]),
        (&json!("DELETED"), &json!("web"))
    );
    assert_eq!(version(&line["object"]), version(&left));
    world
        .expect(&a, json!({"data": {"x": "y"}}), 200, json!({}))
        .await;
    assert_eq!(lines.ready(), [""; 0]);
    world.expect(&a, label("web"), 200, json!({})).await;
    world
        .expect(&format!("MERGE {MAPS}/b"), label("x"), 200, json!({}))
        .await;
    world
        .expect(&a, json!({"data": {"x": "z"}}), 200, json!({}))
        .await;
    world
        .expect(&format!("DELETE {MAPS}/b"), Value::Null, 200, json!({}))
        .await;
    world
        .expect(&format!("DELETE {MAPS}/a"), Value::Null, 200, json!({}))
        .await;
    assert_eq!(lines.ready(), ["ADDED a", "MODIFIED a", "DELETED a"]);
}

#[tokio::test]
async fn a_node_sees_a_pod_when_it_is_bound() {
    let world = World::new().await;
    let mut lines = world
        .watch("/api/v1/pods?watch=1&fieldSelector=spec.nodeName=edge-1")
        .await;
    world.create(PODS, pod("p")).await;
    assert_eq!(lines.ready(), [""; 0]);
    world
        .expect(
            &format!("POST {PODS}/p/binding"),
            json!({"metadata": {"name": "p"}, "target": {"name": "edge-1"}}),
            201,
            json!({}),
        )
        .await;
    assert_eq!(lines.ready(), ["ADDED p"]);
}

#[tokio::test]
async fn who_asks_for_too_old_a_revision_must_list_again() {
    let limits = LogLimits {
        events: 2,
        ..LogLimits::EDGE
    };
    let world = World::over(MemoryStore::with_log(limits)).await;
    let start = world.api.store().revision();
    let mut slow = world.watch(&format!("{MAPS}?watch=1")).await;
    for name in ["a", "b", "c"] {
        world.create(MAPS, named_map(name)).await;
    }
    // the answer has begun when the server finds out
    assert_eq!(slow.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(slow.next().await, None);
    for revision in [start, 999_999] {
        let mut lines = world
            .watch(&format!("{MAPS}?watch=1&resourceVersion={revision}"))
            .await;
        let expected = json!({"kind": "Status", "reason": "Expired", "code": 410});
        let line = lines.next().await.unwrap();
        assert_eq!(line["type"], "ERROR");
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&line["object"][name], value, "{revision}");
        }
        assert_eq!(lines.next().await, None);
    }
}

#[tokio::test]
async fn a_watch_ends_when_its_time_is_over() {
    let world = World::new().await;
    let mut lines = world
        .watch(&format!("{MAPS}?watch=1&timeoutSeconds=1"))
        .await;
    assert_eq!(lines.next().await, None);
    // 0 means the server's own
    let mut lines = world
        .watch(&format!("{MAPS}?watch=1&timeoutSeconds=0"))
        .await;
    world.create(MAPS, named_map("a")).await;
    assert_eq!(lines.ready(), ["ADDED a"]);
}

#[tokio::test]
async fn watches_take_the_shape_asked_for() {
    let world = World::new().await;
    world.create(MAPS, named_map("a")).await;
    world.create(MAPS, named_map("b")).await;
    let table = "accept:application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut lines = world.watch(&format!("{MAPS}?watch=1 {table}")).await;
    let (first, second) = (lines.next().await.unwrap(), lines.next().await.unwrap());
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    assert_eq!(
        (
            &second["object"]["columnDefinitions"],
            &second["object"]["kind"]
        ),
        (&Value::Null, &json!("Table"))
    );
    assert_eq!(
        second["object"]["rows"][0]["object"]["metadata"]["name"],
        "b"
    );
    let metadata = "accept:application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut lines = world.watch(&format!("{MAPS}?watch=1 {metadata}")).await;
    let first = lines.next().await.unwrap();
    assert_eq!(
        (&first["object"]["kind"], first["object"].get("data")),
        (&json!("PartialObjectMetadata"), None)
    );
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let world = World::new().await;
    let revision = world.api.store().revision();
    let field = "resourceVersionMatch";
    let options = |cause: &str| {
        refusal(
            "Invalid",
            &format!("ListOptions.meta.k8s.io \"\" is invalid: {cause}"),
        )
    };
    let rows = [
        (
            "sendInitialEvents=true",
            422,
            options(&format!(
                "{field}: Forbidden: sendInitialEvents requires setting {field} to NotOlderThan"
            )),
        ),
        (
            "resourceVersionMatch=NotOlderThan",
            422,
            options(&format!(
                "{field}: Forbidden: {field} is forbidden for watch unless sendInitialEvents is provided"
            )),
        ),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999",
            504,
            refusal(
                "Timeout",
                &format!("Timeout: Too large resource version: 999999, current: {revision}"),
            ),
        ),
        ("resourceVersion=x", 400, json!({"reason": "BadRequest"})),
        ("timeoutSeconds=x", 400, json!({"reason": "BadRequest"})),
        ("labelSelector=)", 400, json!({"reason": "BadRequest"})),
    ];
    for (query, code, expected) in rows {
        world
            .expect(
                &format!("GET {MAPS}?watch=1&{query}"),
                Value::Null,
                code,
                expected,
            )
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn watch_ends_after_the_timeout_that_kube_apiserver_counts() {
    let world = World::new().await;
    world.create(MAPS, named_map("a")).await;
    // in nanoseconds, the third number is negative, the fourth is 2^63 and so negative too, the fifth is 0
    for (asked, seconds) in [
        ("-1", 0..=0),
        ("-9223372036854775808", 1800..=3600),
        ("9223372036854775807", 0..=0),
        ("9223372037", 0..=0),
        ("36028797018963968", 1800..=3600),
        ("0", 1800..=3600),
        ("1", 1..=1),
        ("90", 90..=90),
        ("9223372036", 31_536_000..=31_536_000),
        ("", 1800..=3600),
    ] {
        let begun = tokio::time::Instant::now();
        let mut lines = world
            .watch(&format!("{MAPS}?watch=1&timeoutSeconds={asked}"))
            .await;
        assert_eq!(lines.next().await.unwrap()["type"], "ADDED", "{asked}");
        assert_eq!(lines.next().await, None, "{asked}");
        let took = begun.elapsed().as_secs();
        assert!(seconds.contains(&took), "{asked}: {took}");
    }
    for (asked, why) in [
        ("x", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("1s", "invalid syntax"),
        ("9223372036854775808", "value out of range"),
    ] {
        let refused = refusal(
            "BadRequest",
            &format!("strconv.ParseInt: parsing {asked:?}: {why}"),
        );
        let request = format!("GET {MAPS}?watch=1&timeoutSeconds={asked}");
        world.expect(&request, Value::Null, 400, refused).await;
    }
}
