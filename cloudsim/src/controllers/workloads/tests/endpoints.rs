//! Slices and Endpoints of services.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{controller_of, world::World};

const SERVICE: &str = "kubernetes.io/service-name";

fn service(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

/// Returns the addresses of a service's slices by readiness.
fn addresses(slices: &BTreeMap<String, EndpointSlice>, service: &str) -> Vec<(String, bool)> {
    let own = slices.values().filter(|slice| {
        slice
            .labels()
            .get(SERVICE)
            .is_some_and(|name| name == service)
    });
    let endpoints = own.flat_map(|slice| slice.endpoints.iter());
    let mut all: Vec<_> = endpoints
        .map(|one| {
            let ready = one
                .conditions
                .as_ref()
                .and_then(|conditions| conditions.ready);
            (one.addresses[0].clone(), ready == Some(true))
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn endpoints_of_a_service_without_a_selector_are_mirrored() {
    let world = World::new().await;
    world
        .create(service("own", json!({"ports": [{"port": 80}]})))
        .await;
    let subsets = json!([{"addresses": [{"ip": "10.1.2.3", "nodeName": "edge-1"}, {"ip": "fd00::1"}],
        "notReadyAddresses": [{"ip": "10.1.2.4"}], "ports": [{"name": "http", "port": 8080}]}]);
    let metadata = json!({"name": "own", "labels": {"team": "a"}, "annotations": {"note": "b"}});
    world
        .create(json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": subsets}))
        .await;
    let expected: Vec<_> = [("10.1.2.3", true), ("10.1.2.4", false), ("fd00::1", true)]
        .map(|(ip, ready)| (ip.to_owned(), ready))
        .to_vec();
    let slices = world
        .until_all::<EndpointSlice>(|slices| {
            slices.len() == 2 && addresses(slices, "own") == expected
        })
        .await;
    for slice in slices.values() {
        assert_eq!(
            slice.labels()["endpointslice.kubernetes.io/managed-by"],
            "endpointslicemirroring-controller.k8s.io"
        );
        assert_eq!(
            (
                slice.labels()["team"].as_str(),
                slice.annotations()["note"].as_str()
            ),
            ("a", "b")
        );
        let owner = controller_of(slice).unwrap();
        assert_eq!((&*owner.kind, &*owner.name), ("Endpoints", "own"));
        let port = &slice.ports.as_ref().unwrap()[0];
        assert_eq!(
            (port.name.as_deref(), port.port, port.protocol.as_deref()),
            (Some("http"), Some(8080), Some("TCP"))
        );
    }
    let many: Vec<_> = (0..1100)
        .map(|at| json!({"ip": format!("10.2.{}.{}", at / 250, at % 250)}))
        .collect();
    let patch = json!({"subsets": [{"addresses": many, "ports": [{"port": 8080}]}]});
    world.patch::<Endpoints>("own", patch).await;
    world
        .until_all::<EndpointSlice>(|slices| {
            slices.len() == 1 && addresses(slices, "own").len() == 1000
        })
        .await;
    let skip = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    world.patch::<Endpoints>("own", skip).await;
    world
        .until_all::<EndpointSlice>(|slices| slices.is_empty())
        .await;
}

#[tokio::test]
async fn endpoints_and_slices_go_with_their_service() {
    let world = World::new().await;
    let subsets = json!([{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]);
    for name in ["own", "free"] {
        let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": subsets});
        world.create(endpoints).await;
    }
    world
        .create(service("own", json!({"ports": [{"port": 80}]})))
        .await;
    world
        .create(service(
            "selecting",
            json!({"selector": {"a": "b"}, "ports": [{"port": 80}]}),
        ))
        .await;
    world
        .until_all::<EndpointSlice>(|slices| slices.len() == 2)
        .await;
    world
        .until_all::<Endpoints>(|endpoints| endpoints.len() == 3)
        .await;
    world.delete::<Service>("own").await;
    world.delete::<Service>("selecting").await;
    let left = world
        .until_all::<Endpoints>(|endpoints| endpoints.len() == 1)
        .await;
    assert!(
        left.contains_key("free"),
        "those of no service are nobody's but their author's"
    );
    world
        .until_all::<EndpointSlice>(|slices| slices.is_empty())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_has_a_slice_also_where_its_selector_matches_nothing() {
    const SERVICES: usize = 150;
    let world = World::new().await;
    let (services, slices) = (&world.api::<Service>(), &world.api::<EndpointSlice>());
    // each is created, loses its slices, is labelled, deleted, and created again
    stream::iter(0..SERVICES)
        .for_each_concurrent(16, |number| async move {
            let name = format!("s{number}");
            let object: Service = serde_json::from_value(service(
                &name,
                json!({"selector": {"none": name}, "ports": [{"port": 80}]}),
            ))
            .unwrap();
            for _ in 0..2 {
                services
                    .create(&PostParams::default(), &object)
                    .await
                    .unwrap();
                let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
                services
                    .patch(&name, &PatchParams::default(), &label)
                    .await
                    .unwrap();
                let own = kube::api::ListParams::default().labels(&format!("{SERVICE}={name}"));
                slices
                    .delete_collection(&DeleteParams::default(), &own)
                    .await
                    .unwrap();
                services
                    .delete(&name, &DeleteParams::default())
                    .await
                    .unwrap();
            }
            services
                .create(&PostParams::default(), &object)
                .await
                .unwrap();
        })
        .await;
    let uids: BTreeMap<_, _> = services
        .list(&kube::api::ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .map(|service| (service.name_any(), service.uid().unwrap()))
        .collect();
    let owner = |slice: &EndpointSlice| controller_of(slice).map(|owner| owner.uid.clone());
    let each = |slices: &BTreeMap<String, EndpointSlice>| {
        slices.len() == SERVICES
            && uids.values().all(|uid| {
                slices
                    .values()
                    .any(|slice| owner(slice).as_ref() == Some(uid))
            })
    };
    world.until_all::<EndpointSlice>(each).await;
    world
        .until_all::<Endpoints>(|endpoints| endpoints.len() == SERVICES)
        .await;
}

#[tokio::test]
async fn endpoints_with_the_label_of_another_manager_are_taken_over_and_labelled() {
    const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
    let world = World::new().await;
    let labels = json!({MANAGED_BY: "somebody"});
    world
        .create(
            json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web", "labels": labels}}),
        )
        .await;
    world
        .create(service(
            "web",
            json!({"selector": {"a": "b"}, "ports": [{"port": 80}]}),
        ))
        .await;
    world
        .until_all::<Endpoints>(|all| {
            all.get("web").is_some_and(|web| {
                web.labels()
                    .get(MANAGED_BY)
                    .is_some_and(|by| by == "endpoint-controller")
            })
        })
        .await;
}
