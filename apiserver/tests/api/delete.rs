//! Deletions: grace, preconditions, collections.

use serde_json::{Value, json};

use super::world::{
    MAPS, PODS, WIDGETS, World, labelled_map, named_map, names, pod, pod_on, refusal, widget,
};

#[tokio::test]
async fn what_is_gone_is_told_by_a_status_or_the_object() {
    let world = World::new().await;
    world.create(MAPS, named_map("a")).await;
    world.create(WIDGETS, widget("a", 1)).await;
    world.create(PODS, pod("a")).await;
    let map = json!({"kind": "Status", "status": "Success", "details": {"name": "a", "kind": "configmaps"}});
    let widget = json!({"status": "Success", "details": {"name": "a", "kind": "widgets", "group": "example.com"}});
    world
        .expect_all(vec![
            (&format!("DELETE {MAPS}/a"), Value::Null, 200, map),
            (
                &format!("DELETE {WIDGETS}/a"),
                json!({"propagationPolicy": "Background"}),
                200,
                widget,
            ),
            (
                &format!("DELETE {PODS}/a"),
                json!({}),
                200,
                json!({"kind": "Pod", "metadata": {"name": "a"}}),
            ),
            (&format!("GET {PODS}/a"), Value::Null, 404, json!({})),
            (
                "DELETE /api/v1/namespaces/other",
                Value::Null,
                200,
                json!({"status": {"phase": "Terminating"}}),
            ),
        ])
        .await;
}

#[tokio::test]
async fn the_namespaces_of_each_cluster_are_not_deleted() {
    let world = World::new().await;
    for (name, code) in [
        ("kube-system", 403),
        ("kube-public", 403),
        ("default", 403),
        ("mine", 200),
    ] {
        world.send("POST /api/v1/namespaces", named_map(name)).await;
        let path = format!("DELETE /api/v1/namespaces/{name}");
        let answer = world.send(&path, Value::Null).await;
        assert_eq!(answer.code, code, "{}", answer.body);
        let why = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!(answer.body["message"] == why.as_str(), code == 403);
    }
}

#[tokio::test]
async fn running_pods_get_time_to_end() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.create(PODS, pod_on(name, "edge-1")).await;
    }
    let begun =
        |grace: i64| json!({"metadata": {"deletionGracePeriodSeconds": grace, "generation": 2}});
    let (a, b) = (format!("DELETE {PODS}/a"), format!("DELETE {PODS}/b"));
    world
        .expect_all(vec![
            (&a, Value::Null, 200, begun(30)),
            (&a, Value::Null, 200, begun(30)),
            (&a, json!({"gracePeriodSeconds": 60}), 200, begun(30)),
            (&a, json!({"gracePeriodSeconds": 10}), 200, begun(10)),
            (
                &format!("{b}?gracePeriodSeconds=7"),
                Value::Null,
                200,
                begun(7),
            ),
            (
                &format!("{b}?gracePeriodSeconds=7"),
                json!({"gracePeriodSeconds": 3}),
                200,
                begun(3),
            ),
            (
                &format!("DELETE {PODS}/c?gracePeriodSeconds=-1"),
                Value::Null,
                200,
                begun(1),
            ),
            // a kubelet reports on, then says that nothing is left
            (
                &format!("MERGE {PODS}/a/status"),
                json!({"status": {"phase": "Failed"}}),
                200,
                begun(10),
            ),
            (&a, json!({"gracePeriodSeconds": 0}), 200, named_map("a")),
            (&format!("GET {PODS}/a"), Value::Null, 404, json!({})),
        ])
        .await;
    assert_eq!(names(&world.get(PODS).await), ["b", "c"]);
}

#[tokio::test]
async fn preconditions_are_kept() {
    let world = World::new().await;
    let made = world.create(MAPS, named_map("a")).await;
    let (uid, version) = (
        &made["metadata"]["uid"],
        &made["metadata"]["resourceVersion"],
    );
    let path = format!("DELETE {MAPS}/a");
    let wrong_uid = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not match the UID in record ({}). The object might have been deleted and then recreated",
        uid.as_str().unwrap()
    );
    world
        .expect_all(vec![
            (
                &path,
                json!({"preconditions": {"uid": "other"}}),
                409,
                refusal("Conflict", &wrong_uid),
            ),
            (
                &path,
                json!({"preconditions": {"resourceVersion": "1"}}),
                409,
                json!({"reason": "Conflict"}),
            ),
            (
                &path,
                json!({"gracePeriodSeconds": "soon"}),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &path,
                json!({"dryRun": ["Some"]}),
                422,
                json!({"reason": "Invalid"}),
            ),
            (
                &format!("{path}?gracePeriodSeconds=soon"),
                Value::Null,
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &path,
                json!({"preconditions": {"uid": uid, "resourceVersion": version}}),
                200,
                json!({"status": "Success"}),
            ),
        ])
        .await;
}

