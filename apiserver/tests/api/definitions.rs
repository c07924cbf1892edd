//! CustomResourceDefinitions that users apply.

use serde_json::{Value, json};

use super::world::{WIDGETS, World, named_map, names, refusal, version};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CARS: &str = "/apis/example.org/v1/namespaces/default/cars";

fn cars() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["wheels"], "properties": {
            "wheels": {"type": "integer", "minimum": 3},
            "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "engine": {"type": "object", "default": {}, "properties": {"fuel": {"type": "string", "default": "none"}}},
        }},
        "status": {"type": "object", "properties": {"wheels": {"type": "integer"}, "selector": {"type": "string"}}},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cars.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"kind": "Car", "plural": "cars", "shortNames": ["cr"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.wheels", "statusReplicasPath": ".status.wheels", "labelSelectorPath": ".status.selector",
                }},
                "additionalPrinterColumns": [{"name": "Wheels", "type": "integer", "jsonPath": ".spec.wheels"}],
            }],
        },
    })
}

fn car(name: &str, wheels: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {"wheels": wheels}})
}

#[tokio::test]
async fn a_definition_is_served_from_its_write_on() {
    let world = World::new().await;
    world
        .expect(&format!("GET {CARS}"), Value::Null, 404, json!({}))
        .await;
    let begun = json!({"status": {"storedVersions": ["v1"]}, "spec": {"names": {"listKind": "CarList", "singular": "car"}}});
    world
        .expect(&format!("POST {CRDS}"), cars(), 201, begun)
        .await;
    let accepted = json!({"status": {
        "acceptedNames": {"kind": "Car", "plural": "cars", "listKind": "CarList", "singular": "car", "shortNames": ["cr"], "categories": ["all"]},
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted"},
        ],
    }});
    world
        .expect(
            &format!("GET {CRDS}/cars.example.org"),
            Value::Null,
            200,
            accepted,
        )
        .await;
    let full = json!({"kind": "Car", "apiVersion": "example.org/v1", "spec": {"color": "red", "engine": {"fuel": "none"}}});
    world
        .expect(&format!("POST {CARS}"), car("a", 4), 201, full)
        .await;
    let resources = world.get("/apis/example.org/v1").await;
    let listed: Vec<_> = resources["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(listed, ["cars", "cars/scale", "cars/status"]);
    let groups = world.get("/apis").await;
    assert!(
        groups["groups"]
            .as_array()
            .unwrap()
            .iter()
            .any(|group| group["name"] == "example.org")
    );
    let document = world.get("/openapi/v3/apis/example.org/v1").await;
    assert!(document["components"]["schemas"]["org.example.v1.Car"].is_object());
    let table = world
        .send(
            &format!("GET {CARS} accept:application/json;as=Table;v=v1;g=meta.k8s.io"),
            Value::Null,
        )
        .await;
    assert_eq!(table.body["columnDefinitions"][1]["name"], "Wheels");
    assert_eq!(table.body["rows"][0]["cells"], json!(["a", 4]));
}

#[tokio::test]
async fn objects_are_held_against_their_definition() {
    let world = World::new().await;
    world.create(CRDS, cars()).await;
    let post = format!("POST {CARS}");
    let invalid = |causes: &str| {
        refusal(
            "Invalid",
            &format!("Car.example.org \"a\" is invalid: {causes}"),
        )
    };
    let with = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
    let unknown = "Car in version \"v1\" cannot be handled as a Car: strict decoding error: unknown field \"spec.seats\"";
    world
        .expect_all(vec![
            (&post, with(json!({})), 422, invalid("spec.wheels: Required value")),
            (&post, with(json!({"wheels": null})), 422, invalid("spec.wheels: Required value")),
            (
                &post,
                with(json!({"wheels": "4"})),
                422,
                invalid("spec.wheels: Invalid value: \"string\": spec.wheels in body must be of type integer: \"string\""),
            ),
            (
                &post,
                with(json!({"wheels": 2, "color": "blue"})),
                422,
                invalid(
                    "[spec.wheels: Invalid value: 2: spec.wheels in body should be greater than or equal to 3, \
                     spec.color: Unsupported value: \"blue\": supported values: \"red\", \"green\"]",
                ),
            ),
            (
                &format!("{post}?fieldValidation=Strict"),
                with(json!({"wheels": 4, "seats": 5})),
                400,
                refusal("BadRequest", unknown),
            ),
            (&post, with(json!({"wheels": 4, "seats": 5})), 201, json!({"spec": {"seats": null}})),
            (&format!("MERGE {CARS}/a"), json!({"spec": {"wheels": 1}}), 422, json!({"reason": "Invalid"})),
            (&format!("MERGE {CARS}/a"), json!({"spec": {"color": null}}), 200, json!({"spec": {"color": "red"}})),
            (&format!("PUT {CARS}/a"), with(json!({"wheels": 4})), 422, json!({"reason": "Invalid"})),
        ])
        .await;
}

