//! Tests of [`super`].

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::{Endpoints, PersistentVolumeClaim, Pod},
    discovery::v1::EndpointSlice,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    Shared,
    pods::{controller_of, is_active},
};
use crate::controllers::{
    events::Recorder,
    manager::{Switches, spawn},
};

mod endpoints;
mod garbage;
mod jobs;
mod kubectl;
mod namespace;
mod replication;
mod restarts;
mod rows;
mod scheduled;
mod volumes;
mod world;

use world::{NODES, World};

fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "a", "image": image}]}})
}

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let mut workload = json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template(name, "one")},
    });
    for (key, value) in spec.as_object().unwrap() {
        workload["spec"][key] = value.clone();
    }
    workload
}

fn job(name: &str, exit: &str, spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": template(name, "one")},
    });
    job["spec"]["template"]["metadata"]["annotations"] = json!({"exit": exit});
    job["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

fn is_rolled_out(deployment: &Deployment) -> bool {
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.as_ref().unwrap().replicas;
    status.observed_generation == deployment.metadata.generation
        && (
            status.replicas,
            status.updated_replicas,
            status.available_replicas,
        ) == (wanted, wanted, wanted)
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0]
        .image
        .as_deref()
        .unwrap()
}

fn conditions(job: &Job) -> Vec<String> {
    let conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .map(|condition| {
            format!(
                "{} {}",
                condition.type_,
                condition.reason.as_deref().unwrap_or_default()
            )
        })
        .collect()
}

#[tokio::test]
async fn a_deployment_rolls_out_and_on_and_back() {
    let world = World::new().await;
    world
        .create(workload("Deployment", "web", json!({"replicas": 3})))
        .await;
    world.until("web", is_rolled_out).await;
    assert_eq!(world.pods("web", 3).await.len(), 3);

    world
        .patch::<Deployment>("web", json!({"spec": {"template": template("web", "two")}}))
        .await;
    let deployment = world.until("web", is_rolled_out).await;
    assert_eq!(
        deployment.annotations()["deployment.kubernetes.io/revision"],
        "2"
    );
    let pods = world.pods("web", 3).await;
    assert!(pods.values().all(|pod| image(pod) == "two"));

    world
        .patch::<Deployment>("web", json!({"spec": {"template": template("web", "one")}}))
        .await;
    let deployment = world
        .until("web", |deployment: &Deployment| {
            is_rolled_out(deployment)
                && deployment.annotations()["deployment.kubernetes.io/revision"] == "3"
        })
        .await;
    let sets = world.until_all::<ReplicaSet>(|sets| sets.len() == 2).await;
    let uid = deployment.uid();
    assert!(
        sets.values()
            .all(|set| controller_of(set).map(|owner| &owner.uid) == uid.as_ref()),
        "no third set"
    );
}

#[tokio::test]
async fn a_deployment_is_scaled_paused_and_collected() {
    let world = World::new().await;
    world
        .create(workload(
            "Deployment",
            "web",
            json!({"replicas": 1, "strategy": {"type": "Recreate"}}),
        ))
        .await;
    world.until("web", is_rolled_out).await;
    world
        .patch::<Deployment>("web", json!({"spec": {"replicas": 5}}))
        .await;
    world.until("web", is_rolled_out).await;
    world.pods("web", 5).await;

    let paused =
        json!({"spec": {"paused": true, "replicas": 2, "template": template("web", "two")}});
    world.patch::<Deployment>("web", paused).await;
    let pods = world.pods("web", 2).await;
    assert!(
        pods.values().all(|pod| image(pod) == "one"),
        "a paused deployment is scaled, but rolls nothing out"
    );
    world
        .patch::<Deployment>("web", json!({"spec": {"paused": false}}))
        .await;
    world.until("web", is_rolled_out).await;
    assert!(
        world
            .pods("web", 2)
            .await
            .values()
            .all(|pod| image(pod) == "two")
    );

    world.delete::<Deployment>("web").await;
    world.until_all::<ReplicaSet>(|sets| sets.is_empty()).await;
    world.until_all::<Pod>(|pods| pods.is_empty()).await;
}