#[tokio::test]
async fn collections_can_be_deleted() {
    let world = World::new().await;
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        world.create(MAPS, labelled_map(name, app)).await;
    }
    world
        .create(
            "/api/v1/namespaces/other/configmaps",
            labelled_map("a", "web"),
        )
        .await;
    world.create(PODS, pod_on("p", "edge-1")).await;
    let deleted = json!({"kind": "ConfigMapList", "items": [named_map("a"), named_map("c")]});
    world
        .expect(
            &format!("DELETE {MAPS}?labelSelector=app=web"),
            Value::Null,
            200,
            deleted,
        )
        .await;
    assert_eq!(names(&world.get("/api/v1/configmaps").await), ["b", "a"]);
    let ending = json!({"items": [{"metadata": {"deletionGracePeriodSeconds": 5}}]});
    world
        .expect(
            &format!("DELETE {PODS}"),
            json!({"gracePeriodSeconds": 5}),
            200,
            ending,
        )
        .await;
    world
        .expect(
            &format!("DELETE {PODS}?fieldSelector=metadata.name=x"),
            Value::Null,
            200,
            json!({"items": []}),
        )
        .await;
}

#[tokio::test]
async fn namespaces_end_when_they_are_empty() {
    let world = World::new().await;
    let path = "/api/v1/namespaces/other";
    let made = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    world
        .expect(&format!("GET {path}"), Value::Null, 200, made)
        .await;
    let terminating = json!({"kind": "Namespace", "status": {"phase": "Terminating"}});
    let emptied = json!({"metadata": {"name": "other"}, "spec": {"finalizers": []}});
    let maps = "POST /api/v1/namespaces/other/configmaps";
    let no_more = "configmaps \"a\" is forbidden: unable to create new content in namespace other because it is being terminated";
    world
        .expect_all(vec![
            (
                &format!("DELETE {path}"),
                Value::Null,
                200,
                terminating.clone(),
            ),
            (
                &format!("DELETE {path}"),
                Value::Null,
                200,
                terminating.clone(),
            ),
            (maps, named_map("a"), 403, refusal("Forbidden", no_more)),
            // the list of who empties it can only be changed here
            (
                &format!("MERGE {path}"),
                json!({"spec": {"finalizers": null}}),
                200,
                terminating,
            ),
            (
                &format!("PUT {path}/finalize"),
                emptied,
                200,
                json!({"kind": "Namespace"}),
            ),
            (&format!("GET {path}"), Value::Null, 404, json!({})),
        ])
        .await;
    // in the other order it goes with its deletion
    let path = "/api/v1/namespaces/mine";
    world.create("/api/v1/namespaces", named_map("mine")).await;
    world
        .expect_all(vec![
            (
                &format!("PUT {path}/finalize"),
                named_map("mine"),
                200,
                json!({"spec": {"finalizers": null}}),
            ),
            (
                &format!("DELETE {path}"),
                Value::Null,
                200,
                json!({"status": "Success"}),
            ),
        ])
        .await;
}

#[tokio::test]
async fn dependents_are_left_to_the_garbage_collector() {
    let world = World::new().await;
    for name in ["a", "b", "c"] {
        world.create(MAPS, named_map(name)).await;
    }
    let path = |name: &str| format!("DELETE {MAPS}/{name}");
    let held =
        |finalizer: &str| json!({"kind": "ConfigMap", "metadata": {"finalizers": [finalizer]}});
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    let wrong = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Later\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    world
        .expect_all(vec![
            (&path("a"), both, 422, json!({"reason": "Invalid"})),
            (
                &path("a"),
                json!({"propagationPolicy": "Later"}),
                422,
                refusal("Invalid", wrong),
            ),
            (
                &path("a"),
                json!({"propagationPolicy": "Foreground"}),
                200,
                held("foregroundDeletion"),
            ),
            (
                &path("b"),
                json!({"orphanDependents": true}),
                200,
                held("orphan"),
            ),
            (
                &format!("{}?propagationPolicy=Orphan", path("c")),
                Value::Null,
                200,
                held("orphan"),
            ),
            // who changes their mind is heard
            (
                &path("c"),
                json!({"propagationPolicy": "Foreground"}),
                200,
                held("foregroundDeletion"),
            ),
            (
                &path("c"),
                json!({"propagationPolicy": "Background"}),
                200,
                json!({"status": "Success"}),
            ),
            (
                &format!("MERGE {MAPS}/a"),
                json!({"metadata": {"finalizers": null}}),
                200,
                named_map("a"),
            ),
            (&format!("GET {MAPS}/a"), Value::Null, 404, json!({})),
        ])
        .await;
}
