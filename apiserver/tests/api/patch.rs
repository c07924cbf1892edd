//! The four patches.

use futures::future::join_all;
use serde_json::{Value, json};

use super::world::{MAPS, PODS, WIDGETS, World, named_map, pod, refusal, version, widget};

#[tokio::test]
async fn each_patch_works_in_its_way() {
    let world = World::new().await;
    world.create(PODS, pod("a")).await;
    world.create(WIDGETS, widget("w", 1)).await;
    let path = format!("{PODS}/a");
    let image = |image: &str| json!({"spec": {"containers": [{"image": image}]}});
    let label = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
    world
        .expect_all(vec![
            (
                &format!("JSON {path}"),
                label,
                200,
                json!({"metadata": {"labels": {"a": "b"}}}),
            ),
            (
                &format!("MERGE {path}"),
                json!({"metadata": {"labels": {"a": null, "c": "d"}}}),
                200,
                json!({"metadata": {"labels": {"a": null, "c": "d"}}}),
            ),
            (
                &format!("STRATEGIC {path}"),
                json!({"spec": {"containers": [{"name": "c", "image": "nginx:3"}]}}),
                200,
                image("nginx:3"),
            ),
            (
                &format!("MERGE {WIDGETS}/w"),
                json!({"spec": {"size": 2}}),
                200,
                json!({"spec": {"size": 2}}),
            ),
        ])
        .await;
}

