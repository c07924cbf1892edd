//! Updates: conflicts, the status apart from the rest, generations, finalizers.

use serde_json::{Value, json};

use super::world::{MAPS, PODS, WIDGETS, World, named_map, pod, refusal, version, widget};

/// `object` with `value` at `pointer`, whose parent is there.
fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[name] = value;
    object
}

#[tokio::test]
async fn versions_keep_writers_apart() {
    let world = World::new().await;
    let first = world.create(MAPS, named_map("a")).await;
    let path = format!("PUT {MAPS}/a");
    let second = world
        .expect(
            &path,
            with(&first, "/data", json!({"k": "1"})),
            200,
            json!({}),
        )
        .await;
    assert!(version(&second) > version(&first));
    let modified = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your \
                    changes to the latest version and try again";
    let stranger = with(&second, "/metadata/uid", json!("other"));
    world
        .expect_all(vec![
            (&path, with(&first, "/data", json!({"k": "2"})), 409, refusal("Conflict", modified)),
            (&path, stranger, 409, json!({"reason": "Conflict"})),
            // without a version, or with 0, the last writer wins
            (&path, json!({"metadata": {"name": "a"}, "data": {"k": "3"}}), 200, json!({"data": {"k": "3"}})),
            (
                &path,
                json!({"metadata": {"name": "a", "resourceVersion": "0"}, "data": {"k": "4"}}),
                200,
                json!({"data": {"k": "4"}}),
            ),
            (
                &path,
                named_map("b"),
                400,
                refusal("BadRequest", "the name of the object (b) does not match the name on the URL (a)"),
            ),
            (
                &path,
                json!({"data": {"k": "5"}}),
                400,
                refusal(
                    "BadRequest",
                    "the name of the object (a based on URL) was undeterminable: name must be provided",
                ),
            ),
            (
                &path,
                json!({"metadata": {"name": "a", "namespace": "b"}}),
                400,
                refusal(
                    "BadRequest",
                    "the namespace of the object (b) does not match the namespace on the request (default)",
                ),
            ),
        ])
        .await;
    // the same again is no write
    let before = world.get(&format!("{MAPS}/a")).await;
    assert_eq!(
        world.expect(&path, before.clone(), 200, json!({})).await,
        before
    );
}

#[tokio::test]
async fn some_kinds_demand_a_version() {
    let world = World::new().await;
    let made = world.create(WIDGETS, widget("a", 1)).await;
    let message = "widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be \
                   specified for an update";
    let path = format!("PUT {WIDGETS}/a");
    world
        .expect(&path, widget("a", 2), 422, refusal("Invalid", message))
        .await;
    world
        .expect(
            &path,
            with(&made, "/spec/size", json!(2)),
            200,
            json!({"spec": {"size": 2}}),
        )
        .await;
    // a patch needs none
    world
        .expect(
            &format!("MERGE {WIDGETS}/a"),
            json!({"spec": {"size": 3}}),
            200,
            json!({}),
        )
        .await;
}

#[tokio::test]
async fn some_kinds_are_created_by_an_update() {
    let world = World::new().await;
    let path = "PUT /apis/coordination.k8s.io/v1/namespaces/default/leases/a";
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}});
    world.expect(path, lease.clone(), 201, lease).await;
    let stale =
        json!({"metadata": {"name": "a", "resourceVersion": "1"}, "spec": {"holderIdentity": "y"}});
    world
        .expect(path, stale, 409, json!({"reason": "Conflict"}))
        .await;
    world
        .expect(
            &format!("PUT {MAPS}/a"),
            named_map("a"),
            404,
            json!({"reason": "NotFound"}),
        )
        .await;
}

