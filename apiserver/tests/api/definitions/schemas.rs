//! Schemas of CustomResourceDefinitions: validation, defaults, rules and formats of objects.

use serde_json::{Value, json};

use super::{CARS, CRDS, car, cars};
use crate::world::{World, refusal, version};

#[tokio::test]
async fn objects_are_validated_against_their_definition() {
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
async fn a_definition_that_is_taken_is_served() {
    let world = World::new().await;
    let field = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/wheels";
    // Go reads `items` that is no schema as absent
    let mut definition = cars();
    let wheels = definition.pointer_mut(field).unwrap();
    *wheels = json!({"x-kubernetes-preserve-unknown-fields": true, "items": true});
    let created = world.create(CRDS, definition).await;
    assert_eq!(created.pointer(&format!("{field}/items")), None);
    world.create(CARS, car("a", 4)).await;
    // what cannot be read at all is refused
    let mut definition = cars();
    let wheels = definition.pointer_mut(field).unwrap();
    *wheels = json!({"type": "object", "additionalProperties": 1});
    let why = "CustomResourceDefinition in version \"v1\" cannot be handled as a CustomResourceDefinition: invalid type: integer `1`, expected \
               JSONSchemaPropsOrBool";
    let path = format!("POST {CRDS}");
    world
        .expect(&path, definition, 400, refusal("BadRequest", why))
        .await;
}

#[tokio::test]
async fn objects_stored_before_a_default_are_returned_with_it() {
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
async fn defaults_are_those_of_the_stored_version() {
    let world = World::new().await;
    let schema = |fields: Value| json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}});
    let text = |default: Option<&str>| match default {
        Some(default) => json!({"type": "string", "default": default}),
        None => json!({"type": "string"}),
    };
    let definition = |one: Option<&str>, two: Option<&str>| {
        let version = |name: &str, fields: Value| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema(fields)});
        json!({"metadata": {"name": "lamps.example.org"}, "spec": {"group": "example.org", "scope": "Namespaced",
            "names": {"kind": "Lamp", "plural": "lamps"}, "versions": [
                version("v1", json!({"one": text(one), "two": text(None)})),
                version("v2", json!({"one": text(None), "two": text(two)}))]}})
    };
    world.create(CRDS, definition(None, None)).await;
    let lamps = |version: &str| format!("/apis/example.org/{version}/namespaces/default/lamps");
    let lamp = json!({"apiVersion": "example.org/v1", "kind": "Lamp", "metadata": {"name": "a"}, "spec": {}});
    world.create(&lamps("v1"), lamp).await;
    let change = json!({"spec": definition(Some("1"), Some("2"))["spec"]});
    world
        .expect(
            &format!("MERGE {CRDS}/lamps.example.org"),
            change,
            200,
            json!({}),
        )
        .await;
    for version in ["v1", "v2"] {
        let lamp = world.get(&format!("{}/a", lamps(version))).await;
        assert_eq!(lamp["spec"], json!({"one": "1"}), "{version}");
    }
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