#[tokio::test]
async fn what_cannot_be_patched_is_refused() {
    let world = World::new().await;
    world.create(MAPS, named_map("a")).await;
    world.create(WIDGETS, widget("w", 1)).await;
    let path = format!("{MAPS}/a");
    let unknown =
        "the body of the request was in an unknown format - accepted media types include:";
    let patches =
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let of_map = refusal("UnsupportedMediaType", "415: Unsupported Media Type");
    let of_widget = refusal("UnsupportedMediaType", &format!("{unknown} {patches}"));
    let options = |cause: &str| {
        refusal(
            "Invalid",
            &format!("PatchOptions.meta.k8s.io \"\" is invalid: {cause}"),
        )
    };
    let no_manager = options("fieldManager: Required value: is required for apply patch");
    let modified = json!({"reason": "Conflict"});
    world
        .expect_all(vec![
            (&format!("PATCH {path}"), json!({}), 415, of_map),
            (
                &format!("PATCH {WIDGETS}/w"),
                json!({}),
                415,
                of_widget.clone(),
            ),
            (&format!("STRATEGIC {WIDGETS}/w"), json!({}), 415, of_widget),
            (
                &format!("MERGE {path}"),
                "{".into(),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &format!("MERGE {path}"),
                json!([]),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &format!("JSON {path}"),
                json!({}),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &format!("JSON {path}"),
                json!([{"op": "test", "path": "/data", "value": 1}]),
                422,
                json!({"reason": "Invalid"}),
            ),
            (
                &format!("MERGE {path}"),
                json!({"data": {"a": 1}}),
                422,
                json!({"reason": "Invalid"}),
            ),
            (
                &format!("MERGE {path}"),
                json!({"metadata": {"resourceVersion": "1"}}),
                409,
                modified.clone(),
            ),
            (
                &format!("MERGE {path}"),
                json!({"metadata": {"uid": "x"}}),
                409,
                modified,
            ),
            (
                &format!("MERGE {path}"),
                json!({"metadata": {"name": "b"}}),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (&format!("APPLY {path}"), named_map("a"), 422, no_manager),
            (
                &format!("MERGE {path}?force=true"),
                json!({}),
                422,
                options("force: Forbidden: may not be specified for non-apply patch"),
            ),
            (
                &format!("APPLY {path}?fieldManager=m"),
                named_map("a"),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &format!("APPLY {path}?fieldManager=m"),
                json!([]),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &format!("APPLY {WIDGETS}/x/status?fieldManager=m"),
                widget("x", 1),
                404,
                json!({"reason": "NotFound"}),
            ),
        ])
        .await;
}

#[tokio::test]
async fn patches_do_not_conflict_with_each_other() {
    let world = World::new().await;
    world.create(MAPS, named_map("a")).await;
    let path = format!("MERGE {MAPS}/a");
    let patches = (0..16).map(|index| {
        let key = format!("k{index}");
        world.expect(&path, json!({"data": {key: "v"}}), 200, json!({}))
    });
    join_all(patches).await;
    assert_eq!(
        world.get(&format!("{MAPS}/a")).await["data"]
            .as_object()
            .unwrap()
            .len(),
        16
    );
}

fn map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

#[tokio::test]
async fn appliers_share_an_object() {
    let world = World::new().await;
    let (one, two) = (
        format!("APPLY {MAPS}/a?fieldManager=one"),
        format!("APPLY {MAPS}/a?fieldManager=two"),
    );
    let made = world
        .expect(&one, map(json!({"x": "1", "y": "1"})), 201, json!({}))
        .await;
    let manager = &made["metadata"]["managedFields"];
    assert_eq!(
        (&manager[0]["manager"], &manager[0]["operation"]),
        (&json!("one"), &json!("Apply"))
    );
    assert_eq!(
        (
            made["metadata"]["uid"].as_str().unwrap().len(),
            manager.as_array().unwrap().len()
        ),
        (36, 1)
    );
    // the same again is no write
    assert_eq!(
        world
            .expect(&one, map(json!({"x": "1", "y": "1"})), 200, json!({}))
            .await,
        made
    );
    let conflict = json!({
        "reason": "Conflict", "code": 409,
        "message": "Apply failed with 1 conflict: conflict with \"one\": .data.x",
        "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".data.x"}]},
    });
    world
        .expect_all(vec![
            (&two, map(json!({"x": "2"})), 409, conflict),
            (
                &two,
                map(json!({"z": "2"})),
                200,
                json!({"data": {"x": "1", "y": "1", "z": "2"}}),
            ),
            (
                &format!("{two}&force=true"),
                map(json!({"x": "2", "z": "2"})),
                200,
                json!({"data": {"x": "2", "y": "1"}}),
            ),
            // what its only owner no longer applies goes
            (
                &one,
                map(json!({})),
                200,
                json!({"data": {"x": "2", "y": null, "z": "2"}}),
            ),
        ])
        .await;
}

#[tokio::test]
async fn applied_quantities_are_compared_as_quantities() {
    let world = World::new().await;
    let request = format!("APPLY {PODS}/a?fieldManager=one");
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: x\n    \
                command: null\n    resources: {limits: {cpu: 1}}\n";
    let made = world.expect(&request, yaml.into(), 201, json!({})).await;
    assert_eq!(
        made["spec"]["containers"][0]["resources"]["limits"]["cpu"],
        "1"
    );
    assert_eq!(
        world.expect(&request, yaml.into(), 200, json!({})).await,
        made
    );
    // nor do others fight over it
    let other = request.replace("one", "two");
    world.expect(&other, yaml.into(), 200, json!({})).await;
}

#[tokio::test]
async fn an_applied_status_takes_nothing_else_along() {
    let world = World::new().await;
    let made = world.create(WIDGETS, widget("w", 1)).await;
    let mut object = widget("w", 9);
    object["status"] = json!({"ready": true});
    object["metadata"]["labels"] = json!({"a": "b"});
    let request = format!("APPLY {WIDGETS}/w/status?fieldManager=m");
    let expected =
        json!({"spec": {"size": 1}, "status": {"ready": true}, "metadata": {"labels": null}});
    let applied = world.expect(&request, object.clone(), 200, expected).await;
    let managers = applied["metadata"]["managedFields"].as_array().unwrap();
    let applier = managers
        .iter()
        .find(|entry| entry["subresource"] == "status")
        .unwrap();
    assert_eq!(applier["fieldsV1"], json!({"f:status": {"f:ready": {}}}));
    object["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    world
        .expect(&request, object.clone(), 409, json!({"reason": "Conflict"}))
        .await;
    object["metadata"]["resourceVersion"] = json!(version(&applied).to_string());
    assert_eq!(
        world.expect(&request, object, 200, json!({})).await,
        applied
    );
}

/// `stringData` is another way to write `data`: its applier owns what is kept, and the same once more is no write.
#[tokio::test]
async fn an_applied_secret_may_be_written_as_text() {
    let world = World::new().await;
    let request = "APPLY /api/v1/namespaces/default/secrets/s?fieldManager=one";
    let secret = |texts: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": texts});
    let kept = json!({"data": {"a": "Yg==", "c": "ZA=="}, "stringData": null});
    let first = world
        .expect(
            request,
            secret(json!({"a": "b", "c": "d"})),
            201,
            kept.clone(),
        )
        .await;
    let again = world
        .expect(request, secret(json!({"a": "b", "c": "d"})), 200, kept)
        .await;
    assert_eq!(version(&again), version(&first), "nothing has changed");
    let less = json!({"data": {"a": "Yg==", "c": null}});
    world
        .expect(request, secret(json!({"a": "b"})), 200, less)
        .await;
}
