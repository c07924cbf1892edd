//! Rows of jobs, cron jobs and daemon sets in `docs/controllers.md` that no other test shows.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::{Event, PersistentVolumeClaim, Pod},
};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{conditions, image, job, template, workload, world::World};

fn ago(hours: i64) -> Timestamp {
    clock::now() - SignedDuration::from_hours(hours)
}

/// A schedule of once a year, at this minute.
fn yearly(time: Timestamp) -> String {
    time.strftime("%-M %-H %-d %-m *").to_string()
}

/// A cron job that missed a time two hours ago. Its jobs succeed, or stay running if they are held.
async fn missed_job(world: &World, held: bool, spec: Value) -> Timestamp {
    let due = ago(2);
    let mut job = job("", "0", json!({}));
    if held {
        job["spec"]["template"]["metadata"]["annotations"] = json!({"hold": "yes"});
    }
    let mut cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "cron"}, "spec":
        {"schedule": yearly(due), "suspend": true, "jobTemplate": {"spec": job["spec"]}}});
    for (key, value) in spec.as_object().unwrap() {
        cron["spec"][key] = value.clone();
    }
    world.create(cron).await;
    let last =
        json!({"status": {"lastScheduleTime": ago(3).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}});
    let api = world.api::<CronJob>();
    api.patch_status("cron", &PatchParams::default(), &Patch::Merge(last))
        .await
        .unwrap();
    world
        .patch::<CronJob>("cron", json!({"spec": {"suspend": false}}))
        .await;
    due
}

fn name(time: Timestamp) -> String {
    format!("cron-{}", time.as_second() / 60)
}

#[tokio::test]
async fn a_cron_job_makes_up_for_what_it_missed_and_keeps_so_many() {
    let world = World::new().await;
    let first = missed_job(&world, false, json!({"successfulJobsHistoryLimit": 1})).await;
    let cron = world
        .until("cron", |cron: &CronJob| {
            cron.status.as_ref().is_some_and(|status| {
                status.last_successful_time.is_some() && status.active.is_none()
            })
        })
        .await;
    let taken = cron.status.unwrap().last_schedule_time.unwrap().0;
    assert_eq!(taken.as_second() / 60, first.as_second() / 60);
    assert_eq!(
        world
            .api::<Job>()
            .get(&name(first))
            .await
            .unwrap()
            .owner_references()[0]
            .name,
        "cron"
    );
    let second = ago(1);
    world
        .patch::<CronJob>("cron", json!({"spec": {"schedule": yearly(second)}}))
        .await;
    let jobs = world
        .until_all::<Job>(|jobs| jobs.len() == 1 && jobs.contains_key(&name(second)))
        .await;
    assert_eq!(jobs.len(), 1);
}

#[tokio::test]
async fn a_cron_job_waits_for_its_last_job_or_replaces_it() {
    let world = World::new().await;
    let first = missed_job(&world, true, json!({"concurrencyPolicy": "Forbid"})).await;
    world
        .until_all::<Job>(|jobs| jobs.contains_key(&name(first)))
        .await;
    world
        .until("cron", |cron: &CronJob| {
            cron.status
                .as_ref()
                .and_then(|status| status.active.as_ref())
                .is_some_and(|jobs| jobs.len() == 1)
        })
        .await;
    let second = ago(1);
    world
        .patch::<CronJob>("cron", json!({"spec": {"schedule": yearly(second)}}))
        .await;
    let told = |event: &Event| event.reason.as_deref() == Some("JobAlreadyActive");
    world
        .until_all::<Event>(|events| events.values().any(told))
        .await;
    assert!(
        world
            .api::<Job>()
            .get_opt(&name(second))
            .await
            .unwrap()
            .is_none()
    );
    world
        .patch::<CronJob>("cron", json!({"spec": {"concurrencyPolicy": "Replace"}}))
        .await;
    world
        .until_all::<Job>(|jobs| jobs.len() == 1 && jobs.contains_key(&name(second)))
        .await;
}

