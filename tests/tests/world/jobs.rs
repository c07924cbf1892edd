//! Jobs on real agents: containers that end as their commands say, and what becomes of their job.

use serde_json::{Value, json};
use tests::{World, condition};

fn job(name: &str, spec: Value) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": {
        "template": {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "busybox"}]}}}});
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

fn doing(mut job: Value, command: &[&str]) -> Value {
    job["spec"]["template"]["spec"]["containers"][0]["command"] = json!(command);
    job
}

fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |job| condition(job, kind) == Some("True")
}

/// The pods of a job, as the API lists them.
async fn pods(world: &World, job: &str) -> Vec<Value> {
    let api = kube::Api::<k8s_openapi::api::core::v1::Pod>::namespaced(world.client(), "default");
    let of_job =
        kube::api::ListParams::default().labels(&format!("batch.kubernetes.io/job-name={job}"));
    let pods = api.list(&of_job).await.unwrap();
    pods.items
        .iter()
        .map(|pod| serde_json::to_value(pod).unwrap())
        .collect()
}

#[tokio::test]
async fn a_job_ends_as_its_command_does_after_its_init_containers() {
    let world = World::new(1).await;
    world.until_ready().await;
    let mut hi = doing(
        job("hi", json!({"completions": 3, "parallelism": 1})),
        &["echo", "hi"],
    );
    hi["spec"]["template"]["spec"]["initContainers"] = json!([
        {"name": "known", "image": "busybox", "command": ["sh", "-c", "sleep 0.1; true"]},
        {"name": "unknown", "image": "tools/migrate"},
    ]);
    let done = world
        .apply(&hi)
        .await
        .until("Complete", is("Complete"))
        .await;
    assert_eq!(
        (&done["status"]["succeeded"], done["status"].get("failed")),
        (&json!(3), None)
    );
    let pods = pods(&world, "hi").await;
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        assert_eq!(pod["status"]["phase"], "Succeeded", "{pod:#}");
        assert!(pod["metadata"].get("finalizers").is_none(), "{pod:#}");
        let init = pod["status"]["initContainerStatuses"].as_array().unwrap();
        assert!(
            init.iter()
                .all(|init| init["state"]["terminated"]["exitCode"] == 0),
            "{pod:#}"
        );
    }
}

#[tokio::test]
async fn a_job_fails_with_the_code_of_its_command_and_a_deleted_one_leaves_nothing() {
    let world = World::new(1).await;
    world.until_ready().await;
    let bad = doing(
        job("bad", json!({"backoffLimit": 0})),
        &["sh", "-c", "echo no >&2; exit 3"],
    );
    world.apply(&bad).await.until("Failed", is("Failed")).await;
    let failed = pods(&world, "bad").await;
    assert_eq!(failed.len(), 1);
    assert_eq!(
        failed[0]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"],
        3
    );

    let long = world
        .apply(&doing(job("long", json!({})), &["sleep", "infinity"]))
        .await;
    long.until("active", |job| job["status"]["ready"] == 1)
        .await;
    let running = pods(&world, "long").await;
    long.delete(None).await;
    let name = running[0]["metadata"]["name"].as_str().unwrap();
    world.pod(name).until_gone().await;
}
