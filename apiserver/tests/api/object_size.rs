//! Objects that are too large with everything that the server adds: refused at every write, cheaply, with the stored object unchanged.

use std::time::{Duration, Instant};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use objectstore::MemoryStore;
use serde_json::{Value, json};

use super::world::{MAPS, PODS, World, named_map, pod, registry, widget};

/// etcd's limit, in bytes.
const LIMIT: usize = 1536 * 1024;
/// Bombs: resources whose defaults are far larger than they are.
const BOMBS: &str = "/apis/example.com/v1/namespaces/default/bombs";
/// Widgets, whose status may hold anything.
const WIDGETS: &str = super::world::WIDGETS;

/// Whether a message says how large the object is, and how large it may be.
fn names_size_and_limit(answer: &Value) -> bool {
    let message = answer["message"].as_str().unwrap_or_default();
    let Some((start, end)) = message.split_once(" bytes; the limit is ") else {
        return false;
    };
    let size = start
        .rsplit(' ')
        .next()
        .and_then(|size| size.parse::<usize>().ok());
    start.starts_with("Request entity too large: the encoded object, with its defaults, has ")
        && (size.is_some_and(|size| size > LIMIT) || start.ends_with("more than 1572864"))
        && end == "1572864 bytes"
}

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// A definition with defaults of 100,000 bytes for each item of a list, each value of a map, and each field of an object.
fn bombs() -> CustomResourceDefinition {
    let field = json!({"type": "string", "default": text(100_000)});
    let item = json!({"type": "object", "properties": {"a": field}});
    let nested = json!({"type": "object", "default": {}, "properties": {
        "list": {"type": "array", "default": vec![json!({}); 50], "items": item},
    }});
    let spec = json!({"type": "object", "properties": {
        "list": {"type": "array", "items": item},
        "map": {"type": "object", "additionalProperties": item},
        "nulls": {"type": "array", "items": item},
        "nested": {"type": "array", "items": {"type": "object", "properties": {"inner": nested}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    serde_json::from_value(json!({
        "metadata": {"name": "bombs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Bomb", "plural": "bombs"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    }))
    .unwrap()
}

fn bomb(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Bomb", "metadata": {"name": "b"}, "spec": spec})
}

async fn world() -> World {
    let registry = registry().with_crds(&[bombs()]);
    let world = World::around(
        apiserver::builder(MemoryStore::new())
            .registry(registry)
            .build(),
    );
    world
        .create("/api/v1/namespaces", named_map("default"))
        .await;
    world.create(PODS, pod("there")).await;
    world.create(WIDGETS, widget("there", 1)).await;
    let mut stored = bomb(json!({"free": {"a": text(1_000_000)}}));
    stored["metadata"]["name"] = json!("there");
    world.create(BOMBS, stored).await;
    world
}

fn many(value: Value) -> Value {
    json!(vec![value; 100_000])
}

#[tokio::test]
async fn too_large_object_is_refused_by_every_write() {
    let world = world().await;
    let containers: Vec<_> = (0..45_000)
        .map(|n| json!({"name": format!("c{n:x}"), "image": "b"}))
        .collect();
    let mut large_pod = pod("large");
    large_pod["metadata"]["annotations"] = json!({});
    large_pod["spec"]["containers"] = json!(containers);
    let map: serde_json::Map<_, _> = (0..100_000).map(|n| (format!("k{n}"), json!({}))).collect();
    let mut large_status = widget("there", 1);
    large_status["metadata"] = world.get(&format!("{WIDGETS}/there")).await["metadata"].clone();
    large_status["status"] = json!({"a": text(LIMIT)});
    let grown = bomb(json!({"free": {"b": text(600_000)}}));
    let mut applied = bomb(json!({"free": {"c": text(2_000_000)}}));
    applied["metadata"]["name"] = json!("applied");
    let mut replaced = bomb(json!({"free": {"a": text(2_000_000)}}));
    replaced["metadata"] = world.get(&format!("{BOMBS}/there")).await["metadata"].clone();
    let copies: Vec<_> = (0..2)
        .map(|n| json!({"op": "copy", "from": "/spec/free/a", "path": format!("/spec/free/c{n}")}))
        .collect();
    let rows = [
        (format!("POST {PODS}"), large_pod),
        (
            format!("POST {BOMBS}"),
            bomb(json!({"list": many(json!({}))})),
        ),
        (format!("POST {BOMBS}"), bomb(json!({"map": map}))),
        (
            format!("POST {BOMBS}"),
            bomb(json!({"nulls": many(json!({"a": null}))})),
        ),
        (
            format!("POST {BOMBS}"),
            bomb(json!({"nested": many(json!({}))})),
        ),
        (
            format!("POST {BOMBS}"),
            bomb(json!({"free": {"a": text(LIMIT)}})),
        ),
        (
            format!("POST {BOMBS}?dryRun=All"),
            bomb(json!({"free": {"a": text(LIMIT)}})),
        ),
        (format!("PUT {BOMBS}/there"), replaced),
        (
            format!("MERGE {BOMBS}/there"),
            json!({"spec": grown["spec"]}),
        ),
        (
            format!("MERGE {BOMBS}/there?dryRun=All"),
            json!({"spec": grown["spec"]}),
        ),
        (
            format!("MERGE {BOMBS}/there"),
            json!({"spec": {"list": many(json!({}))}}),
        ),
        (format!("JSON {BOMBS}/there"), json!(copies)),
        (format!("APPLY {BOMBS}/applied?fieldManager=a"), applied),
        (format!("APPLY {BOMBS}/there?fieldManager=a&force=true"), {
            let mut grown = grown.clone();
            grown["metadata"]["name"] = json!("there");
            grown
        }),
        (format!("PUT {WIDGETS}/there/status"), large_status.clone()),
        (
            format!("MERGE {WIDGETS}/there/status"),
            json!({"status": large_status["status"]}),
        ),
        (
            format!("STRATEGIC {PODS}/there"),
            json!({"metadata": {"labels": {"a": "b"}}, "status": {"message": ""}}),
        ),
    ];
    let (last, rows) = rows.split_last().unwrap();
    let before = [
        world.get(&format!("{BOMBS}/there")).await,
        world.get(&format!("{WIDGETS}/there")).await,
    ];
    for (request, body) in rows {
        assert!(body.to_string().len() < 3 << 20, "{request}");
        let begun = Instant::now();
        let answer = world.send(request, body.clone()).await;
        let took = begun.elapsed();
        assert!(
            answer.code == 413
                && answer.body["reason"] == "RequestEntityTooLarge"
                && names_size_and_limit(&answer.body)
                || request.contains(PODS) && answer.code == 422,
            "{request}: {} {:.300}",
            answer.code,
            answer.body.to_string()
        );
        // hours and gigabytes, if defaults were filled in before they are counted
        assert!(took < Duration::from_secs(120), "{request}: {took:?}");
    }
    let after = [
        world.get(&format!("{BOMBS}/there")).await,
        world.get(&format!("{WIDGETS}/there")).await,
    ];
    assert_eq!(before, after);
    // an ordinary write is stored
    world.expect(&last.0, last.1.clone(), 200, json!({})).await;
}

#[tokio::test]
async fn object_just_below_the_limit_is_stored_and_deleted() {
    let world = world().await;
    let mut large = bomb(json!({"free": {"a": ""}}));
    large["metadata"]["name"] = json!("fits");
    large["metadata"]["finalizers"] = json!(["example.com/wait"]);
    let stored = world.create(BOMBS, large.clone()).await;
    let room = LIMIT - stored.to_string().len() - 20;
    world
        .expect(&format!("DELETE {BOMBS}/fits"), json!({}), 200, json!({}))
        .await;
    world
        .expect(
            &format!("MERGE {BOMBS}/fits"),
            json!({"metadata": {"finalizers": null}}),
            200,
            json!({}),
        )
        .await;
    large["spec"]["free"]["a"] = json!(text(room));
    world.create(BOMBS, large).await;
    // the time of the deletion needs more than is left
    world
        .expect(&format!("DELETE {BOMBS}/fits"), json!({}), 200, json!({}))
        .await;
    let deleting = world.get(&format!("{BOMBS}/fits")).await;
    assert!(
        deleting.to_string().len() > LIMIT,
        "{}",
        deleting.to_string().len()
    );
    world
        .expect(
            &format!("MERGE {BOMBS}/fits"),
            json!({"metadata": {"finalizers": null}}),
            200,
            json!({}),
        )
        .await;
    assert_eq!(
        world
            .send(&format!("GET {BOMBS}/fits"), Value::Null)
            .await
            .code,
        404
    );
    let data = json!({"metadata": {"name": "max"}, "data": {"a": text(1024 * 1024)}});
    world.create(MAPS, data).await;
}

/// Rows: a request, and its body.
type Rows = Vec<(String, Value)>;

/// Every write of `large`, where an object called `there` of the collection at `path` exists; `part` is what makes it large.
fn writes(path: &str, mut large: Value, mut there: Value, part: &str) -> Rows {
    there[part] = large[part].clone();
    let patch = json!({part: large[part]});
    let operation = json!([{"op": "add", "path": format!("/{part}"), "value": large[part]}]);
    large["metadata"]["name"] = json!("new");
    let mut applied =
        json!({"apiVersion": there["apiVersion"], "kind": there["kind"], part: large[part]});
    applied["metadata"] = json!({"name": "there"});
    let mut created = applied.clone();
    created["metadata"] = json!({"name": "new"});
    vec![
        (format!("POST {path}"), large.clone()),
        (format!("POST {path}?dryRun=All"), large),
        (format!("PUT {path}/there"), there),
        (format!("MERGE {path}/there"), patch.clone()),
        (format!("STRATEGIC {path}/there"), patch),
        (format!("JSON {path}/there"), operation),
        (
            format!("APPLY {path}/there?fieldManager=a&force=true"),
            applied,
        ),
        (format!("APPLY {path}/new?fieldManager=a"), created),
    ]
}

#[tokio::test]
async fn too_much_data_is_invalid_at_every_write_whether_it_could_be_stored_or_not() {
    let world = world().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    for (path, fields, field) in [
        (MAPS, ["data", "binaryData"], ""),
        (secrets, ["data", "data"], "data"),
    ] {
        let there = world.create(path, named_map("there")).await;
        for part in fields {
            // the first could be stored
            for (bytes, most) in [(1024 * 1024 + 4, 1), (2 * 1024 * 1024, usize::MAX)] {
                let value = text(if part == "data" && path == MAPS {
                    bytes
                } else {
                    bytes / 3 * 4
                });
                let large = json!({"metadata": {}, part: {"a": value}});
                for (request, body) in writes(path, large, there.clone(), part)
                    .into_iter()
                    .take(most)
                {
                    let answer = world.send(&request, body).await;
                    let shown = format!(
                        "{request}: {} {:.300}",
                        answer.code,
                        answer.body.to_string()
                    );
                    assert_eq!(answer.code, 422, "{shown}");
                    let causes = json!([{
                        "reason": "FieldValueTooLong", "field": field,
                        "message": "Too long: may not be more than 1048576 bytes",
                    }]);
                    assert_eq!(answer.body["details"]["causes"], causes, "{shown}");
                }
            }
        }
    }
}

#[tokio::test]
async fn more_items_than_allowed_are_invalid_before_anything_is_done_for_each_of_them() {
    let world = world().await;
    let there = world.get(&format!("{PODS}/there")).await;
    let named_items = |count: usize| -> Value {
        (0..count)
            .map(|n| json!({"name": format!("c{n:x}")}))
            .collect()
    };
    let spec = |field: &str, count: usize| {
        let mut spec = there["spec"].clone();
        spec[field] = named_items(count);
        json!({"metadata": {"name": "x"}, "spec": spec})
    };
    let service = json!({"metadata": {"name": "x"}, "spec": {"ports": (0..5_000).map(|n| json!({"port": n})).collect::<Value>()}});
    let slice = json!({
        "metadata": {"name": "x"}, "addressType": "IPv4",
        "endpoints": vec![json!({"addresses": ["10.0.0.1"]}); 5_000],
    });
    let job = |pod: Value| json!({"metadata": {"name": "x"}, "spec": {"template": {"spec": pod["spec"]}}});
    let mut rows: Rows = vec![
        ("POST /api/v1/namespaces/default/services".into(), service),
        (
            "POST /apis/discovery.k8s.io/v1/namespaces/default/endpointslices".into(),
            slice,
        ),
        (
            "POST /apis/batch/v1/namespaces/default/jobs".into(),
            job(spec("containers", 5_000)),
        ),
        (
            format!("STRATEGIC {PODS}/there/ephemeralcontainers"),
            json!({"spec": {"ephemeralContainers": named_items(5_000)}}),
        ),
    ];
    for (field, count) in [
        ("containers", 5_000),
        ("initContainers", 5_000),
        ("volumes", 5_000),
    ] {
        rows.extend(writes(PODS, spec(field, count), there.clone(), "spec"));
    }
    for (request, body) in rows {
        let answer = world.send(&request, body).await;
        let causes = &answer.body["details"]["causes"];
        assert_eq!(
            answer.code,
            422,
            "{request}: {:.300}",
            answer.body.to_string()
        );
        assert_eq!(
            causes[0]["reason"], "FieldValueTooMany",
            "{request}: {causes:.300}"
        );
    }
}