#[tokio::test]
async fn a_job_ends_by_its_policy_and_by_its_deadline() {
    let world = World::new().await;
    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]});
    world
        .create(job("fatal", "42", json!({"podFailurePolicy": policy})))
        .await;
    let fatal = world
        .until("fatal", |job: &Job| conditions(job).len() == 2)
        .await;
    assert_eq!(
        conditions(&fatal),
        ["FailureTarget PodFailurePolicy", "Failed PodFailurePolicy"]
    );
    let message = fatal.status.unwrap().conditions.unwrap()[1]
        .message
        .clone()
        .unwrap();
    assert!(
        message.starts_with("Container a for pod default/fatal-"),
        "{message}"
    );
    assert!(
        message.ends_with(" failed with exit code 42 matching FailJob rule at index 0"),
        "{message}"
    );

    let mut late = job("late", "0", json!({"activeDeadlineSeconds": 1}));
    late["spec"]["template"]["metadata"]["annotations"] = json!({"hold": "yes"});
    world.create(late).await;
    let late = world
        .until("late", |job: &Job| conditions(job).len() == 2)
        .await;
    assert_eq!(
        conditions(&late),
        ["FailureTarget DeadlineExceeded", "Failed DeadlineExceeded"]
    );
    world.pods("late", 0).await;
}

#[tokio::test]
async fn a_job_that_another_manages_is_left_to_it() {
    let world = World::new().await;
    world
        .create(job(
            "theirs",
            "0",
            json!({"managedBy": "example.com/queue"}),
        ))
        .await;
    world.create(job("ours", "0", json!({}))).await;
    world
        .until("ours", |job: &Job| conditions(job).len() == 2)
        .await;
    assert!(conditions(&world.api::<Job>().get("theirs").await.unwrap()).is_empty());
    let pods = world.until_all::<Pod>(|pods| !pods.is_empty()).await;
    assert!(
        pods.keys().all(|name| name.starts_with("ours-")),
        "{:?}",
        pods.keys()
    );
}

#[tokio::test]
async fn a_daemon_set_that_surges_replaces_every_pod() {
    let world = World::new().await;
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    world
        .create(workload(
            "DaemonSet",
            "agent",
            json!({"updateStrategy": strategy}),
        ))
        .await;
    let ready = |set: &DaemonSet| {
        let status = set.status.clone().unwrap_or_default();
        (status.number_ready, status.updated_number_scheduled) == (2, Some(2))
            && status.observed_generation == set.metadata.generation
    };
    world.until("agent", ready).await;
    world
        .patch::<DaemonSet>(
            "agent",
            json!({"spec": {"template": template("agent", "two")}}),
        )
        .await;
    world.until("agent", ready).await;
    world
        .until_all::<Pod>(|pods| pods.len() == 2 && pods.values().all(|pod| image(pod) == "two"))
        .await;
}

#[tokio::test]
async fn claims_go_with_their_pod_or_set_where_they_are_told_to() {
    let world = World::new().await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let spec = |policy: &str| {
        json!({"replicas": 2, "volumeClaimTemplates": [claim],
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": policy, "whenScaled": policy}})
    };
    world
        .create(workload("StatefulSet", "kept", spec("Retain")))
        .await;
    world
        .create(workload("StatefulSet", "gone", spec("Delete")))
        .await;
    let owners = |claims: &std::collections::BTreeMap<String, PersistentVolumeClaim>,
                  kind: &str| {
        let owned = claims.values().filter(|one| {
            one.owner_references()
                .iter()
                .any(|owner| owner.kind == kind)
        });
        owned.map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    world
        .until_all::<PersistentVolumeClaim>(|claims| {
            claims.len() == 4 && owners(claims, "StatefulSet") == ["data-gone-0", "data-gone-1"]
        })
        .await;
    for name in ["kept", "gone"] {
        world.pods(name, 2).await;
        world
            .patch::<StatefulSet>(name, json!({"spec": {"replicas": 1}}))
            .await;
    }
    world
        .until_all::<PersistentVolumeClaim>(|claims| {
            claims.len() == 3 && !claims.contains_key("data-gone-1")
        })
        .await;
    world.pods("kept", 1).await;
    world.delete::<StatefulSet>("kept").await;
    world.delete::<StatefulSet>("gone").await;
    world.until_all::<Pod>(|pods| pods.is_empty()).await;
    let left = world
        .until_all::<PersistentVolumeClaim>(|claims| claims.len() == 2)
        .await;
    assert_eq!(
        left.keys().collect::<Vec<_>>(),
        ["data-kept-0", "data-kept-1"]
    );
}
