//! CustomResourceDefinitions that users apply: they are served at once, and deleted with their objects.

mod conversion;
mod names;
mod schemas;
mod versions;

use serde_json::{Value, json};

use super::world::{World, names, refusal};

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
async fn many_definitions_are_created_at_once() {
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
