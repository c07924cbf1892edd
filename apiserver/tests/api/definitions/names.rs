//! Which definitions are accepted: names in conflict, invalid ones, and those that the API was built with.

use serde_json::{Value, json};

use super::{CARS, CRDS, car, cars};
use crate::world::{WIDGETS, World, named_map, names, refusal};

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
async fn conflicting_names_belong_to_the_first_definition() {
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
async fn definitions_survive_a_restart_and_built_in_ones_are_not_written_again() {
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
        .registry(crate::world::registry())
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