#[tokio::test]
async fn many_deployments_have_exactly_the_pods_that_they_want() {
    const DEPLOYMENTS: usize = 20;
    let world = World::new().await;
    for number in 0..DEPLOYMENTS {
        world
            .create(workload(
                "Deployment",
                &format!("d{number}"),
                json!({"replicas": 10}),
            ))
            .await;
    }
    world
        .until_all::<Deployment>(|deployments| {
            deployments
                .values()
                .filter(|one| is_rolled_out(one))
                .count()
                == DEPLOYMENTS
        })
        .await;
    assert_eq!(
        world.until_all::<Pod>(|_| true).await.len(),
        DEPLOYMENTS * 10
    );
}

#[tokio::test]
async fn a_replica_set_adopts_what_matches_and_replaces_what_no_longer_does() {
    let world = World::new().await;
    let mut pod = template("web", "one");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("lonely");
    world.create(pod).await;
    world.until("lonely", super::pods::is_ready).await;
    world
        .create(workload("ReplicaSet", "web", json!({"replicas": 2})))
        .await;
    let pods = world.pods("web", 2).await;
    assert!(pods.contains_key("lonely"));
    world
        .until("lonely", |pod: &Pod| {
            controller_of(pod).is_some_and(|owner| owner.name == "web")
        })
        .await;

    world
        .patch::<Pod>("lonely", json!({"metadata": {"labels": {"app": "free"}}}))
        .await;
    world
        .until("lonely", |pod: &Pod| controller_of(pod).is_none())
        .await;
    world.pods("web", 2).await;
    world
        .until("web", |set: &ReplicaSet| {
            set.status
                .as_ref()
                .is_some_and(|status| status.ready_replicas == Some(2))
        })
        .await;
}

#[tokio::test]
async fn a_daemon_set_runs_on_every_node_and_on_new_ones() {
    let world = World::new().await;
    world
        .create(workload("DaemonSet", "agent", json!({})))
        .await;
    let ready = |number| {
        move |set: &DaemonSet| {
            let status = set.status.clone().unwrap_or_default();
            (status.number_ready, status.updated_number_scheduled) == (number, Some(number))
                && status.observed_generation == set.metadata.generation
        }
    };
    world.until("agent", ready(2)).await;
    let pods = world.pods("agent", 2).await;
    let mut nodes: Vec<_> = pods
        .values()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
        .collect();
    nodes.sort();
    assert_eq!(nodes, NODES);
    world
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "edge-3"}}))
        .await;
    world.until("agent", ready(3)).await;

    world
        .patch::<DaemonSet>(
            "agent",
            json!({"spec": {"template": template("agent", "two")}}),
        )
        .await;
    world.until("agent", ready(3)).await;
    assert!(
        world
            .pods("agent", 3)
            .await
            .values()
            .all(|pod| image(pod) == "two")
    );
}

#[tokio::test]
async fn a_stateful_set_has_names_claims_and_an_order() {
    let world = World::new().await;
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let spec = json!({"replicas": 3, "serviceName": "db", "volumeClaimTemplates": [claim]});
    world.create(workload("StatefulSet", "db", spec)).await;
    let rolled_out = |set: &StatefulSet| {
        let status = set.status.clone().unwrap_or_default();
        let wanted = set.spec.as_ref().unwrap().replicas;
        (status.ready_replicas, status.updated_replicas) == (wanted, wanted)
            && status.current_revision == status.update_revision
            && status.observed_generation == set.metadata.generation
    };
    let set = world.until("db", rolled_out).await;
    let pods = world.pods("db", 3).await;
    assert_eq!(pods.keys().collect::<Vec<_>>(), ["db-0", "db-1", "db-2"]);
    let claims = world
        .until_all::<PersistentVolumeClaim>(|claims| claims.len() == 3)
        .await;
    assert!(claims.contains_key("data-db-2"));
    let first = set.status.unwrap().update_revision;

    world
        .patch::<StatefulSet>("db", json!({"spec": {"template": template("db", "two")}}))
        .await;
    let set = world
        .until("db", |set: &StatefulSet| {
            rolled_out(set) && set.status.as_ref().unwrap().update_revision != first
        })
        .await;
    assert_eq!(set.status.unwrap().current_replicas, Some(3));
    assert!(
        world
            .pods("db", 3)
            .await
            .values()
            .all(|pod| image(pod) == "two")
    );
    world
        .patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}}))
        .await;
    assert!(world.pods("db", 1).await.contains_key("db-0"));
}