#[tokio::test]
async fn the_status_is_apart() {
    let world = World::new().await;
    let made = world.create(WIDGETS, widget("a", 1)).await;
    let both = with(
        &with(&made, "/spec/size", json!(2)),
        "/status",
        json!({"ready": true}),
    );
    let updated = world
        .expect(
            &format!("PUT {WIDGETS}/a"),
            both,
            200,
            json!({"spec": {"size": 2}}),
        )
        .await;
    assert_eq!(
        (updated.get("status"), &updated["metadata"]["generation"]),
        (None, &json!(2))
    );

    let mut both = with(
        &with(&updated, "/spec/size", json!(3)),
        "/status",
        json!({"ready": true}),
    );
    both["metadata"]["labels"] = json!({"a": "b"});
    let path = format!("{WIDGETS}/a/status");
    let updated = world
        .expect(
            &format!("PUT {path}"),
            both,
            200,
            json!({"status": {"ready": true}}),
        )
        .await;
    // of kinds from definitions the status takes nothing else along
    assert_eq!(
        (&updated["spec"]["size"], updated["metadata"].get("labels")),
        (&json!(2), None)
    );
    assert_eq!(updated["metadata"]["generation"], 2);
    let managers = updated["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.last().unwrap()["subresource"], "status");
    assert_eq!(world.get(&path).await, updated);

    let patch = json!({"spec": {"size": 9}, "status": {"ready": false}});
    let expected = json!({"spec": {"size": 2}, "status": {"ready": false}});
    world
        .expect(&format!("MERGE {path}"), patch, 200, expected)
        .await;
    let kept =
        json!({"spec": {"size": 5}, "status": {"ready": false}, "metadata": {"generation": 3}});
    let patch = json!({"spec": {"size": 5}, "status": {"ready": true}});
    world
        .expect(&format!("MERGE {WIDGETS}/a"), patch, 200, kept)
        .await;
}

#[tokio::test]
async fn kubelets_write_metadata_with_the_status() {
    let world = World::new().await;
    world.create(PODS, pod("a")).await;
    let patch = json!({
        "metadata": {"annotations": {"seen": "yes"}, "uid": null, "generation": 9},
        "spec": {"nodeName": "x"}, "status": {"phase": "Running"},
    });
    let expected = json!({
        "metadata": {"annotations": {"seen": "yes"}, "generation": 1},
        "spec": {"nodeName": null}, "status": {"phase": "Running", "qosClass": "BestEffort"},
    });
    world
        .expect(&format!("STRATEGIC {PODS}/a/status"), patch, 200, expected)
        .await;
    let patch = json!({"status": {"phase": "Failed"}, "metadata": {"labels": {"x": "y"}}});
    let expected = json!({"status": {"phase": "Running"}, "metadata": {"labels": {"x": "y"}}});
    world
        .expect(&format!("MERGE {PODS}/a"), patch, 200, expected)
        .await;
}

#[tokio::test]
async fn generations_count_what_is_wanted() {
    let world = World::new().await;
    world.create(WIDGETS, widget("a", 1)).await;
    world
        .create(
            "/apis/example.com/v1/gadgets",
            json!({"metadata": {"name": "g"}}),
        )
        .await;
    world.create(MAPS, named_map("m")).await;
    world.create(PODS, pod("p")).await;
    let (widget, gadget) = (
        format!("MERGE {WIDGETS}/a"),
        "MERGE /apis/example.com/v1/gadgets/g",
    );
    let image = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "nginx:2"}]);
    let rows: Vec<(&str, Value, Value)> = vec![
        (
            &widget,
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!(1),
        ),
        (&widget, json!({"spec": {"size": 2}}), json!(2)),
        (&widget, json!({"spec": {"size": 2}}), json!(2)),
        // without the subresource the status counts as all else
        (gadget, json!({"spec": {"size": 2}}), json!(2)),
        (gadget, json!({"status": {"ready": true}}), json!(3)),
        (gadget, json!({"metadata": {"generation": 70}}), json!(3)),
    ];
    for (request, patch, generation) in rows {
        let expected = json!({"metadata": {"generation": generation}});
        world.expect(request, patch, 200, expected).await;
    }
    world
        .expect(
            &format!("JSON {PODS}/p"),
            image,
            200,
            json!({"metadata": {"generation": 2}}),
        )
        .await;
    let map = world.get(&format!("{MAPS}/m")).await;
    assert_eq!(map["metadata"].get("generation"), None);
}