#[tokio::test]
async fn defined_kinds_scale() {
    let world = World::new().await;
    world.create(CRDS, cars()).await;
    world.create(CARS, car("a", 4)).await;
    let status = json!({"status": {"wheels": 2, "selector": "app=car"}});
    let shown = json!({"spec": {"replicas": 4}, "status": {"replicas": 2, "selector": "app=car"}});
    world
        .expect_all(vec![
            (&format!("MERGE {CARS}/a/status"), status, 200, json!({})),
            (&format!("GET {CARS}/a/scale"), Value::Null, 200, shown),
            (
                &format!("MERGE {CARS}/a/scale"),
                json!({"spec": {"replicas": 6}}),
                200,
                json!({"spec": {"replicas": 6}}),
            ),
            (
                &format!("GET {CARS}/a"),
                Value::Null,
                200,
                json!({"spec": {"wheels": 6}, "metadata": {"generation": 2}}),
            ),
            (
                &format!("MERGE {CARS}/a/scale"),
                json!({"spec": {"replicas": 3}}),
                200,
                json!({"spec": {"replicas": 3}}),
            ),
            // a scale is held against the schema of what it is of
            (
                &format!("MERGE {CARS}/a/scale"),
                json!({"spec": {"replicas": 1}}),
                422,
                json!({"reason": "Invalid"}),
            ),
        ])
        .await;
}

#[tokio::test]
async fn bad_definitions_are_refused() {
    let world = World::new().await;
    let changed = |change: fn(&mut Value)| {
        let mut definition = cars();
        change(&mut definition);
        definition
    };
    let post = format!("POST {CRDS}");
    let message = |causes: &str| {
        let prefix =
            "CustomResourceDefinition.apiextensions.k8s.io \"cars.example.org\" is invalid: ";
        refusal("Invalid", &format!("{prefix}{causes}"))
    };
    let immutable = "spec.scope: Invalid value: \"Cluster\": field is immutable";
    world
        .expect_all(vec![
            (
                &post,
                changed(|definition| definition["spec"]["scope"] = json!("Everywhere")),
                422,
                message("spec.scope: Unsupported value: \"Everywhere\": supported values: \"Cluster\", \"Namespaced\""),
            ),
            (
                &post,
                changed(|definition| definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] = json!("string")),
                422,
                message(
                    "[spec.validation.openAPIV3Schema.type: Invalid value: \"string\": only \"object\" is allowed as the type at the root of \
                     the schema if the status subresource is enabled, spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be \
                     object at the root]",
                ),
            ),
            (&post, cars(), 201, json!({})),
            (&post, cars(), 409, json!({"reason": "AlreadyExists"})),
            (&format!("MERGE {CRDS}/cars.example.org"), json!({"spec": {"scope": "Cluster"}}), 422, message(immutable)),
        ])
        .await;
}

#[tokio::test]
async fn rules_are_enforced() {
    let world = World::new().await;
    let mut definition = cars();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self.wheels > 3"}]);
    let answer = world.send(&format!("POST {CRDS}"), definition).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    assert!(!answer.headers.contains_key("warning"));
    let why = "Car.example.org \"a\" is invalid: spec: Invalid value: \"object\": failed rule: self.wheels > 3";
    world
        .expect(
            &format!("POST {CARS}"),
            car("a", 3),
            422,
            json!({"message": why, "reason": "Invalid"}),
        )
        .await;
    world.create(CARS, car("a", 4)).await;
    let change = json!({"spec": {"wheels": 3}});
    world
        .expect(
            &format!("MERGE {CARS}/a"),
            change,
            422,
            json!({"message": why}),
        )
        .await;
}

