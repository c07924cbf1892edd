//! Rules of the kinds that run pods, as clients meet them.

use serde_json::{Value, json};

use super::world::{World, refusal};

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";

/// A stateful set with the claim template `data`, whose container and init container mount `volume`.
fn stateful_set(name: &str, volume: &str) -> Value {
    let container = |name: &str| json!({"name": name, "image": "i", "volumeMounts": [{"name": volume, "mountPath": "/data"}]});
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": {
        "serviceName": name, "selector": {"matchLabels": {"app": name}}, "volumeClaimTemplates": [claim],
        "template": {"metadata": {"labels": {"app": name}}, "spec": {
            "containers": [container("main")], "initContainers": [container("init")]}}}})
}

fn cron_job(schedule: &str) -> Value {
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}})
}

#[tokio::test]
async fn claim_templates_are_volumes_of_a_stateful_set() {
    let world = World::new().await;
    let create = format!("POST {SETS}");
    let applied = format!("APPLY {SETS}/b?fieldManager=m");
    let absent = |name: &str| {
        let field = |list: &str| {
            format!("spec.template.spec.{list}[0].volumeMounts[0].name: Not found: \"other\"")
        };
        let (main, init) = (field("containers"), field("initContainers"));
        refusal(
            "Invalid",
            &format!("StatefulSet.apps {name:?} is invalid: [{main}, {init}]"),
        )
    };
    let mut other_image = stateful_set("a", "data");
    other_image["spec"]["template"]["spec"]["containers"][0]["image"] = "j".into();
    let mut deployment = stateful_set("d", "data");
    deployment["kind"] = "Deployment".into();
    let of_deployment = json!({"reason": "Invalid", "message": concat!("Deployment.apps \"d\" is invalid: [",
        "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\", ",
        "spec.template.spec.initContainers[0].volumeMounts[0].name: Not found: \"data\"]")});
    world
        .expect_all(vec![
            (
                &format!("{create}?dryRun=All"),
                stateful_set("a", "data"),
                201,
                json!({}),
            ),
            (&create, stateful_set("a", "data"), 201, json!({})),
            (
                &format!("PUT {SETS}/a"),
                other_image,
                200,
                json!({"metadata": {"generation": 2}}),
            ),
            (
                &format!("{applied}&dryRun=All"),
                stateful_set("b", "data"),
                201,
                json!({}),
            ),
            (&applied, stateful_set("b", "data"), 201, json!({})),
            (&create, stateful_set("c", "other"), 422, absent("c")),
            (
                &format!("APPLY {SETS}/c?fieldManager=m"),
                stateful_set("c", "other"),
                422,
                absent("c"),
            ),
            (
                &format!("PUT {SETS}/a"),
                stateful_set("a", "other"),
                422,
                absent("a"),
            ),
            (
                "POST /apis/apps/v1/namespaces/default/deployments",
                deployment,
                422,
                of_deployment,
            ),
        ])
        .await;
}

#[tokio::test]
async fn a_cron_job_has_a_schedule_that_can_be_read() {
    let world = World::new().await;
    let refused = |schedule: &str, why: &str| {
        let why = format!(
            "CronJob.batch \"c\" is invalid: spec.schedule: Invalid value: {schedule:?}: {why}"
        );
        refusal("Invalid", &why)
    };
    let (create, one) = (format!("POST {CRON_JOBS}"), format!("{CRON_JOBS}/c"));
    let change = |schedule: &str| json!({"spec": {"schedule": schedule}});
    let late = refused("61 * * * *", "end of range (61) above maximum (59): 61");
    let later = refused("99 * * * *", "end of range (99) above maximum (59): 99");
    let reversed = refused(
        "* 9-5 * * *",
        "beginning of range (9) beyond end of range (5): 9-5",
    );
    let still = refused(
        "*/0 * * * *",
        "step of range should be a positive number: */0",
    );
    world
        .expect_all(vec![
            (&create, cron_job("61 * * * *"), 422, late.clone()),
            (
                &format!("APPLY {one}?fieldManager=m"),
                cron_job("61 * * * *"),
                422,
                late.clone(),
            ),
            (&create, cron_job("59 * * * *"), 201, json!({})),
            (&format!("MERGE {one}"), change("99 * * * *"), 422, later),
            (
                &format!("STRATEGIC {one}?dryRun=All"),
                change("* 9-5 * * *"),
                422,
                reversed,
            ),
            (&format!("PUT {one}"), cron_job("*/0 * * * *"), 422, still),
            (
                &format!("GET {one}"),
                Value::Null,
                200,
                change("59 * * * *"),
            ),
            (
                &format!("MERGE {one}"),
                change("0 9-17/2 * * mon-fri"),
                200,
                json!({}),
            ),
        ])
        .await;
}
