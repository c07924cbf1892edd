//! A cache of what another API admitted takes things as they come.

use serde_json::{Value, json};

use super::world::{PODS, World, named_map, pod_on};

#[tokio::test]
async fn unknown_fields_and_namespaces_are_taken() {
    let world = World::relay();
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "uid": "cloud", "creationTimestamp": "2020-01-01T00:00:00Z", "futureField": 1},
        "spec": {"newerField": {"deep": null}, "containers": []},
        "status": {"phase": "Running", "other": 1},
    });
    let made = world
        .expect(&format!("POST {PODS}"), object.clone(), 201, object)
        .await;
    assert_eq!(
        made["spec"],
        json!({"newerField": {"deep": null}, "containers": []})
    );
    assert_eq!(made["metadata"].get("managedFields"), None);
    let bare = world.create(PODS, named_map("b")).await;
    assert_eq!(
        bare["metadata"].get("uid"),
        None,
        "that is for the API server to give"
    );
    assert_eq!(bare.get("spec"), None);
}

#[tokio::test]
async fn writes_keep_their_meaning() {
    let world = World::relay();
    let mut pod = pod_on("a", "edge-1");
    pod["spec"]["newerField"] = json!(1);
    world.create(PODS, pod).await;
    let (path, status) = (format!("{PODS}/a"), format!("{PODS}/a/status"));
    let both = json!({"spec": {"newerField": 2}, "status": {"phase": "Running", "newer": true}});
    world
        .expect_all(vec![
            (
                &format!("STRATEGIC {status}"),
                both.clone(),
                200,
                json!({"spec": {"newerField": 1}, "status": {"phase": "Running", "newer": true}}),
            ),
            (
                &format!("MERGE {path}"),
                json!({"spec": {"newerField": 3}, "status": {"phase": "x"}}),
                200,
                json!({"spec": {"newerField": 3}, "status": {"phase": "Running"}}),
            ),
            (
                &format!("PUT {path}"),
                json!({"metadata": {"name": "a", "resourceVersion": "1"}}),
                409,
                json!({"reason": "Conflict"}),
            ),
            (
                &format!("DELETE {path}"),
                Value::Null,
                200,
                json!({"metadata": {"deletionGracePeriodSeconds": 30}}),
            ),
            (
                &format!("DELETE {path}?gracePeriodSeconds=0"),
                Value::Null,
                200,
                named_map("a"),
            ),
            (&format!("GET {path}"), Value::Null, 404, json!({})),
        ])
        .await;
}
