//! Pods that do not fit wait and are created once: controllers and the scheduler together.

use std::collections::BTreeSet;

use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet},
    batch::v1::Job,
    core::v1::Pod,
};
use kube::{
    ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{is_rolled_out, job, workload, world::World};

fn asking(kind: &str, name: &str, spec: Value, container: &Value) -> Value {
    let mut workload = workload(kind, name, spec);
    let own = &mut workload["spec"]["template"]["spec"]["containers"][0];
    for (key, value) in container.as_object().unwrap() {
        own[key] = value.clone();
    }
    workload
}

fn cpu(amount: &str) -> Value {
    json!({"resources": {"requests": {"cpu": amount}}})
}

/// Returns why the pod has no node.
fn why(pod: &Pod) -> Option<String> {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .find(|one| one.type_ == "PodScheduled" && one.status == "False")
        .and_then(|one| one.message.clone())
}

/// Returns the uids of all pods that existed until `stop`.
async fn ever(world: &World, stop: CancellationToken) -> tokio::task::JoinHandle<BTreeSet<String>> {
    let events = watcher::watcher(world.api::<Pod>(), watcher::Config::default()).default_backoff();
    let mut events = Box::pin(events.take_until(stop.cancelled_owned()));
    tokio::spawn(async move {
        let mut uids = BTreeSet::new();
        while let Some(Ok(event)) = events.next().await {
            if let watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) = event {
                uids.extend(pod.uid());
            }
        }
        uids
    })
}

#[tokio::test]
async fn a_rollout_that_does_not_fit_waits_and_goes_on_when_there_is_room() {
    let world = World::scheduled(&["edge-1"]).await;
    let stop = CancellationToken::new();
    let ever = ever(&world, stop.clone()).await;
    let port = json!({"ports": [{"containerPort": 80, "hostPort": 8080}]});
    world
        .create(asking("Deployment", "web", json!({"replicas": 1}), &port))
        .await;
    world.until("web", is_rolled_out).await;
    let old = world.pods("web", 1).await.into_keys().next().unwrap();
    let restart = json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}});
    world.patch::<Deployment>("web", restart).await;
    let pods = world
        .until_all::<Pod>(|pods| pods.len() == 2 && pods.values().any(|pod| why(pod).is_some()))
        .await;
    let waiting = pods.values().find_map(why).unwrap();
    assert_eq!(
        waiting,
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. \
         preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
    // the old one is deleted, and with it what blocked the new one
    world.patch::<Deployment>("web", json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}})).await;
    world.until("web", is_rolled_out).await;
    assert!(!world.pods("web", 1).await.contains_key(&old));
    stop.cancel();
    assert!(ever.await.unwrap().len() <= 3);
}

#[tokio::test]
async fn two_nodes_take_one_big_pod_each_and_the_third_waits() {
    let world = World::scheduled(&["edge-1", "edge-2"]).await;
    world
        .create(asking(
            "Deployment",
            "big",
            json!({"replicas": 3}),
            &cpu("1500m"),
        ))
        .await;
    let pods = world
        .until_all::<Pod>(|pods| {
            pods.values()
                .filter(|pod| super::super::pods::is_ready(pod))
                .count()
                == 2
                && pods.values().filter_map(why).count() == 1
        })
        .await;
    assert_eq!(pods.len(), 3);
    let nodes: BTreeSet<_> = pods
        .values()
        .filter_map(|pod| pod.spec.as_ref()?.node_name.clone())
        .collect();
    assert_eq!(nodes.len(), 2);
    assert!(
        pods.values()
            .find_map(why)
            .unwrap()
            .starts_with("0/2 nodes are available: 2 Insufficient cpu.")
    );
    world
        .patch::<Deployment>("big", json!({"spec": {"replicas": 2}}))
        .await;
    world.until("big", is_rolled_out).await;
    assert_eq!(
        world
            .until_all::<Pod>(|pods| pods.len() == 2)
            .await
            .values()
            .filter_map(why)
            .count(),
        0
    );
}

#[tokio::test]
async fn an_important_pod_takes_the_place_of_another() {
    let world = World::scheduled(&["edge-1"]).await;
    world
        .create(asking(
            "ReplicaSet",
            "low",
            json!({"replicas": 1}),
            &cpu("1500m"),
        ))
        .await;
    let low = world.pods("low", 1).await.into_keys().next().unwrap();
    world.until(&low, super::super::pods::is_ready).await;
    let mut high = asking("ReplicaSet", "high", json!({"replicas": 1}), &cpu("1500m"));
    high["spec"]["template"]["spec"]["priorityClassName"] = json!("system-cluster-critical");
    world.create(high).await;
    let is_there = |pod: &Pod| pod.labels()["app"] == "high" && super::super::pods::is_ready(pod);
    let pods = world
        .until_all::<Pod>(|pods| {
            pods.values().any(is_there) && pods.values().any(|pod| why(pod).is_some())
        })
        .await;
    assert!(!pods.contains_key(&low));
    assert!(
        pods.values()
            .find_map(why)
            .unwrap()
            .starts_with("0/1 nodes are available: 1 Insufficient cpu.")
    );
}

#[tokio::test]
async fn pods_that_a_node_refuses_are_not_made_without_end() {
    let world = World::scheduled(&["edge-1"]).await;
    let stop = CancellationToken::new();
    let ever = ever(&world, stop.clone()).await;
    let refused = json!({"metadata": {"labels": {"app": "no"}, "annotations": {"refuse": "yes"}}});
    for kind in ["ReplicaSet", "DaemonSet"] {
        let mut set = workload(kind, &format!("no-{}", kind.to_lowercase()), json!({}));
        set["spec"]["selector"]["matchLabels"] = json!({"kind": kind});
        set["spec"]["template"]["metadata"] = refused["metadata"].clone();
        set["spec"]["template"]["metadata"]["labels"] = json!({"kind": kind});
        world.create(set).await;
    }
    let mut own = job("no", "0", json!({}));
    own["spec"]["template"]["metadata"]["annotations"] = json!({"refuse": "yes"});
    world.create(own).await;
    let failed = |pods: &std::collections::BTreeMap<String, Pod>, kind: &str| {
        pods.values()
            .filter(|pod| {
                pod.labels().get("kind").is_some_and(|own| own == kind)
                    && super::super::pods::is_finished(pod)
            })
            .count()
    };
    world
        .until_all::<Pod>(|pods| failed(pods, "ReplicaSet") == 1)
        .await;
    world
        .until("no", |job: &Job| {
            job.status
                .as_ref()
                .is_some_and(|status| status.failed == Some(1))
        })
        .await;
    // the daemon set comes to its second pod after a second: much later than the others would without a wait
    let second = |set: &DaemonSet| set.status.is_some();
    world.until("no-daemonset", second).await;
    let first = world
        .until_all::<Pod>(|pods| failed(pods, "DaemonSet") == 1)
        .await;
    let first: BTreeSet<_> = first.values().filter_map(ResourceExt::uid).collect();
    let pods = world
        .until_all::<Pod>(|pods| {
            pods.values()
                .any(|pod| !first.contains(&pod.uid().unwrap()))
        })
        .await;
    assert_eq!((failed(&pods, "ReplicaSet"), pods.len()), (1, 3));
    assert_eq!(
        world
            .api::<ReplicaSet>()
            .get("no-replicaset")
            .await
            .unwrap()
            .status
            .unwrap()
            .replicas,
        0
    );
    stop.cancel();
    assert_eq!(ever.await.unwrap().len(), 4);
}