#[tokio::test]
async fn finalizers_hold_what_is_deleted() {
    let world = World::new().await;
    let held = json!({"metadata": {"name": "a", "finalizers": ["x.io/one", "x.io/two"]}});
    world.create(MAPS, held).await;
    let deleting = json!({"kind": "ConfigMap", "metadata": {"deletionGracePeriodSeconds": 0}});
    let deleted = world
        .expect(&format!("DELETE {MAPS}/a"), Value::Null, 200, deleting)
        .await;
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    // once more changes nothing
    assert_eq!(
        world
            .expect(&format!("DELETE {MAPS}/a"), Value::Null, 200, json!({}))
            .await,
        deleted
    );

    let path = format!("MERGE {MAPS}/a");
    let finalizers = |names: Value| json!({"metadata": {"finalizers": names}});
    let refused = json!({
        "reason": "Invalid",
        "message": "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object \
                    is being deleted, found new finalizers []string{\"x.io/new\"}",
    });
    world
        .expect(
            &path,
            finalizers(json!(["x.io/one", "x.io/new"])),
            422,
            refused,
        )
        .await;
    let undead = json!({"metadata": {"deletionTimestamp": null}});
    let kept = json!({"metadata": {"deletionTimestamp": deleted["metadata"]["deletionTimestamp"]}});
    world.expect(&path, undead, 200, kept).await;
    world
        .expect(
            &path,
            finalizers(json!(["x.io/two"])),
            200,
            finalizers(json!(["x.io/two"])),
        )
        .await;
    let mut lines = world.watch(&format!("{MAPS}?watch=1")).await;
    world
        .expect(&path, finalizers(json!(null)), 200, json!({}))
        .await;
    assert_eq!(lines.ready(), ["ADDED a", "DELETED a"]);
    world
        .expect(&format!("GET {MAPS}/a"), Value::Null, 404, json!({}))
        .await;
}

/// Controllers write what they read, in Go's shape (`creationTimestamp: null`, empty maps), again and again: were that a write,
/// each would outdate what all others have read.
#[tokio::test]
async fn what_changes_nothing_is_no_write() {
    const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
    let world = World::new().await;
    let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": pod("x")["spec"]});
    let selector = json!({"matchLabels": {"app": "d"}});
    let made =
        json!({"metadata": {"name": "d"}, "spec": {"selector": selector, "template": template}});
    world.create(DEPLOYMENTS, made).await;
    let condition = json!({"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "ok",
        "lastTransitionTime": "2025-06-01T00:00:00Z", "lastUpdateTime": "2025-06-01T00:00:00Z"});
    let status = json!({"observedGeneration": 1, "replicas": 1, "conditions": [condition]});
    let path = format!("{DEPLOYMENTS}/d");
    let before = world
        .expect(
            &format!("MERGE {path}/status?fieldManager=controller"),
            json!({"status": status}),
            200,
            json!({}),
        )
        .await;
    let go = with(
        &before,
        "/spec/template/metadata/creationTimestamp",
        Value::Null,
    );
    let annotations = json!({"metadata": {"annotations": null}});
    for (request, body) in [
        ("PUT /status?fieldManager=controller", &go),
        ("PUT /status?fieldManager=other", &go),
        ("PUT ?fieldManager=controller", &go),
        ("PUT ?fieldManager=other", &go),
        (
            "MERGE /status?fieldManager=other",
            &json!({"status": status}),
        ),
        (
            "STRATEGIC /status?fieldManager=controller",
            &json!({"status": {"conditions": [condition]}}),
        ),
        (
            "STRATEGIC ?fieldManager=other",
            &json!({"spec": {"replicas": 1}}),
        ),
        ("MERGE ?fieldManager=other", &annotations),
    ] {
        let (verb, rest) = request.split_once(' ').unwrap();
        let after = world
            .expect(
                &format!("{verb} {path}{rest}"),
                body.clone(),
                200,
                json!({}),
            )
            .await;
        assert_eq!(after, before, "{request}");
    }
}