#[tokio::test]
async fn what_was_stored_before_a_default_is_answered_with_it() {
    let world = World::new().await;
    let mut definition = cars();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let defaults = definition.pointer(spec).unwrap().clone();
    *definition.pointer_mut(spec).unwrap() = json!({"wheels": defaults["wheels"],
        "color": {"type": "string"}, "engine": {"type": "object", "properties": {"fuel": {"type": "string"}}}});
    world.create(CRDS, definition).await;
    let stored = world.create(CARS, car("a", 4)).await;
    assert_eq!(stored["spec"], json!({"wheels": 4}));
    let mut definition = world.get(&format!("{CRDS}/cars.example.org")).await;
    *definition.pointer_mut(spec).unwrap() = defaults;
    world
        .expect(
            &format!("PUT {CRDS}/cars.example.org"),
            definition,
            200,
            json!({}),
        )
        .await;
    let full = json!({"wheels": 4, "color": "red", "engine": {"fuel": "none"}});
    assert_eq!(world.get(&format!("{CARS}/a")).await["spec"], full);
    assert_eq!(world.get(CARS).await["items"][0]["spec"], full);
    let mut watch = world
        .watch(&format!("{CARS}?watch=1&resourceVersion=0"))
        .await;
    let seen = watch.next().await.unwrap();
    assert_eq!(
        (&seen["object"]["spec"], version(&seen["object"])),
        (&full, version(&stored)),
        "nothing was written"
    );
    let labelled = json!({"spec": full, "metadata": {"labels": {"a": "b"}}});
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world
        .expect(&format!("MERGE {CARS}/a"), label, 200, labelled)
        .await;
}

