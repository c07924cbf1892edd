//! `scale`, `eviction`, `ephemeralcontainers`, and what only nodes have.

use serde_json::{Value, json};

use super::world::{PODS, World, named_map, pod, pod_on, refusal, version};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

fn deployment(name: &str) -> Value {
    let template =
        json!({"metadata": {"labels": {"app": "web", "tier": "a"}}, "spec": pod("x")["spec"]});
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2, "template": template,
            "selector": {"matchLabels": {"tier": "a", "app": "web"}, "matchExpressions": [
                {"key": "app", "operator": "In", "values": ["web", "db"]}, {"key": "x", "operator": "DoesNotExist"},
            ]},
        },
    })
}

#[tokio::test]
async fn all_that_has_replicas_has_a_scale() {
    let world = World::new().await;
    let made = world.create(DEPLOYMENTS, deployment("web")).await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let shown = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": "web", "namespace": "default", "uid": made["metadata"]["uid"]},
        "spec": {"replicas": 2},
        "status": {"replicas": 0, "selector": "app=web,tier=a,app in (web,db),!x"},
    });
    let to = |replicas: i64| json!({"spec": {"replicas": replicas}});
    let negative = "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0";
    let operations = json!([{"op": "replace", "path": "/spec/replicas", "value": 7}]);
    let stale =
        json!({"metadata": {"name": "web", "resourceVersion": "1"}, "spec": {"replicas": 1}});
    let put =
        |replicas: Value| json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas}});
    world
        .expect_all(vec![
            (&format!("GET {path}"), Value::Null, 200, shown),
            (&format!("MERGE {path}"), to(5), 200, to(5)),
            (&format!("STRATEGIC {path}"), to(6), 200, to(6)),
            (&format!("JSON {path}"), operations, 200, to(7)),
            (&format!("PUT {path}"), put(json!(3)), 200, to(3)),
            (&format!("PUT {path}?dryRun=All"), put(json!(9)), 200, to(9)),
            (
                &format!("PUT {path}"),
                put(json!(-1)),
                422,
                refusal("Invalid", negative),
            ),
            (
                &format!("PUT {path}"),
                put(json!("3")),
                400,
                json!({"reason": "BadRequest"}),
            ),
            (
                &format!("PUT {path}"),
                stale,
                409,
                json!({"reason": "Conflict"}),
            ),
            (
                &format!("GET {DEPLOYMENTS}/absent/scale"),
                Value::Null,
                404,
                json!({"reason": "NotFound"}),
            ),
            (&format!("DELETE {path}"), Value::Null, 405, json!({})),
            (
                &format!("GET {PODS}/web/scale"),
                Value::Null,
                404,
                json!({}),
            ),
        ])
        .await;
    let scaled = world.get(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(
        (
            &scaled["spec"]["replicas"],
            &scaled["metadata"]["generation"]
        ),
        (&json!(3), &json!(5))
    );
    let managers = scaled["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers.iter().any(|entry| entry["subresource"] == "scale"),
        "{managers:?}"
    );
}

