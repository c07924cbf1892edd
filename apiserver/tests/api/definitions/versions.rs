//! Versions and subresources of defined kinds: their objects are shared, converted and scaled.

use serde_json::{Value, json};

use super::{CARS, CRDS, car, cars};
use crate::world::{World, refusal};

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
