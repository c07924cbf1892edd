//! The cloud's binder of persistent volume claims, on its own API: which claim gets which volume, and what becomes of both.

use serde_json::{Value, json};
use tests::{Object, Setup, World, eventually, manifests::pod};

/// A cloud; nodes would only be in the way.
async fn cloud() -> World {
    World::with(Setup {
        nodes: 0,
        ..Setup::default()
    })
    .await
}

fn volume(name: &str, size: &str, more: &Value) -> Value {
    let mut spec = json!({"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "disk",
        "hostPath": {"path": format!("/srv/{name}")}});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
}

fn claim(name: &str, size: &str, more: &Value) -> Value {
    let mut spec = json!({"resources": {"requests": {"storage": size}}, "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk"});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn in_phase(phase: &str) -> impl Fn(&Value) -> bool {
    move |object| object["status"]["phase"] == phase
}

/// Applies it, and waits until the binder has made it available.
async fn available(world: &World, volume: &Value) -> Object {
    let place = world.apply(volume).await;
    place.until("Available", in_phase("Available")).await;
    place
}

#[tokio::test]
async fn a_claim_gets_the_smallest_volume_that_does() {
    let world = cloud().await;
    for (name, size) in [("small", "1Gi"), ("large", "9Gi"), ("medium", "3Gi")] {
        available(&world, &volume(name, size, &json!({}))).await;
    }
    let place = world.apply(&claim("data", "2Gi", &json!({}))).await;
    let bound = place.until("Bound", in_phase("Bound")).await;
    assert_eq!(bound["spec"]["volumeName"], "medium");
    assert_eq!(bound["status"]["capacity"]["storage"], "3Gi");
    assert_eq!(bound["status"]["accessModes"], json!(["ReadWriteOnce"]));
    let medium = world
        .object_of_cluster("v1", "PersistentVolume", "medium")
        .get()
        .await;
    assert_eq!(medium["spec"]["claimRef"]["uid"], bound["metadata"]["uid"]);
    assert_eq!(medium["status"]["phase"], "Bound");
}

#[tokio::test]
async fn two_claims_never_share_a_volume_and_the_second_waits() {
    let world = cloud().await;
    let places = [
        world.apply(&claim("first", "1Gi", &json!({}))).await,
        world.apply(&claim("second", "1Gi", &json!({}))).await,
    ];
    world.apply(&volume("one", "1Gi", &json!({}))).await;
    eventually("one of them is bound", async || {
        let phases = [
            places[0].get().await["status"]["phase"].clone(),
            places[1].get().await["status"]["phase"].clone(),
        ];
        if phases.iter().filter(|phase| **phase == "Bound").count() == 1 {
            Ok(())
        } else {
            Err(phases)
        }
    })
    .await;
    world.apply(&volume("two", "1Gi", &json!({}))).await;
    let mut volumes = Vec::new();
    for place in &places {
        volumes.push(place.until("Bound", in_phase("Bound")).await["spec"]["volumeName"].clone());
    }
    assert_ne!(volumes[0], volumes[1]);
}

#[tokio::test]
async fn a_volume_without_its_claim_is_released_and_a_claim_without_its_volume_lost() {
    let world = cloud().await;
    for name in ["kept", "goes"] {
        let more = json!({"storageClassName": name});
        available(&world, &volume(name, "1Gi", &more)).await;
        world
            .apply(&claim(name, "1Gi", &more))
            .await
            .until("Bound", in_phase("Bound"))
            .await;
    }
    let unprotected = json!({"metadata": {"finalizers": null}});
    let claim_of_kept = world.object("v1", "PersistentVolumeClaim", "kept");
    claim_of_kept.merge(unprotected.clone()).await;
    claim_of_kept.delete(None).await;
    let kept = world.object_of_cluster("v1", "PersistentVolume", "kept");
    kept.until("Released", in_phase("Released")).await;
    // what was another's is given to nobody
    let again = world
        .apply(&claim("again", "1Gi", &json!({"storageClassName": "kept"})))
        .await;
    let goes = world.object_of_cluster("v1", "PersistentVolume", "goes");
    // in this order: the finalizer of a volume that is not being deleted is restored
    goes.delete(None).await;
    goes.merge(unprotected).await;
    world
        .object("v1", "PersistentVolumeClaim", "goes")
        .until("Lost", in_phase("Lost"))
        .await;
    assert_ne!(again.get().await["status"]["phase"], "Bound");
}

#[tokio::test]
async fn a_late_class_waits_for_the_pods_node() {
    let world = World::new(2).await;
    world.until_ready().await;
    world
        .apply(
            &json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "disk"},
            "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}),
        )
        .await;
    for node in ["edge-1", "edge-2"] {
        let terms = json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]);
        let near = json!({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}});
        available(&world, &volume(&format!("of-{node}"), "1Gi", &near)).await;
    }
    let place = world.apply(&claim("data", "1Gi", &json!({}))).await;
    // one of another class, made later, shows that the binder has been here
    available(
        &world,
        &volume("other", "1Gi", &json!({"storageClassName": "other"})),
    )
    .await;
    let other = world
        .apply(&claim(
            "other",
            "1Gi",
            &json!({"storageClassName": "other"}),
        ))
        .await;
    other.until("Bound", in_phase("Bound")).await;
    assert_ne!(place.get().await["status"]["phase"], "Bound");
    let mut user = pod("user", Some("edge-2"));
    user["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    world.apply(&user).await;
    let bound = place.until("Bound", in_phase("Bound")).await;
    assert_eq!(bound["spec"]["volumeName"], "of-edge-2");
}

#[tokio::test]
async fn a_claim_that_cannot_be_bound_is_told_why() {
    let world = cloud().await;
    world
        .apply(&claim("data", "1Gi", &json!({"storageClassName": ""})))
        .await;
    let events =
        kube::Api::<k8s_openapi::api::core::v1::Event>::namespaced(world.client(), "default");
    let event = eventually("an event of the claim", async || {
        let all = events
            .list(&kube::api::ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let of_it = |event: &k8s_openapi::api::core::v1::Event| {
            event.involved_object.name.as_deref() == Some("data")
        };
        all.items
            .into_iter()
            .find(of_it)
            .ok_or_else(|| "none yet".to_owned())
    })
    .await;
    assert_eq!(event.reason.as_deref(), Some("FailedBinding"));
    let words = "no persistent volumes available for this claim and no storage class is set";
    assert_eq!(
        (event.message.as_deref(), event.type_.as_deref()),
        (Some(words), Some("Normal"))
    );
    assert_eq!(
        event.involved_object.kind.as_deref(),
        Some("PersistentVolumeClaim")
    );
}

#[tokio::test]
async fn a_claim_that_names_its_volume_gets_no_other() {
    let world = cloud().await;
    available(&world, &volume("small", "1Gi", &json!({}))).await;
    let place = world
        .apply(&claim("data", "1Gi", &json!({"volumeName": "named"})))
        .await;
    available(
        &world,
        &volume("smaller", "1Gi", &json!({"storageClassName": "other"})),
    )
    .await;
    assert_ne!(place.get().await["status"]["phase"], "Bound");
    world.apply(&volume("named", "5Gi", &json!({}))).await;
    let bound = place.until("Bound", in_phase("Bound")).await;
    assert_eq!(bound["spec"]["volumeName"], "named");
    let small = world
        .object_of_cluster("v1", "PersistentVolume", "small")
        .get()
        .await;
    assert_eq!(small["status"]["phase"], "Available");
}
