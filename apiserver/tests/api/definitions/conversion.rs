//! Conversion webhooks of definitions, answered by the test: `v1` has `spec.address`, `v2` has `spec.host` and `spec.port`.

use std::sync::Arc;

use apiserver::{WebhookCall, WebhookTransport};
use async_trait::async_trait;
use bytes::Bytes;
use objectstore::MemoryStore;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::CRDS;
use crate::world::{World, named_map, refusal};

const V1: &str = "/apis/example.org/v1/namespaces/default/routes";
const V2: &str = "/apis/example.org/v2/namespaces/default/routes";
const V3: &str = "/apis/example.org/v3/namespaces/default/routes";

/// Changes the answer of the webhook.
type Change = fn(&mut Value);

/// Converts routes, and notes the wanted version and number of objects of each review.
#[derive(Debug, Default)]
struct Converter {
    asked: Mutex<Vec<(String, usize)>>,
    /// The versions of the reviews.
    versions: Mutex<Vec<Value>>,
    change: Mutex<Option<Change>>,
    fails: Mutex<Option<&'static str>>,
}

#[async_trait]
impl WebhookTransport for Converter {
    async fn call(&self, call: WebhookCall) -> Result<Bytes, String> {
        assert_eq!(
            call.url.as_str(),
            "https://convert.example.org/?timeout=30s"
        );
        if let Some(why) = *self.fails.lock() {
            return Err(why.to_owned());
        }
        let review: Value = serde_json::from_slice(&call.body).unwrap();
        self.versions.lock().push(review["apiVersion"].clone());
        assert_eq!(review["kind"], "ConversionReview");
        let request = &review["request"];
        let wanted = request["desiredAPIVersion"].as_str().unwrap();
        let objects = request["objects"].as_array().unwrap();
        self.asked.lock().push((wanted.to_owned(), objects.len()));
        let converted: Vec<_> = objects
            .iter()
            .map(|object| route_in(object, wanted))
            .collect();
        let mut answer = json!({
            "apiVersion": review["apiVersion"], "kind": "ConversionReview",
            "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted},
        });
        if let Some(change) = *self.change.lock() {
            change(&mut answer);
        }
        Ok(Bytes::from(answer.to_string()))
    }
}

impl Converter {
    fn take_asked(&self) -> Vec<(String, usize)> {
        std::mem::take(&mut *self.asked.lock())
    }
}

fn route_in(object: &Value, api_version: &str) -> Value {
    let spec = &object["spec"];
    let (host, port) = match spec["address"].as_str() {
        Some(address) => {
            let (host, port) = address.split_once(':').unwrap_or((address, ""));
            (host.to_owned(), port.parse::<i64>().ok())
        }
        None => (
            spec["host"].as_str().unwrap_or_default().to_owned(),
            spec["port"].as_i64(),
        ),
    };
    let mut converted = object.clone();
    converted["apiVersion"] = json!(api_version);
    let mut spec = json!({});
    if api_version.ends_with("v1") {
        let port = port.map_or(String::new(), |port| format!(":{port}"));
        spec["address"] = json!(format!("{host}{port}"));
    } else {
        spec["host"] = json!(host);
        spec["port"] = json!(port);
    }
    if let Some(note) = object["spec"].get("note") {
        spec["note"] = note.clone();
    }
    converted["spec"] = spec;
    // who converts has no say in these
    converted["metadata"]["generation"] = json!(99);
    converted["metadata"]["finalizers"] = json!(["example.org/x"]);
    converted
}

fn routes() -> Value {
    let version = |name: &str, storage: bool, fields: Value| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}}})
    };
    let text = json!({"type": "string"});
    let parts = json!({"host": text, "port": {"type": "integer", "nullable": true}, "note": text});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "routes.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"kind": "Route", "plural": "routes"},
            "versions": [
                version("v1", true, json!({"address": text, "note": text})),
                version("v2", false, parts.clone()),
                version("v3", false, parts),
            ],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://convert.example.org"}, "conversionReviewVersions": ["v1"]}},
        },
    })
}

async fn with_routes() -> (World, Arc<Converter>) {
    let converter = Arc::new(Converter::default());
    let webhooks: Arc<dyn WebhookTransport> = Arc::<Converter>::clone(&converter);
    let api = apiserver::builder(MemoryStore::new())
        .webhooks(webhooks)
        .build();
    let world = World::around(api);
    world
        .create("/api/v1/namespaces", named_map("default"))
        .await;
    world.create(CRDS, routes()).await;
    (world, converter)
}

