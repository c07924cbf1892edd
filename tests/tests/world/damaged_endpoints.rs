//! Damaged Endpoints and slices: those of a controller are recreated when the cloud starts; those of anybody else are kept, with their
//! mirrored slices, until they are written again.

use std::collections::BTreeMap;

use k8s_openapi::api::{core::v1::Endpoints, discovery::v1::EndpointSlice};
use kube::{Api, ResourceExt, api::ListParams};
use objectstore::Key;
use serde_json::{Value, json};
use sqlx::{Connection, Row};
use tests::{Object, Setup, World, eventually};

use crate::damage::by_hand;

const SERVICE: &str = "kubernetes.io/service-name";

fn object(api_version: &str, kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    object
}

fn endpoints(name: &str, address: &str) -> Value {
    object(
        "v1",
        "Endpoints",
        name,
        json!({"subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]}),
    )
}

fn slice(name: &str) -> Value {
    let endpoints = json!([{"addresses": ["10.1.2.5"]}]);
    let rest = json!({"addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 80}]});
    object("discovery.k8s.io/v1", "EndpointSlice", name, rest)
}

/// The slices, by name: the service of each, and its first address.
async fn slices(world: &World) -> BTreeMap<String, (String, String)> {
    let all = Api::<EndpointSlice>::namespaced(world.client(), "default")
        .list(&ListParams::default())
        .await
        .unwrap();
    let first = |slice: &EndpointSlice| {
        slice
            .endpoints
            .first()
            .map(|one| one.addresses[0].clone())
            .unwrap_or_default()
    };
    let service = |slice: &EndpointSlice| slice.labels().get(SERVICE).cloned().unwrap_or_default();
    all.iter()
        .map(|slice| (slice.name_any(), (service(slice), first(slice))))
        .collect()
}

/// The name of the slice of a service.
async fn slice_of(world: &World, service: &str) -> String {
    let wanted = format!("{service} has a slice");
    eventually(&wanted, async || {
        let all = slices(world).await;
        all.iter()
            .find(|(_, (own, _))| own == service)
            .map(|(name, _)| name.clone())
            .ok_or(all)
    })
    .await
}

/// Changes one byte of a stored object: within this text if there is one, else the first.
async fn damage(world: &World, collection: &str, name: &str, text: &str) {
    let mut hand = by_hand(&world.directory().join("cloud/cloudsim.db")).await;
    let query =
        "SELECT value FROM objects WHERE resource = ?1 AND namespace = 'default' AND name = ?2";
    let row = sqlx::query(query)
        .bind(collection)
        .bind(name)
        .fetch_one(&mut hand)
        .await
        .unwrap();
    let mut value: Vec<u8> = row.get(0);
    let place = value
        .windows(text.len())
        .position(|window| window == text.as_bytes());
    value[place.unwrap_or_default()] ^= 1;
    let update =
        "UPDATE objects SET value = ?1 WHERE resource = ?2 AND namespace = 'default' AND name = ?3";
    sqlx::query(update)
        .bind(value)
        .bind(collection)
        .bind(name)
        .execute(&mut hand)
        .await
        .unwrap();
    hand.close().await.unwrap();
}

fn damaged_keys(world: &World) -> Vec<String> {
    world
        .cloud()
        .store()
        .unwrap()
        .damaged_objects()
        .now()
        .keys()
        .map(Key::to_string)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
async fn damaged_endpoints_that_somebody_wrote_survive_a_restart_and_a_controllers_are_recreated() {
    let mut world = World::with(Setup {
        nodes: 0,
        durable: true,
        ..Setup::default()
    })
    .await;
    let ports = json!([{"port": 80}]);
    world
        .apply(&object(
            "v1",
            "Service",
            "own",
            json!({"spec": {"ports": ports}}),
        ))
        .await;
    world
        .apply(&object(
            "v1",
            "Service",
            "pods",
            json!({"spec": {"selector": {"a": "b"}, "ports": ports}}),
        ))
        .await;
    world.apply(&endpoints("own", "10.1.2.3")).await;
    world.apply(&endpoints("free", "10.1.2.4")).await;
    // the second has the form of a generated name
    for name in ["mine", "pods-abcde"] {
        world.apply(&slice(name)).await;
    }
    let (mirrored, generated) = (
        slice_of(&world, "own").await,
        slice_of(&world, "pods").await,
    );
    let pods = Object::of(&world.client(), &endpoints("pods", "10.1.2.9"));
    eventually("the service with a selector has Endpoints", async || {
        pods.find().await.ok_or(())
    })
    .await;
    drop(pods);
    let before = slices(&world).await;
    world.stop_cloud().await;
    let slices_ = "endpointslices.discovery.k8s.io";
    for (collection, name, text) in [
        ("endpoints", "own", "10.1.2.3"),
        ("endpoints", "free", "not there"),
        ("endpoints", "pods", "not there"),
        (slices_, "mine", "10.1.2.5"),
        (slices_, "pods-abcde", "10.1.2.5"),
        (slices_, generated.as_str(), "not there"),
    ] {
        damage(&world, collection, name, text).await;
    }
    world.start_cloud().await;
    let kept = [
        "endpoints default/free".to_owned(),
        "endpoints default/own".to_owned(),
        format!("{slices_} default/mine"),
        format!("{slices_} default/pods-abcde"),
    ];
    assert_eq!(damaged_keys(&world), kept);
    assert!(
        slices(&world).await.contains_key(&mirrored),
        "the mirrored slice stays"
    );
    // written again, they are as before
    for manifest in [
        endpoints("own", "10.1.2.3"),
        endpoints("free", "10.1.2.4"),
        slice("mine"),
        slice("pods-abcde"),
    ] {
        world.apply(&manifest).await;
    }
    let again = slice_of(&world, "pods").await;
    assert_ne!(again, generated, "the controller's slice is another one");
    eventually("all others are what they were", async || {
        let mut now = slices(&world).await;
        let own = now.remove(&again);
        let others: BTreeMap<_, _> = before
            .clone()
            .into_iter()
            .filter(|(name, _)| *name != generated)
            .collect();
        if own.is_some() && now == others {
            Ok(())
        } else {
            Err(now)
        }
    })
    .await;
    let all = Api::<Endpoints>::namespaced(world.client(), "default");
    eventually(
        "the service with a selector has Endpoints again",
        async || all.get_opt("pods").await.unwrap().ok_or(()),
    )
    .await;
    assert_eq!(damaged_keys(&world), [""; 0]);
    // and stay over a restart with nothing damaged
    let (before, uid) = (slices(&world).await, all.get("own").await.unwrap().uid());
    drop(all);
    world.stop_cloud().await;
    world.start_cloud().await;
    let all = Api::<Endpoints>::namespaced(world.client(), "default");
    assert_eq!(
        (slices(&world).await, all.get("own").await.unwrap().uid()),
        (before, uid)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_endpoints_of_a_user_do_not_hold_up_slices_of_services() {
    let mut world = World::with(Setup {
        nodes: 0,
        durable: true,
        ..Setup::default()
    })
    .await;
    world.apply(&endpoints("free", "10.1.2.4")).await;
    world.stop_cloud().await;
    damage(&world, "endpoints", "free", "10.1.2.4").await;
    world.start_cloud().await;
    assert_eq!(damaged_keys(&world), ["endpoints default/free"]);
    let spec = json!({"spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
    world.apply(&object("v1", "Service", "pods", spec)).await;
    slice_of(&world, "pods").await;
    // Endpoints wait: a damaged object does not count as deleted
    let pods = Object::of(&world.client(), &endpoints("pods", "10.1.2.9"));
    assert!(pods.find().await.is_none());
    world.apply(&endpoints("free", "10.1.2.4")).await;
    eventually("the service has Endpoints", async || {
        pods.find().await.ok_or(())
    })
    .await;
}
