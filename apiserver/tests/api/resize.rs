//! `pods/…/resize`: the resources of running pods.

use serde_json::{Value, json};

use crate::world::{PODS, World, refusal};

fn pod_of(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
    "initContainers": [{"name": "i", "image": "a", "resources": {"requests": {"cpu": "50m"}}}],
    "containers": [
        {"name": "c", "image": "a", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"memory": "128Mi"}}},
        {"name": "d", "image": "a"},
    ]}})
}

fn patch(resources: Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
}

#[tokio::test]
async fn resources_of_a_pod_change_and_nothing_else() {
    let world = World::new().await;
    world.create(PODS, pod_of("a", "100m")).await;
    let change = json!({
        "metadata": {"labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "200m"}, "limits": {"cpu": "300m"}},
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}]},
    });
    let resized = json!({
        "metadata": {"labels": null, "generation": 2},
        "spec": {"containers": [
            {"name": "c", "image": "a", "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}, "limits": {"cpu": "300m", "memory": "128Mi"}},
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
            {"name": "d", "resources": {}}]},
    });
    world
        .expect_all(vec![
            (
                &format!("STRATEGIC {PODS}/a/resize"),
                change,
                200,
                resized.clone(),
            ),
            (&format!("GET {PODS}/a/resize"), Value::Null, 200, resized),
            // the pod itself refuses this
            (
                &format!("STRATEGIC {PODS}/a"),
                patch(json!({"requests": {"cpu": "1"}})),
                422,
                json!({}),
            ),
            (
                &format!("DELETE {PODS}/a/resize"),
                Value::Null,
                405,
                json!({}),
            ),
            (&format!("POST {PODS}/a/resize"), json!({}), 405, json!({})),
        ])
        .await;
    let mut pod = world.get(&format!("{PODS}/a")).await;
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = json!("256Mi");
    let grown = json!({"metadata": {"generation": 3}});
    world
        .expect(&format!("PUT {PODS}/a/resize"), pod, 200, grown)
        .await;
    let resources = world.get("/api/v1").await;
    let resize = resources["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "pods/resize")
        .unwrap()
        .clone();
    assert_eq!(
        resize,
        json!({"name": "pods/resize", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get", "patch", "update"]})
    );
}

#[tokio::test]
async fn resizes_are_refused_with_the_reason() {
    let world = World::new().await;
    world.create(PODS, pod_of("a", "100m")).await;
    let init = |resources: Value| json!({"spec": {"initContainers": [{"name": "i", "resources": resources}]}});
    let rows = [
        (
            patch(json!({"requests": {"cpu": "2", "memory": "64Mi"}, "limits": {"cpu": "1"}})),
            "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ),
        (
            patch(json!({"requests": {"cpu": null}})),
            "spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed",
        ),
        (
            patch(json!({"limits": {"memory": null}})),
            "spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed",
        ),
        (
            patch(json!({"requests": {"ephemeral-storage": "1Gi"}})),
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        (
            init(json!({"requests": {"ephemeral-storage": "1Gi"}})),
            "spec.initContainers[0]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable",
        ),
        (
            json!({"spec": {"containers": [{"name": "e", "image": "a"}]}}),
            "spec.containers: Forbidden: containers may not be added or removed on resize",
        ),
        (
            json!({"spec": {"containers": [{"name": "d", "$patch": "delete"}]}}),
            "spec.containers: Forbidden: containers may not be added or removed on resize",
        ),
    ];
    for (body, why) in rows {
        let message = format!("Pod \"a\" is invalid: {why}");
        world
            .expect(
                &format!("STRATEGIC {PODS}/a/resize"),
                body,
                422,
                refusal("Invalid", &message),
            )
            .await;
    }
    world.create(PODS, json!({"metadata": {"name": "best"}, "spec": {"containers": [{"name": "c", "image": "a"}]}})).await;
    let class = "Pod \"best\" is invalid: spec: Invalid value: \"BestEffort\": Pod QOS Class may not change as a result of resizing";
    let grown = patch(json!({"requests": {"cpu": "1"}}));
    world
        .expect(
            &format!("STRATEGIC {PODS}/best/resize"),
            grown.clone(),
            422,
            refusal("Invalid", class),
        )
        .await;
    // a node that does not report the resources of running containers does not change them
    let status = |resources: Value| {
        json!({"status": {"containerStatuses": [{"name": "c", "image": "a", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "resources": resources}]}})
    };
    world
        .expect(
            &format!("MERGE {PODS}/a/status"),
            status(Value::Null),
            200,
            json!({}),
        )
        .await;
    let unsupported =
        "Pod \"a\" is invalid: spec: Forbidden: Pod running on node without support for resize";
    world
        .expect(
            &format!("STRATEGIC {PODS}/a/resize"),
            grown.clone(),
            422,
            refusal("Invalid", unsupported),
        )
        .await;
    world
        .expect(
            &format!("MERGE {PODS}/a/status"),
            status(json!({})),
            200,
            json!({}),
        )
        .await;
    world
        .expect(&format!("STRATEGIC {PODS}/a/resize"), grown, 200, json!({}))
        .await;
}

#[tokio::test]
async fn limits_and_quotas_hold_for_resized_pods() {
    let world = World::new().await;
    let mut pod = pod_of("a", "100m");
    pod["spec"]["containers"].as_array_mut().unwrap().pop();
    world.create(PODS, pod).await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "500m"}}});
    world
        .create("/api/v1/namespaces/default/resourcequotas", quota)
        .await;
    let too_much = "pods \"a\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=100m, limited: requests.cpu=500m";
    let patch = |cpu: &str| patch(json!({"requests": {"cpu": cpu}}));
    world
        .expect(
            &format!("STRATEGIC {PODS}/a/resize"),
            patch("600m"),
            403,
            refusal("Forbidden", too_much),
        )
        .await;
    let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "300m"}}]}});
    world
        .create("/api/v1/namespaces/default/limitranges", range)
        .await;
    let answer = world
        .expect(
            &format!("STRATEGIC {PODS}/a/resize"),
            patch("400m"),
            403,
            json!({}),
        )
        .await;
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("maximum cpu usage per Container is 300m"),
        "{answer}"
    );
}
