//! Jobs and cron jobs with all controllers running: the number of pods, and that none is left.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core::v1::{Namespace, Pod},
};
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::{Value, json};

use super::{conditions, job, world::World};

fn held_job(name: &str, spec: Value) -> Value {
    let mut job = job(name, "0", spec);
    job["spec"]["template"]["metadata"]["annotations"] = json!({"hold": "yes"});
    job
}

#[tokio::test]
async fn every_completion_is_a_pod_of_its_own() {
    let world = World::new().await;
    world
        .create(job(
            "five",
            "0",
            json!({"completions": 5, "parallelism": 1}),
        ))
        .await;
    let five = world
        .until("five", |job: &Job| conditions(job).len() == 2)
        .await;
    assert_eq!(five.status.unwrap().succeeded, Some(5));
    let pods = world
        .until_all::<Pod>(|pods| pods.values().all(|pod| pod.finalizers().is_empty()))
        .await;
    assert_eq!(
        pods.values()
            .filter_map(ResourceExt::uid)
            .collect::<BTreeSet<_>>()
            .len(),
        5
    );
}

#[tokio::test]
async fn a_deleted_job_leaves_no_pod_behind() {
    let world = World::new().await;
    world
        .create(job(
            "ended",
            "0",
            json!({"completions": 2, "parallelism": 2}),
        ))
        .await;
    world
        .until("ended", |job: &Job| conditions(job).len() == 2)
        .await;
    world
        .create(held_job(
            "running",
            json!({"completions": 3, "parallelism": 3}),
        ))
        .await;
    world.until_all::<Pod>(|pods| pods.len() == 5).await;
    for name in ["ended", "running"] {
        world
            .api::<Job>()
            .delete(name, &DeleteParams::background())
            .await
            .unwrap();
    }
    world.until_all::<Pod>(|pods| pods.is_empty()).await;
}

#[tokio::test]
async fn pods_that_a_job_leaves_to_themselves_are_free() {
    let world = World::new().await;
    world
        .create(held_job(
            "parent",
            json!({"completions": 2, "parallelism": 2}),
        ))
        .await;
    world.until_all::<Pod>(|pods| pods.len() == 2).await;
    world
        .api::<Job>()
        .delete("parent", &DeleteParams::orphan())
        .await
        .unwrap();
    world
        .until_all::<Pod>(|pods| {
            pods.values()
                .all(|pod| pod.finalizers().is_empty() && pod.owner_references().is_empty())
        })
        .await;
}

#[tokio::test]
async fn a_deleted_cron_job_or_namespace_leaves_no_pod_behind() {
    let world = World::in_namespace("mine").await;
    let template =
        json!({"spec": held_job("", json!({"completions": 2, "parallelism": 2}))["spec"]});
    let cron = |name: &str| {
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
            "spec": {"schedule": "* * * * *", "suspend": true, "jobTemplate": template}})
    };
    world.create(cron("one")).await;
    world.create(cron("two")).await;
    for name in ["one", "two"] {
        let owner = world.api::<CronJob>().get(name).await.unwrap();
        let mut made = held_job(
            &format!("{name}-1"),
            json!({"completions": 2, "parallelism": 2}),
        );
        made["metadata"]["ownerReferences"] =
            json!([super::super::pods::controller_reference(&owner)]);
        world.create(made).await;
    }
    world.until_all::<Pod>(|pods| pods.len() == 4).await;
    world
        .api::<CronJob>()
        .delete("one", &DeleteParams::background())
        .await
        .unwrap();
    world.until_all::<Job>(|jobs| jobs.len() == 1).await;
    world.until_all::<Pod>(|pods| pods.len() == 2).await;
    let namespaces = Api::<Namespace>::all(world.client.clone());
    namespaces
        .delete("mine", &DeleteParams::default())
        .await
        .unwrap();
    world.until_all::<Pod>(|pods| pods.is_empty()).await;
}