#[tokio::test]
async fn names_go_to_who_came_first() {
    let world = World::new().await;
    let second = json!({
        "metadata": {"name": "wagons.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"kind": "Car", "plural": "wagons"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    world.create(CRDS, cars()).await;
    world.create(CRDS, second).await;
    let path = format!("{CRDS}/wagons.example.org");
    let refused = json!({"status": {"conditions": [
        {"type": "NamesAccepted", "status": "False", "reason": "ListKindConflict"}, {"type": "Established", "status": "False", "reason": "NotAccepted"},
    ]}});
    world
        .expect(&format!("GET {path}"), Value::Null, 200, refused)
        .await;
    let wagons = "/apis/example.org/v1/namespaces/default/wagons";
    world
        .expect(&format!("GET {wagons}"), Value::Null, 404, json!({}))
        .await;
    // when the first one goes, the name is free
    world
        .expect(
            &format!("DELETE {CRDS}/cars.example.org"),
            Value::Null,
            200,
            json!({}),
        )
        .await;
    assert_eq!(names(&world.get(wagons).await), [""; 0]);
}

#[tokio::test]
async fn a_definition_goes_with_its_objects() {
    let world = World::new().await;
    world.create(CRDS, cars()).await;
    world.create(CARS, car("a", 4)).await;
    let mut held = car("held", 4);
    held["metadata"]["finalizers"] = json!(["x/y"]);
    world.create(CARS, held).await;
    let mut watch = world
        .watch(&format!("{CARS}?watch=1&resourceVersion=0"))
        .await;
    assert_eq!(watch.ready(), ["ADDED a", "ADDED held"]);
    let path = format!("{CRDS}/cars.example.org");
    let begun = json!({"metadata": {"finalizers": ["customresourcecleanup.apiextensions.k8s.io"]}});
    let terminating =
        json!({"status": {"conditions": [{}, {}, {"type": "Terminating", "status": "True"}]}});
    let no_more = "create not allowed while custom resource definition is terminating";
    world
        .expect_all(vec![
            (&format!("DELETE {path}"), Value::Null, 200, begun),
            (&format!("GET {path}"), Value::Null, 200, terminating),
            (&format!("GET {CARS}/a"), Value::Null, 404, json!({})),
            (
                &format!("POST {CARS}"),
                car("b", 4),
                405,
                refusal("MethodNotAllowed", no_more),
            ),
            (
                &format!("MERGE {CARS}/held"),
                json!({"metadata": {"finalizers": null}}),
                200,
                json!({}),
            ),
            (
                &format!("GET {path}"),
                Value::Null,
                404,
                json!({"reason": "NotFound"}),
            ),
            (&format!("GET {CARS}"), Value::Null, 404, json!({})),
        ])
        .await;
    // the watch has seen it all, and ends with the kind
    let mut seen = Vec::new();
    while let Some(line) = watch.next().await {
        let name = line["object"]["metadata"]["name"].as_str().unwrap();
        seen.push(format!("{} {name}", line["type"].as_str().unwrap()));
    }
    assert_eq!(seen, ["DELETED a", "MODIFIED held", "DELETED held"]);
    // it can come again, with nothing left of before
    world.create(CRDS, cars()).await;
    assert_eq!(names(&world.get(CARS).await), [""; 0]);
}

#[tokio::test]
async fn versions_share_their_objects() {
    let world = World::new().await;
    let mut definition = cars();
    let mut beta = definition["spec"]["versions"][0].clone();
    beta["name"] = json!("v1beta1");
    beta["storage"] = json!(false);
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(beta);
    world.create(CRDS, definition).await;
    world.create(CARS, car("a", 4)).await;
    let old = CARS.replace("/v1/", "/v1beta1/");
    let in_version =
        |version: &str| json!({"apiVersion": format!("example.org/{version}"), "kind": "Car"});
    let list = json!({"apiVersion": "example.org/v1beta1", "items": [in_version("v1beta1")]});
    world
        .expect_all(vec![
            (&format!("GET {CARS}/a"), Value::Null, 200, in_version("v1")),
            (
                &format!("GET {old}/a"),
                Value::Null,
                200,
                in_version("v1beta1"),
            ),
            (&format!("GET {old}"), Value::Null, 200, list),
            (
                &format!("MERGE {old}/a"),
                json!({"spec": {"wheels": 5}}),
                200,
                in_version("v1beta1"),
            ),
            (&format!("GET {CARS}/a"), Value::Null, 200, in_version("v1")),
        ])
        .await;
    let mut watch = world
        .watch(&format!("{old}?watch=1&resourceVersion=0"))
        .await;
    assert_eq!(
        watch.next().await.unwrap()["object"]["apiVersion"],
        "example.org/v1beta1"
    );
    // a version in which objects may be stored cannot go
    let path = format!("{CRDS}/cars.example.org");
    let mut definition = world.get(&path).await;
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .remove(0);
    definition["spec"]["versions"][0]["storage"] = json!(true);
    let missing = "CustomResourceDefinition.apiextensions.k8s.io \"cars.example.org\" is invalid: \
                   status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version, and must \
                   remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from \
                   status.storedVersions";
    world
        .expect(
            &format!("PUT {path}"),
            definition,
            422,
            refusal("Invalid", missing),
        )
        .await;
}

#[tokio::test]
async fn objects_keep_the_fields_that_the_storage_version_and_the_asked_one_know() {
    let world = World::new().await;
    let mut definition = cars();
    let fields = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    definition.pointer_mut(fields).unwrap()["old"] = json!({"type": "string"});
    let mut beta = definition["spec"]["versions"][0].clone();
    let beta_fields = beta
        .pointer_mut("/schema/openAPIV3Schema/properties/spec/properties")
        .unwrap();
    beta_fields.as_object_mut().unwrap().remove("old");
    beta_fields["new"] = json!({"type": "string"});
    beta["name"] = json!("v2");
    beta["storage"] = json!(false);
    definition["spec"]["versions"]
        .as_array_mut()
        .unwrap()
        .push(beta);
    world.create(CRDS, definition).await;
    let v2 = CARS.replace("/v1/", "/v2/");
    let with = |name: &str, fields: [&str; 2]| {
        let mut car = car(name, 4);
        fields
            .iter()
            .for_each(|field| car["spec"][*field] = json!("x"));
        car
    };
    let seen = |old: Value, new: Value| json!({"spec": {"old": old, "new": new, "wheels": 4}});
    let (x, none) = (json!("x"), Value::Null);
    world
        .expect_all(vec![
            // v1, the storage version, has never heard of `new`
            (
                &format!("POST {CARS}"),
                with("a", ["old", "new"]),
                201,
                seen(x.clone(), none.clone()),
            ),
            (
                &format!("GET {CARS}/a"),
                Value::Null,
                200,
                seen(x.clone(), none.clone()),
            ),
            (
                &format!("GET {v2}/a"),
                Value::Null,
                200,
                seen(none.clone(), none.clone()),
            ),
            // and so it is not stored, although v2 has it
            (
                &format!("POST {v2}"),
                with("b", ["old", "new"]),
                201,
                seen(none.clone(), none.clone()),
            ),
            (
                &format!("GET {v2}/b"),
                Value::Null,
                200,
                seen(none.clone(), none.clone()),
            ),
            (
                &format!("GET {CARS}/b"),
                Value::Null,
                200,
                seen(none.clone(), none.clone()),
            ),
            // an update in the version without it removes it
            (
                &format!("MERGE {v2}/a"),
                json!({"metadata": {"labels": {"a": "b"}}}),
                200,
                json!({}),
            ),
            (
                &format!("GET {CARS}/a"),
                Value::Null,
                200,
                seen(none.clone(), none),
            ),
        ])
        .await;
}

/// A definition with one field of each format, and values of which each is right or wrong.
#[tokio::test]
async fn values_have_the_formats_of_their_definition() {
    let rows = [
        ("bsonobjectid", "507f1f77bcf86cd799439011", "x"),
        ("uri", "https://a.example/b", "a.example"),
        ("hostname", "a.example", "-a"),
        ("hexcolor", "#fff", "#ggg"),
        ("rgbcolor", "rgb(1,2,3)", "rgb(1,2)"),
        ("creditcard", "4111-1111-1111-1111", "4111-1111-1111-1112"),
        ("ssn", "111-11-1111", "1"),
        ("isbn", "0321751043", "1"),
        ("isbn10", "0321751043", "978-0321751041"),
        ("isbn13", "978-0321751041", "0321751043"),
        ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "x"),
        (
            "uuid3",
            "bcd02e22-68f0-3046-a512-327cca9def8f",
            "025b0d74-00a2-4048-bf57-227c5111bb34",
        ),
        ("uuid4", "025b0d74-00a2-4048-bf57-227c5111bb34", "x"),
        ("uuid5", "886313e1-3b8a-5372-9b90-0c9aee199e5d", "x"),
        ("k8s-short-name", "a-b", "A"),
        ("k8s-long-name", "a.b", "a..b"),
        ("email", "a@b.example", "a"),
        ("mac", "01:02:03:04:05:06", "01"),
        ("ipv4", "10.0.0.1", "::1"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("byte", "YQ==", "*"),
        ("date", "2024-02-29", "2023-02-29"),
        ("duration", "2 weeks", "x"),
        ("date-time", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z"),
        ("datetime", "0001-01-01T00:00:00Z", "10000-01-01T00:00:00Z"),
    ];
    let world = World::new().await;
    let fields = rows.map(|(format, ..)| {
        (
            format.to_owned(),
            json!({"type": "string", "format": format}),
        )
    });
    let mut definition = cars();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    definition
        .pointer_mut(spec)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .extend(fields);
    definition.pointer_mut(spec).unwrap()["other"] = json!({"type": "string", "format": "fancy"});
    let answer = world.send(&format!("POST {CRDS}"), definition).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    assert_eq!(
        answer.headers["warning"],
        "299 - \"unrecognized format \\\"fancy\\\"\""
    );
    for (format, good, bad) in rows {
        let with =
            |value: &str| json!({"metadata": {"name": "a"}, "spec": {"wheels": 4, format: value}});
        let why = format!(
            "Car.example.org \"a\" is invalid: spec.{format}: Invalid value: {bad:?}: spec.{format} in body must be of type {format}: {bad:?}"
        );
        world
            .expect(
                &format!("POST {CARS}?dryRun=All"),
                with(bad),
                422,
                refusal("Invalid", &why),
            )
            .await;
        world
            .expect(
                &format!("POST {CARS}?dryRun=All"),
                with(good),
                201,
                json!({}),
            )
            .await;
    }
}

#[tokio::test]
async fn what_the_api_was_built_with_is_stored_and_stays() {
    let world = World::new().await;
    assert_eq!(
        names(&world.get(CRDS).await),
        ["gadgets.example.com", "widgets.example.com"]
    );
    world.create(CRDS, cars()).await;
    world.create(CARS, car("a", 4)).await;
    world.create(WIDGETS, named_map("w")).await;
    // another process on the same store
    let api = apiserver::builder(world.api.store().clone())
        .registry(super::world::registry())
        .build();
    let revision = world.api.store().revision();
    let again = World::around(api);
    assert_eq!(names(&again.get(CARS).await), ["a"]);
    assert_eq!(names(&again.get(WIDGETS).await), ["w"]);
    assert_eq!(
        again.api.store().revision(),
        revision,
        "nothing was written anew"
    );
}

#[tokio::test]
async fn many_can_come_at_once() {
    let world = World::new().await;
    let creates = (0..10).map(|number| {
        let mut definition = cars();
        definition["metadata"]["name"] = json!(format!("cars.g{number}.example.org"));
        definition["spec"]["group"] = json!(format!("g{number}.example.org"));
        world.create(CRDS, definition)
    });
    futures::future::join_all(creates).await;
    for number in 0..10 {
        let path = CARS.replace("example.org", &format!("g{number}.example.org"));
        world.create(&path, car("a", 4)).await;
    }
}