#[tokio::test]
async fn jobs_end_well_or_give_up_and_count_every_pod_once() {
    let world = World::new().await;
    world
        .create(job(
            "good",
            "0",
            json!({"completions": 5, "parallelism": 2}),
        ))
        .await;
    world
        .create(job("bad", "1", json!({"backoffLimit": 0})))
        .await;
    world
        .create(job(
            "indexed",
            "0",
            json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}),
        ))
        .await;
    let ended = |job: &Job| conditions(job).len() == 2;
    let good = world.until("good", ended).await;
    assert_eq!(
        conditions(&good),
        [
            "SuccessCriteriaMet CompletionsReached",
            "Complete CompletionsReached"
        ]
    );
    let status = good.status.unwrap();
    assert_eq!(
        (status.succeeded, status.failed, status.active),
        (Some(5), None, None)
    );
    let bad = world.until("bad", ended).await;
    assert_eq!(
        conditions(&bad),
        [
            "FailureTarget BackoffLimitExceeded",
            "Failed BackoffLimitExceeded"
        ]
    );
    assert_eq!(bad.status.unwrap().failed, Some(1));
    let indexed = world.until("indexed", ended).await;
    assert_eq!(
        indexed.status.unwrap().completed_indexes.as_deref(),
        Some("0-2")
    );
    let pods = world
        .until_all::<Pod>(|pods| pods.values().all(|pod| pod.finalizers().is_empty()))
        .await;
    assert_eq!(pods.len(), 9);

    world
        .patch::<Job>("good", json!({"spec": {"ttlSecondsAfterFinished": 0}}))
        .await;
    world.until_all::<Job>(|jobs| jobs.len() == 2).await;
    world.until_all::<Pod>(|pods| pods.len() == 4).await;
}

#[tokio::test]
async fn a_suspended_job_runs_nothing_until_it_is_resumed() {
    let world = World::new().await;
    world
        .create(job("later", "0", json!({"suspend": true})))
        .await;
    world
        .until("later", |job: &Job| {
            conditions(job) == ["Suspended JobSuspended"]
        })
        .await;
    world
        .patch::<Job>("later", json!({"spec": {"suspend": false}}))
        .await;
    let job = world
        .until("later", |job: &Job| conditions(job).len() == 3)
        .await;
    assert_eq!(job.status.unwrap().succeeded, Some(1));
}

#[tokio::test]
async fn services_have_the_addresses_of_their_ready_pods() {
    let world = World::new().await;
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]});
    world
        .create(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}))
        .await;
    world
        .until_all::<EndpointSlice>(|slices| slices.len() == 1)
        .await;
    world
        .create(workload("Deployment", "web", json!({"replicas": 2})))
        .await;
    let ready = |slice: &EndpointSlice| {
        let is_ready = |endpoint: &k8s_openapi::api::discovery::v1::Endpoint| {
            endpoint
                .conditions
                .as_ref()
                .is_some_and(|conditions| conditions.ready == Some(true))
        };
        slice
            .endpoints
            .iter()
            .filter(|endpoint| is_ready(endpoint))
            .count()
    };
    world
        .until_all::<EndpointSlice>(|slices| {
            slices.len() == 1 && slices.values().map(ready).sum::<usize>() == 2
        })
        .await;
    let endpoints = world
        .until("web", |endpoints: &Endpoints| {
            let subsets = endpoints.subsets.iter().flatten();
            subsets
                .flat_map(|subset| subset.addresses.iter().flatten())
                .count()
                == 2
        })
        .await;
    assert_eq!(
        endpoints.subsets.unwrap()[0].ports.as_ref().unwrap()[0].port,
        8080
    );
    world.delete::<Deployment>("web").await;
    world
        .until_all::<EndpointSlice>(|slices| {
            slices.values().all(|slice| slice.endpoints.is_empty())
        })
        .await;
}