fn route(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("example.org/{version}"), "kind": "Route", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn objects_are_converted_when_they_are_read_and_written() {
    let (world, converter) = with_routes().await;
    let parts = |host: &str, port: u16| json!({"host": host, "port": port});
    world
        .expect_all(vec![
            (&format!("POST {V2}"), route("v2", "a", parts("h", 1)), 201, route("v2", "a", parts("h", 1))),
            (&format!("GET {V1}/a"), Value::Null, 200, json!({"spec": {"address": "h:1"}, "metadata": {"generation": 1, "finalizers": null}})),
            (&format!("GET {V3}/a"), Value::Null, 200, route("v3", "a", parts("h", 1))),
            (&format!("MERGE {V2}/a"), json!({"spec": {"port": 2}}), 200, json!({"spec": {"port": 2}, "metadata": {"generation": 2}})),
            (&format!("JSON {V1}/a"), json!([{"op": "test", "path": "/spec/address", "value": "h:2"}]), 200, json!({})),
            (&format!("POST {V1}"), route("v1", "b", json!({"address": "k:3"})), 201, json!({})),
        ])
        .await;
    converter.take_asked();
    let both = json!({"apiVersion": "example.org/v2", "items": [route("v2", "a", parts("h", 2)), route("v2", "b", parts("k", 3))]});
    world
        .expect(&format!("GET {V2}"), Value::Null, 200, both)
        .await;
    assert_eq!(converter.take_asked(), [("example.org/v2".to_owned(), 2)]);
    world.get(V1).await;
    assert_eq!(
        converter.take_asked(),
        [],
        "they are stored in this version"
    );

    let mut watch = world
        .watch(&format!("{V2}?watch=1&resourceVersion=0"))
        .await;
    for (name, port) in [("a", 2), ("b", 3)] {
        let line = watch.next().await.unwrap();
        assert_eq!(line["object"]["metadata"]["name"], name);
        assert_eq!(line["object"]["spec"]["port"], port);
    }
    world
        .expect(
            &format!("MERGE {V1}/b"),
            json!({"spec": {"address": "k:4"}}),
            200,
            json!({}),
        )
        .await;
    let line = watch.next().await.unwrap();
    assert_eq!(
        (&line["type"], &line["object"]["spec"]["port"]),
        (&json!("MODIFIED"), &json!(4))
    );
    world
        .expect(&format!("DELETE {V2}/b"), Value::Null, 200, json!({}))
        .await;
    let line = watch.next().await.unwrap();
    assert_eq!(
        (&line["type"], &line["object"]["apiVersion"]),
        (&json!("DELETED"), &json!("example.org/v2"))
    );
    *converter.fails.lock() = Some("gone");
    world
        .create(V1, route("v1", "c", json!({"address": "h:5"})))
        .await;
    let line = watch.next().await.unwrap();
    assert_eq!(
        (&line["type"], &line["object"]["code"]),
        (&json!("ERROR"), &json!(500))
    );
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn large_lists_are_converted_in_parts() {
    let (world, converter) = with_routes().await;
    let note = "x".repeat(900_000);
    for name in ["a", "b", "c"] {
        let spec = json!({"address": "h:1", "note": note});
        world.create(V1, route("v1", name, spec)).await;
    }
    world.get(V2).await;
    let counts: Vec<_> = converter
        .take_asked()
        .into_iter()
        .map(|(_, count)| count)
        .collect();
    assert_eq!(counts, [2, 1]);
}

#[tokio::test]
async fn answers_that_are_no_conversion_are_refused() {
    let (world, converter) = with_routes().await;
    world
        .create(V1, route("v1", "a", json!({"address": "h:1"})))
        .await;
    let rows: [(Change, &str); 14] = [
        (
            |answer| {
                answer["response"]["result"] =
                    json!({"status": "Failed", "message": "no such host"})
            },
            "failed: no such host",
        ),
        (
            |answer| answer["response"]["result"] = json!({"status": "Failed"}),
            "failed: response.result.status was 'Failed', not 'Success'",
        ),
        (
            |answer| answer["response"]["result"] = json!({}),
            "failed: response.result.status was '', not 'Success'",
        ),
        (
            |answer| answer["response"] = Value::Null,
            "failed: no response provided",
        ),
        (
            |answer| answer["apiVersion"] = json!("apiextensions.k8s.io/v1beta1"),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1beta1, Kind=ConversionReview",
        ),
        (
            |answer| answer["response"]["convertedObjects"] = json!([]),
            "returned 0 objects, expected 1",
        ),
        (
            |answer| {
                answer["response"]["convertedObjects"][0]["apiVersion"] = json!("example.org/v1")
            },
            "returned invalid object at index 0: invalid groupVersion (expected example.org/v2, received example.org/v1)",
        ),
        (
            |answer| answer["response"]["convertedObjects"][0]["kind"] = json!("Way"),
            "returned invalid object at index 0: invalid kind (expected Route, received Way)",
        ),
        (
            |answer| answer["response"]["convertedObjects"][0]["metadata"]["name"] = json!("b"),
            "returned invalid object: must have the same name: a != b",
        ),
        (
            |answer| {
                answer["response"]["convertedObjects"][0]["metadata"]["namespace"] = json!("other")
            },
            "returned invalid object: must have the same namespace: default != other",
        ),
        (
            |answer| answer["response"]["convertedObjects"][0]["metadata"]["labels"] = json!(["a"]),
            "returned invalid metadata: invalid metadata.labels of type []interface {} in converted object",
        ),
        (
            |answer| {
                answer["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"a": 1})
            },
            "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (
            |answer| {
                answer["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"a": "-"})
            },
            "returned invalid metadata: metadata.labels: Invalid value: \"-\": a valid label must be an empty string or consist of \
             alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
             'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
        (
            |answer| answer["response"]["convertedObjects"][0] = json!(1),
            "returned invalid object at index 0: not an object",
        ),
    ];
    for (change, why) in rows {
        *converter.change.lock() = Some(change);
        let message = format!("conversion webhook for example.org/v1, Kind=Route {why}");
        let answer = world
            .expect(
                &format!("GET {V2}/a"),
                Value::Null,
                500,
                json!({"message": message}),
            )
            .await;
        assert_eq!(
            answer
                .get("reason")
                .and_then(Value::as_str)
                .unwrap_or_default(),
            ""
        );
    }
    *converter.change.lock() = Some(|answer| {
        answer["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"new": "x"});
        answer["response"]["convertedObjects"][0]["spec"]["unknown"] = json!("x");
    });
    let seen = json!({"metadata": {"labels": {"new": "x"}}, "spec": {"unknown": null}});
    world
        .expect(&format!("GET {V2}/a"), Value::Null, 200, seen)
        .await;
    *converter.fails.lock() =
        Some("Post \"https://convert.example.org/?timeout=30s\": context deadline exceeded");
    let why = "conversion webhook for example.org/v2, Kind=Route failed: Post \"https://convert.example.org/?timeout=30s\": context deadline exceeded";
    world
        .expect(
            &format!("POST {V2}"),
            route("v2", "b", json!({"host": "h"})),
            500,
            json!({"message": why}),
        )
        .await;
    world
        .expect(&format!("GET {V1}/b"), Value::Null, 404, json!({}))
        .await;
}

#[tokio::test]
async fn a_definition_must_accept_the_reviews_that_are_sent() {
    let (world, converter) = with_routes().await;
    let path = format!("{CRDS}/routes.example.org");
    let versions = |list: Value| json!({"spec": {"conversion": {"webhook": {"conversionReviewVersions": list}}}});
    let why = "CustomResourceDefinition.apiextensions.k8s.io \"routes.example.org\" is invalid: \
               spec.conversion.conversionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1";
    world
        .expect_all(vec![(
            &format!("MERGE {path}"),
            versions(json!(["v2"])),
            422,
            refusal("Invalid", why),
        )])
        .await;
    world
        .create(V2, route("v2", "a", json!({"host": "h", "port": 1})))
        .await;
    // the first version that is known
    for (known, sent) in [
        (json!(["v2", "v1beta1", "v1"]), "v1beta1"),
        (json!(["v1", "v1beta1"]), "v1"),
        (json!(["v1beta1"]), "v1beta1"),
    ] {
        world
            .expect(&format!("MERGE {path}"), versions(known), 200, json!({}))
            .await;
        converter.versions.lock().clear();
        let seen = json!({"spec": {"host": "h", "port": 1}});
        world
            .expect(&format!("GET {V2}/a"), Value::Null, 200, seen)
            .await;
        let asked = converter.versions.lock().clone();
        assert_eq!(asked, [json!(format!("apiextensions.k8s.io/{sent}"))]);
    }
}

fn owners(object: &Value) -> Value {
    let entries = object["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let owner = |entry: &Value| {
        let fields = entry["fieldsV1"]["f:spec"]
            .as_object()
            .map(|spec| spec.keys().cloned().collect::<Vec<_>>());
        json!([entry["manager"], entry["apiVersion"], fields])
    };
    entries.iter().map(owner).collect()
}

#[tokio::test]
async fn fields_keep_their_owners_across_versions() {
    let (world, _) = with_routes().await;
    let apply = |version: &str, spec: Value| route(version, "a", spec);
    let send = async |path: &str, manager: &str, body: Value, code: u16| {
        world
            .expect(
                &format!("APPLY {path}/a?fieldManager={manager}"),
                body,
                code,
                json!({}),
            )
            .await
    };
    send(V2, "two", apply("v2", json!({"host": "h", "port": 1})), 201).await;
    // the same in another version is no conflict
    let object = send(V1, "one", apply("v1", json!({"address": "h:1"})), 200).await;
    assert_eq!(
        owners(&object),
        json!([
            ["one", "example.org/v1", ["f:address"]],
            ["two", "example.org/v2", ["f:host", "f:port"]]
        ])
    );
    let refused = send(V1, "one", apply("v1", json!({"address": "h:2"})), 409).await;
    assert_eq!(
        refused["message"],
        "Apply failed with 1 conflict: conflict with \"two\": .spec.port"
    );
    let refused = send(V3, "three", apply("v3", json!({"host": "k"})), 409).await;
    assert_eq!(
        refused["message"],
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.address\nconflicts with \"two\":\n- .spec.host"
    );
    // an update in v1 takes the port of v2 away from its owner, not the host
    let object = world
        .expect(
            &format!("MERGE {V1}/a?fieldManager=editor"),
            json!({"spec": {"address": "h:3", "note": "n"}}),
            200,
            json!({"spec": {"address": "h:3"}}),
        )
        .await;
    assert_eq!(
        owners(&object),
        json!([
            ["two", "example.org/v2", ["f:host"]],
            ["editor", "example.org/v1", ["f:address", "f:note"]]
        ])
    );
    // what was applied in one version is removed by an apply in another
    send(V2, "noter", apply("v2", json!({"note": "n"})), 200).await;
    world
        .expect(
            &format!("MERGE {V1}/a?fieldManager=editor"),
            json!({"metadata": {"managedFields": [{}]}}),
            200,
            json!({}),
        )
        .await;
    send(
        V2,
        "noter",
        apply("v2", json!({"note": "n", "host": "h"})),
        200,
    )
    .await;
    let object = send(V1, "noter", apply("v1", json!({"address": "h:3"})), 200).await;
    assert_eq!(object["spec"], json!({"address": "h:3"}));
    assert_eq!(
        owners(&object),
        json!([["noter", "example.org/v1", ["f:address"]]])
    );
}

#[tokio::test]
async fn updates_of_the_stored_version_need_no_webhook() {
    let (world, converter) = with_routes().await;
    let spec = json!({"host": "h", "port": 1});
    for name in ["a", "b"] {
        world.create(V2, route("v2", name, spec.clone())).await;
    }
    *converter.change.lock() = Some(|answer| {
        answer["response"]["result"] = json!({"status": "Failure", "message": "away"});
    });
    let away = "conversion webhook for example.org/v1, Kind=Route failed: away";
    let other = json!({"spec": {"address": "h:2"}});
    world
        .expect_all(vec![
            // the owner in v2 counts for an apply
            (
                &format!("APPLY {V1}/a?fieldManager=one&force=true"),
                route("v1", "a", json!({"address": "h:2"})),
                500,
                json!({"message": away}),
            ),
            (
                &format!("MERGE {V1}/a"),
                other.clone(),
                200,
                json!({"spec": {"address": "h:2"}}),
            ),
            (
                &format!("MERGE {V2}/b"),
                other.clone(),
                500,
                json!({"message": away}),
            ),
        ])
        .await;
    let object = world.get(&format!("{V1}/a")).await;
    assert_eq!(owners(&object), json!([]));
    *converter.change.lock() = None;
    let object = world
        .expect(&format!("MERGE {V1}/b"), other, 200, json!({}))
        .await;
    assert_ne!(owners(&object), json!([]));
}
