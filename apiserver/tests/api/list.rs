//! Lists: pages, revisions, selectors, shapes.

use std::io::Read;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use flate2::read::GzDecoder;
use objectstore::{LogLimits, MemoryStore};
use serde_json::{Value, json};

use super::world::{
    MAPS, WIDGETS, World, labelled_map, named_map, names, pod_on, refusal, version, widget,
};

async fn five() -> World {
    let world = World::new().await;
    for (name, app) in [
        ("a", "web"),
        ("b", "db"),
        ("c", "web"),
        ("d", "db"),
        ("e", "web"),
    ] {
        world.create(MAPS, labelled_map(name, app)).await;
    }
    world
}

#[tokio::test]
async fn pages_follow_each_other() {
    let world = five().await;
    let whole = world.get(MAPS).await;
    assert_eq!(
        (names(&whole), &whole["kind"]),
        (vec!["a", "b", "c", "d", "e"], &json!("ConfigMapList"))
    );
    assert!(whole["metadata"].get("continue").is_none());

    let first = world.get(&format!("{MAPS}?limit=2")).await;
    assert_eq!(
        (names(&first), &first["metadata"]["remainingItemCount"]),
        (vec!["a", "b"], &json!(3))
    );
    // whatever is written meanwhile, all pages show the revision of the first
    world
        .expect(&format!("DELETE {MAPS}/c"), Value::Null, 200, json!({}))
        .await;
    world.create(MAPS, named_map("bb")).await;
    world.create(MAPS, named_map("f")).await;
    world
        .expect(
            &format!("MERGE {MAPS}/d"),
            json!({"data": {"new": "1"}}),
            200,
            json!({}),
        )
        .await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = world.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(
        (names(&second), version(&second)),
        (vec!["c", "d"], version(&first))
    );
    assert_eq!(
        (
            second["items"][1].get("data"),
            &second["metadata"]["remainingItemCount"]
        ),
        (None, &json!(1))
    );
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = world.get(&format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(
        (names(&third), version(&third)),
        (vec!["e"], version(&first))
    );
    assert!(third["metadata"].get("continue").is_none());
    // an exact revision is shown as it was, also by a page that names any
    for query in ["resourceVersionMatch=Exact", "limit=100"] {
        let old = world
            .get(&format!(
                "{MAPS}?resourceVersion={}&{query}",
                version(&first)
            ))
            .await;
        assert_eq!(
            (names(&old), version(&old)),
            (vec!["a", "b", "c", "d", "e"], version(&first)),
            "{query}"
        );
    }
}

#[tokio::test]
async fn items_of_lists_carry_no_kind_where_kubernetes_types_do_not() {
    let world = five().await;
    world.create(WIDGETS, widget("w", 1)).await;
    let deleted = world
        .expect(
            &format!("DELETE {MAPS}?limit=1"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    for (list, kind) in [
        (world.get("/api/v1/namespaces").await, Value::Null),
        (deleted, Value::Null),
        (world.get(WIDGETS).await, json!("Widget")),
    ] {
        for item in list["items"].as_array().unwrap() {
            assert_eq!(item["kind"], kind, "{item}");
            assert_eq!(item["apiVersion"].is_null(), kind.is_null(), "{item}");
        }
        assert!(!list["items"].as_array().unwrap().is_empty());
    }
    let relay = World::relay();
    relay.create(MAPS, named_map("a")).await;
    assert_eq!(relay.get(MAPS).await["items"][0]["kind"], "ConfigMap");
}

#[tokio::test]
async fn pages_are_filled_with_what_is_selected() {
    let world = five().await;
    let first = world
        .get(&format!("{MAPS}?limit=2&labelSelector=app%3Dweb"))
        .await;
    assert_eq!(names(&first), ["a", "c"]);
    assert!(first["metadata"].get("remainingItemCount").is_none());
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = world
        .get(&format!(
            "{MAPS}?limit=2&labelSelector=app%3Dweb&continue={token}"
        ))
        .await;
    assert_eq!(names(&second), ["e"]);
}

#[tokio::test]
async fn selectors_select() {
    let world = five().await;
    world
        .create(
            "/api/v1/namespaces/other/configmaps",
            labelled_map("a", "web"),
        )
        .await;
    world
        .create("/api/v1/namespaces/default/pods", pod_on("p", "edge-1"))
        .await;
    world
        .create("/api/v1/namespaces/default/pods", pod_on("q", "edge-2"))
        .await;
    let rows: [(&str, &[&str]); 9] = [
        (
            "/api/v1/configmaps?labelSelector=app=web",
            &["a", "c", "e", "a"],
        ),
        (
            "/api/v1/configmaps?labelSelector=app+in+(db,x)",
            &["b", "d"],
        ),
        ("/api/v1/configmaps?labelSelector=!app", &[]),
        (
            "/api/v1/configmaps?fieldSelector=metadata.name%3Da",
            &["a", "a"],
        ),
        (
            "/api/v1/configmaps?fieldSelector=metadata.namespace=other",
            &["a"],
        ),
        ("/api/v1/namespaces/absent/configmaps", &[]),
        ("/api/v1/pods?fieldSelector=spec.nodeName=edge-1", &["p"]),
        (
            "/api/v1/pods?fieldSelector=spec.nodeName!=edge-1,status.phase=Pending",
            &["q"],
        ),
        (
            "/api/v1/configmaps?resourceVersion=0&limit=0&labelSelector=app=db",
            &["b", "d"],
        ),
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
    let options = |cause: &str| {
        refusal(
            "Invalid",
            &format!("ListOptions.meta.k8s.io \"\" is invalid: {cause}"),
        )
    };
    let field = "resourceVersionMatch";
    let rows = [
        (
            "continue=garbage".to_owned(),
            400,
            json!({"reason": "BadRequest"}),
        ),
        (
            "limit=many".to_owned(),
            400,
            refusal(
                "BadRequest",
                "strconv.ParseInt: parsing \"many\": invalid syntax",
            ),
        ),
        (
            "resourceVersion=abc".to_owned(),
            400,
            refusal(
                "BadRequest",
                "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
            ),
        ),
        (
            "resourceVersion=999999".to_owned(),
            504,
            refusal(
                "Timeout",
                &format!("Timeout: Too large resource version: 999999, current: {revision}"),
            ),
        ),
        (
            format!("continue={token}&resourceVersion={revision}"),
            400,
            refusal(
                "BadRequest",
                "specifying resource version is not allowed when using continue",
            ),
        ),
        (
            "resourceVersionMatch=Exact".to_owned(),
            422,
            options(&format!(
                "{field}: Forbidden: {field} is forbidden unless resourceVersion is provided"
            )),
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0".to_owned(),
            422,
            options(&format!(
                "{field}: Forbidden: {field} \"exact\" is forbidden for resourceVersion \"0\""
            )),
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
        (
            "labelSelector=a==b=c".to_owned(),
            400,
            json!({"reason": "BadRequest"}),
        ),
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
        world
            .expect(&format!("GET {MAPS}?{query}"), Value::Null, code, expected)
            .await;
    }
    // clients can write tokens themselves
    let now = clock::now().as_second();
    for (rv, since, code) in [
        (json!(u64::MAX), json!(now), 410),
        (json!(u64::MAX), json!(i64::MIN), 410),
        (json!(revision), json!(i64::MIN), 410),
        (json!(0), json!(i64::MAX), 410),
        (json!(revision), json!(i64::MAX), 200),
        (Value::Null, json!(i64::MIN), 200),
        (json!(-1), json!(now), 400),
        (json!(revision), json!("now"), 400),
    ] {
        let token = json!({"rv": rv, "ns": "default", "name": "a", "since": since});
        let token = URL_SAFE_NO_PAD.encode(token.to_string());
        let page = format!("GET {MAPS}?limit=1&continue={token}");
        world.expect(&page, Value::Null, code, json!({})).await;
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
    let log = LogLimits {
        events: 3,
        ..LogLimits::EDGE
    };
    let world = World::over(MemoryStore::with_log(log)).await;
    for name in ["a", "b"] {
        world.create(MAPS, named_map(name)).await;
    }
    let first = world.get(&format!("{MAPS}?limit=1")).await;
    let page = |token: &Value| format!("GET {MAPS}?limit=1&continue={}", token.as_str().unwrap());
    let token = &first["metadata"]["continue"];
    let revision = json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}});
    world.expect(&page(token), Value::Null, 200, revision).await;
    for name in ["c", "d", "e", "f"] {
        world.create(MAPS, named_map(name)).await;
    }
    let expired = world
        .expect(
            &page(token),
            Value::Null,
            410,
            json!({"reason": "Expired", "code": 410}),
        )
        .await;
    let message = expired["message"].as_str().unwrap();
    assert!(message.starts_with(
        "The provided continue parameter is too old to display a consistent list result."
    ));
    let exact = format!(
        "GET {MAPS}?resourceVersionMatch=Exact&resourceVersion={}",
        version(&first)
    );
    let why = "The resourceVersion for the provided list is too old.";
    world
        .expect(&exact, Value::Null, 410, refusal("Expired", why))
        .await;
    let current =
        json!({"metadata": {"resourceVersion": world.api.store().revision().to_string()}});
    let rest = world
        .expect(
            &page(&expired["metadata"]["continue"]),
            Value::Null,
            200,
            current,
        )
        .await;
    assert_eq!(names(&rest), ["b"]);
}

/// Returns the token of a list in pages that began `seconds` earlier.
fn age(token: &Value, seconds: i64) -> Value {
    let token = URL_SAFE_NO_PAD.decode(token.as_str().unwrap()).unwrap();
    let mut token: Value = serde_json::from_slice(&token).unwrap();
    token["since"] = json!(token["since"].as_i64().unwrap() - seconds);
    json!(URL_SAFE_NO_PAD.encode(token.to_string()))
}

#[tokio::test]
async fn a_list_in_pages_shows_one_revision_for_five_minutes() {
    let world = five().await;
    let page = |token: &Value| format!("GET {MAPS}?limit=1&continue={}", token.as_str().unwrap());
    let first = world.get(&format!("{MAPS}?limit=1")).await;
    let revision = json!({"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}});
    world.create(MAPS, named_map("aa")).await;
    let mut token = first["metadata"]["continue"].clone();
    // no page makes the others last longer
    for expected in ["b", "c"] {
        let aged = age(&token, 140);
        let next = world
            .expect(&page(&aged), Value::Null, 200, revision.clone())
            .await;
        assert_eq!(names(&next), [expected]);
        token = next["metadata"]["continue"].clone();
    }
    let aged = age(&token, 140);
    let expired = json!({"reason": "Expired", "code": 410});
    let expired = world.expect(&page(&aged), Value::Null, 410, expired).await;
    // what goes on without the revision begins a time of its own
    let current =
        json!({"metadata": {"resourceVersion": world.api.store().revision().to_string()}});
    let token = &expired["metadata"]["continue"];
    let next = world
        .expect(&page(token), Value::Null, 200, current.clone())
        .await;
    assert_eq!(names(&next), ["d"]);
    let last = page(&next["metadata"]["continue"]);
    let last = world.expect(&last, Value::Null, 200, current).await;
    assert_eq!(names(&last), ["e"]);
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_take_it() {
    let world = World::new().await;
    let large = json!({"metadata": {"name": "large"}, "data": {"a": "x".repeat(200_000)}});
    world.create(MAPS, large).await;
    world.create(MAPS, named_map("small")).await;
    let rows = [
        (format!("GET {MAPS} accept-encoding:gzip"), true),
        (
            format!("GET {MAPS}/large accept-encoding:deflate,gzip"),
            true,
        ),
        (format!("GET {MAPS}/small accept-encoding:gzip"), false),
        (format!("GET {MAPS}"), false),
        (
            format!("GET {MAPS}?watch=1&timeoutSeconds=1 accept-encoding:gzip"),
            false,
        ),
    ];
    for (request, compressed) in rows {
        let (headers, bytes) = world.bytes(&request).await;
        let encoding = headers
            .get("content-encoding")
            .map(|value| value.to_str().unwrap());
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