#[tokio::test]
async fn budgets_limit_evictions() {
    let world = World::new().await;
    for name in ["a", "b", "free", "over"] {
        let mut pod = pod_on(name, "edge-1");
        pod["metadata"]["labels"] = json!({"app": if name == "free" { "other" } else { "web" }});
        world.create(PODS, pod).await;
        let phase = if name == "over" { "Failed" } else { "Running" };
        let status = json!({"status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]}});
        world
            .expect(
                &format!("MERGE {PODS}/{name}/status"),
                status,
                200,
                json!({}),
            )
            .await;
    }
    let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    world.create(BUDGETS, budget).await;
    let evict = |name: &str| format!("POST {PODS}/{name}/eviction");
    let used_up = json!({
        "reason": "TooManyRequests", "code": 429,
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 1 healthy pods and has 1 currently"}]},
    });
    let unknown = json!({"code": 429, "details": {"retryAfterSeconds": 10, "causes": [
        {"reason": "DisruptionBudget", "message": "The disruption budget web is still being processed by the server."}]}});
    let body = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let allow = json!({"status": {"disruptionsAllowed": 1, "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 2}});
    world
        .expect_all(vec![
            (&evict("a"), body("a"), 429, unknown),
            (&evict("a"), body("b"), 400, json!({"reason": "BadRequest"})),
            (
                &evict("absent"),
                body("absent"),
                404,
                json!({"reason": "NotFound"}),
            ),
            (
                &evict("free"),
                body("free"),
                201,
                json!({"status": "Success"}),
            ),
            (
                &evict("over"),
                body("over"),
                201,
                json!({"status": "Success"}),
            ),
            (
                &format!("MERGE {BUDGETS}/web/status"),
                allow,
                200,
                json!({}),
            ),
            (
                &format!("{}?dryRun=All", evict("a")),
                body("a"),
                201,
                json!({}),
            ),
            (&evict("a"), body("a"), 201, json!({"status": "Success"})),
            (&evict("b"), body("b"), 429, used_up),
            (&format!("GET {PODS}/over"), Value::Null, 404, json!({})),
        ])
        .await;
    let evicted = world.get(&format!("{PODS}/a")).await;
    assert!(evicted["metadata"]["deletionTimestamp"].is_string());
    let why = evicted["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "DisruptionTarget");
    assert_eq!(why.unwrap()["reason"], "EvictionByEvictionAPI");
    let counted = json!({"status": {"disruptionsAllowed": 0}});
    let counted = world
        .expect(&format!("GET {BUDGETS}/web"), Value::Null, 200, counted)
        .await;
    assert!(counted["status"]["disruptedPods"]["a"].is_string());
}

/// A Job's failure policy reads the condition. A finalizer keeps the pods where they can be seen.
#[tokio::test]
async fn an_evicted_pod_of_any_phase_is_a_disruption_target() {
    let world = World::new().await;
    for (name, node, phase) in [
        ("unbound", "", "Pending"),
        ("pending", "edge-1", "Pending"),
        ("running", "edge-1", "Running"),
        ("unknown", "edge-1", "Unknown"),
        ("failed", "edge-1", "Failed"),
        ("succeeded", "edge-1", "Succeeded"),
    ] {
        let mut new = if node.is_empty() {
            pod(name)
        } else {
            pod_on(name, node)
        };
        new["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
        let made = world.create(PODS, new).await;
        let status = json!({"status": {"phase": phase}});
        let made = match phase {
            "Pending" => made,
            _ => {
                world
                    .expect(
                        &format!("MERGE {PODS}/{name}/status"),
                        status,
                        200,
                        json!({}),
                    )
                    .await
            }
        };
        let other = json!({"metadata": {"name": name}, "deleteOptions": {"preconditions": {"resourceVersion": "1"}}});
        let refused = json!({"reason": "Conflict"});
        world
            .expect(&format!("POST {PODS}/{name}/eviction"), other, 409, refused)
            .await;
        let preconditions = json!({"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]});
        let eviction =
            json!({"metadata": {"name": name}, "deleteOptions": {"preconditions": preconditions}});
        world
            .expect(
                &format!("POST {PODS}/{name}/eviction"),
                eviction,
                201,
                json!({}),
            )
            .await;
        let evicted = world.get(&format!("{PODS}/{name}")).await;
        assert!(
            evicted["metadata"]["deletionTimestamp"].is_string(),
            "{name}"
        );
        let conditions = evicted["status"]["conditions"].as_array().unwrap();
        let why = conditions
            .iter()
            .find(|one| one["type"] == "DisruptionTarget");
        assert_eq!(why.unwrap()["reason"], "EvictionByEvictionAPI", "{name}");
    }
}

#[tokio::test]
async fn containers_can_be_added_for_a_while() {
    let world = World::new().await;
    let made = world.create(PODS, pod("a")).await;
    let path = format!("{PODS}/a/ephemeralcontainers");
    let with = |containers: Value| json!({"spec": {"ephemeralContainers": containers}});
    let debug = json!({"name": "debug", "image": "busybox:1", "targetContainerName": "c"});
    let mut put = made.clone();
    put["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    put["spec"]["ephemeralContainers"] = json!([debug, {"name": "second", "image": "busybox:1"}]);
    put["spec"]["containers"][0]["image"] = json!("other");
    world
        .expect_all(vec![
            (
                &format!("GET {path}"),
                Value::Null,
                200,
                json!({"kind": "Pod"}),
            ),
            (
                &format!("STRATEGIC {path}"),
                with(json!([debug])),
                200,
                with(json!([{"name": "debug"}])),
            ),
            (
                &format!("MERGE {path}"),
                with(json!([])),
                422,
                json!({"reason": "Invalid"}),
            ),
            (
                &format!("STRATEGIC {path}"),
                with(json!([{"name": "c", "image": "x"}])),
                422,
                json!({}),
            ),
            (
                &format!("STRATEGIC {path}"),
                with(json!([{"name": "x"}])),
                422,
                json!({"reason": "Invalid"}),
            ),
        ])
        .await;
    let now = world.get(&format!("{PODS}/a")).await;
    put["spec"]["ephemeralContainers"][0] = now["spec"]["ephemeralContainers"][0].clone();
    let after = world
        .expect(&format!("PUT {path}"), put, 200, json!({}))
        .await;
    assert_eq!(
        after["spec"]["ephemeralContainers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // nothing else is written here
    assert_eq!(after["spec"]["containers"][0]["image"], "nginx:1");
    assert!(version(&after) > version(&made));
}

#[tokio::test]
async fn what_only_nodes_have_is_told_as_missing() {
    let world = World::new().await;
    world.create(PODS, pod_on("a", "edge-1")).await;
    world.create("/api/v1/nodes", named_map("edge-1")).await;
    let missing = json!({"reason": "NotImplemented", "code": 501});
    let log = "pods/log of \"a\" is not available: the log of its containers is on a node, and this API has no stream to \
               nodes (EdgeStream)";
    world
        .expect_all(vec![
            (
                &format!("GET {PODS}/a/log?follow=true"),
                Value::Null,
                501,
                refusal("NotImplemented", log),
            ),
            (
                &format!("POST {PODS}/a/exec?command=ls"),
                Value::Null,
                501,
                missing.clone(),
            ),
            (
                &format!("GET {PODS}/a/exec?command=ls"),
                Value::Null,
                501,
                missing.clone(),
            ),
            (
                &format!("POST {PODS}/a/attach"),
                Value::Null,
                501,
                missing.clone(),
            ),
            (
                &format!("POST {PODS}/a/portforward"),
                Value::Null,
                501,
                missing.clone(),
            ),
            (
                &format!("GET {PODS}/a/proxy/index.html"),
                Value::Null,
                501,
                missing.clone(),
            ),
            (
                "GET /api/v1/nodes/edge-1/proxy/stats/summary",
                Value::Null,
                501,
                missing,
            ),
            (
                &format!("GET {PODS}/absent/log"),
                Value::Null,
                404,
                json!({"reason": "NotFound"}),
            ),
            (
                &format!("GET {PODS}/a/log/more"),
                Value::Null,
                404,
                json!({"reason": "NotFound"}),
            ),
        ])
        .await;
}