#[tokio::test]
async fn an_owner_goes_last_or_alone_as_it_is_told_to() {
    let world = World::new().await;
    world
        .create(workload("Deployment", "last", json!({"replicas": 2})))
        .await;
    world
        .create(workload("Deployment", "alone", json!({"replicas": 2})))
        .await;
    world.until("last", is_rolled_out).await;
    world.until("alone", is_rolled_out).await;
    let api = world.api::<Deployment>();
    api.delete("last", &kube::api::DeleteParams::foreground())
        .await
        .unwrap();
    api.delete("alone", &kube::api::DeleteParams::orphan())
        .await
        .unwrap();
    world
        .until_all::<Deployment>(|deployments| deployments.is_empty())
        .await;
    // the first was deleted in the foreground, the second orphaned its replica set, which orphaned its pods
    let sets = world.until_all::<ReplicaSet>(|sets| sets.len() == 1).await;
    assert!(
        sets.values()
            .all(|set| set.owner_references().is_empty()
                && set.metadata.deletion_timestamp.is_none())
    );
    assert!(world.pods("last", 0).await.is_empty());
    assert_eq!(world.pods("alone", 2).await.len(), 2);
}

#[tokio::test]
async fn a_namespace_is_emptied_before_it_goes() {
    let world = World::in_namespace("mine").await;
    world
        .create(workload("Deployment", "web", json!({"replicas": 2})))
        .await;
    world
        .create(job("job", "0", json!({"completions": 2})))
        .await;
    world.until("web", is_rolled_out).await;
    let namespaces = kube::Api::<k8s_openapi::api::core::v1::Namespace>::all(world.client.clone());
    namespaces
        .delete("mine", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    world.until_all::<Pod>(|pods| pods.is_empty()).await;
    world
        .until_all::<Deployment>(|deployments| deployments.is_empty())
        .await;
    let gone = |namespace: Option<&k8s_openapi::api::core::v1::Namespace>| namespace.is_none();
    let gone = kube::runtime::wait::await_condition(namespaces, "mine", gone);
    testkit::within("the end of the namespace", gone)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_taint_drives_away_who_does_not_tolerate_it() {
    let world = World::new().await;
    world
        .create(workload("ReplicaSet", "web", json!({"replicas": 1})))
        .await;
    world
        .create(workload("DaemonSet", "agent", json!({})))
        .await;
    let before = world.pods("web", 1).await.into_keys().next().unwrap();
    world.pods("agent", 2).await;
    world.until(&before, super::pods::is_ready).await;
    let taints = json!({"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute",
        "timeAdded": "2025-01-01T00:00:00Z"}]}});
    let nodes = kube::Api::<k8s_openapi::api::core::v1::Node>::all(world.client.clone());
    nodes
        .patch(
            NODES[0],
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(taints),
        )
        .await
        .unwrap();
    world
        .until_all::<Pod>(|pods| {
            !pods.contains_key(&before) && pods.values().filter(|pod| is_active(pod)).count() == 3
        })
        .await;
}

#[tokio::test]
async fn the_controllers_end_when_they_are_told_to_at_any_time() {
    let api = apiserver::builder(objectstore::MemoryStore::new()).build();
    for _ in 0..20 {
        let (tasks, stop) = (
            crate::tasks::Tasks::default(),
            tokio_util::sync::CancellationToken::new(),
        );
        let client = api.client("default");
        let events = Recorder::spawn(&tasks, &client, &stop);
        spawn(
            Shared::new(client.clone(), events),
            &tasks,
            &Switches::default(),
            &stop,
        );
        tasks.close();
        tokio::task::yield_now().await;
        stop.cancel();
        tasks.wait().await.expect("no task panicked");
    }
}
