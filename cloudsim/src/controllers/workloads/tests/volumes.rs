//! Claims get directories on the nodes of their pods, and keep them as long as they are used.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
};
use kube::{Api, ResourceExt, api::DeleteParams, runtime::wait::await_condition};
use serde_json::{Value, json};
use testkit::WAIT_TIMEOUT;

use super::{template, workload, world::World};
use crate::controllers::volume_provisioner::ensure_class;

async fn world() -> World {
    let world = World::scheduled(&["edge-1", "edge-2"]).await;
    world
        .create(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}),
        )
        .await;
    ensure_class(&world.client).await.unwrap();
    world
}

fn claim(name: &str, class: Option<&str>) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": class}})
}

/// A pod with one CPU that uses the claim.
fn user(name: &str, claim: &str) -> Value {
    let mut pod = template(name, "one");
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim
        .status
        .as_ref()
        .is_some_and(|status| status.phase.as_deref() == Some("Bound"))
}

fn volume_of(claim: &PersistentVolumeClaim) -> String {
    claim.spec.as_ref().unwrap().volume_name.clone().unwrap()
}

async fn until_volume(
    world: &World,
    name: &str,
    what: &str,
    condition: impl Fn(Option<&PersistentVolume>) -> bool,
) -> Option<PersistentVolume> {
    let volumes = Api::<PersistentVolume>::all(world.client.clone());
    let condition = Box::pin(await_condition(volumes.clone(), name, condition));
    let waited = tokio::time::timeout(WAIT_TIMEOUT, condition).await;
    match waited {
        Ok(volume) => volume.unwrap(),
        Err(_) => panic!(
            "{name} is not {what}: {:?}",
            volumes.get_opt(name).await.unwrap()
        ),
    }
}

fn phase_is(phase: &str) -> impl Fn(Option<&PersistentVolume>) -> bool {
    move |volume| volume.and_then(|volume| volume.status.as_ref()?.phase.as_deref()) == Some(phase)
}

/// Ends the volume's helper pod as its node does.
async fn end_helper(world: &World, volume: &str, phase: &str) {
    let pods = Api::<Pod>::namespaced(world.client.clone(), "kube-system");
    let name = format!("helper-pod-delete-{volume}");
    let runs = |pod: Option<&Pod>| {
        pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none() && super::is_active(pod))
    };
    tokio::time::timeout(WAIT_TIMEOUT, await_condition(pods.clone(), &name, runs))
        .await
        .unwrap()
        .unwrap();
    let patch = kube::api::Patch::Merge(json!({"status": {"phase": phase}}));
    pods.patch_status(&name, &Default::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_stateful_sets_claims_are_directories_until_they_are_deleted() {
    let world = world().await;
    let templates = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}}]);
    let spec = json!({"replicas": 2, "serviceName": "db", "volumeClaimTemplates": templates});
    world.create(workload("StatefulSet", "db", spec)).await;
    world
        .until("db", |set: &StatefulSet| {
            set.status
                .as_ref()
                .is_some_and(|status| status.ready_replicas == Some(2))
        })
        .await;
    for name in ["db-0", "db-1"] {
        let pod = world.api::<Pod>().get(name).await.unwrap();
        let node = pod.spec.unwrap().node_name.unwrap();
        let claim = world.until(&format!("data-{name}"), is_bound).await;
        assert_eq!(
            claim.spec.as_ref().unwrap().storage_class_name.as_deref(),
            Some("standard")
        );
        assert_eq!(
            claim.annotations()["volume.kubernetes.io/selected-node"],
            node
        );
        assert_eq!(claim.finalizers(), ["kubernetes.io/pvc-protection"]);
        let volume = until_volume(&world, &volume_of(&claim), "bound", phase_is("Bound"))
            .await
            .unwrap();
        assert_eq!(volume.annotations()["outrigger.dev/node"], node);
        assert!(
            volume
                .finalizers()
                .iter()
                .any(|own| own == "kubernetes.io/pv-protection")
        );
        assert!(volume.status.unwrap().last_phase_transition_time.is_some());
    }
    let claim = world
        .api::<PersistentVolumeClaim>()
        .get("data-db-0")
        .await
        .unwrap();
    let volume = volume_of(&claim);
    world.delete::<PersistentVolumeClaim>("data-db-0").await;
    let kept = world.until("data-db-0", |claim: &PersistentVolumeClaim| {
        claim.metadata.deletion_timestamp.is_some()
    });
    assert_eq!(kept.await.uid(), claim.uid(), "its pod uses it");
    world.delete::<StatefulSet>("db").await;
    world
        .until_all::<PersistentVolumeClaim>(|claims| !claims.contains_key("data-db-0"))
        .await;
    end_helper(&world, &volume, "Failed").await;
    end_helper(&world, &volume, "Succeeded").await;
    until_volume(&world, &volume, "gone", |volume| volume.is_none()).await;
    let other = world
        .api::<PersistentVolumeClaim>()
        .get("data-db-1")
        .await
        .unwrap();
    assert!(is_bound(&other), "nobody has deleted it");
}

#[tokio::test]
async fn a_retained_volume_stays_when_its_claim_goes() {
    let world = world().await;
    world
        .create(json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "kept"},
            "provisioner": "outrigger.dev/local-path", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}))
        .await;
    world.create(claim("data", Some("kept"))).await;
    world.create(user("one", "data")).await;
    let volume = volume_of(&world.until("data", is_bound).await);
    world.delete::<Pod>("one").await;
    world.delete::<PersistentVolumeClaim>("data").await;
    until_volume(&world, &volume, "released", phase_is("Released")).await;
    let volumes = Api::<PersistentVolume>::all(world.client.clone());
    volumes
        .delete(&volume, &DeleteParams::default())
        .await
        .unwrap();
    until_volume(&world, &volume, "gone", |volume| volume.is_none()).await;
    let helpers = Api::<Pod>::namespaced(world.client.clone(), "kube-system");
    assert!(
        helpers
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .is_empty(),
        "its directory stays"
    );
}

#[tokio::test]
async fn pods_that_share_a_claim_are_on_one_node() {
    let world = world().await;
    world.create(claim("data", None)).await;
    for name in ["one", "two", "three"] {
        world.create(user(name, "data")).await;
    }
    let has_node = |pod: &Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
    };
    let node = |pod: Pod| pod.spec.unwrap().node_name.unwrap();
    let first = node(world.until("one", has_node).await);
    for name in ["two", "three"] {
        assert_eq!(node(world.until(name, has_node).await), first);
    }
}
