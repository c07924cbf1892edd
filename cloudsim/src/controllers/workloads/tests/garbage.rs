//! Owners of kinds that are defined while the collector runs, and owners that never existed.

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind},
    runtime::wait::{await_condition, conditions},
};
use serde_json::{Value, json};

use super::world::World;

/// Defines the kind, and returns its API in the namespace `default`.
async fn define(world: &World) -> Api<DynamicObject> {
    let names =
        json!({"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    world
        .create(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "boats.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names,
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
        }))
        .await;
    let definitions = Api::<CustomResourceDefinition>::all(world.client.clone());
    await_condition(
        definitions,
        "boats.example.com",
        conditions::is_crd_established(),
    )
    .await
    .unwrap();
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("example.com", "v1", "Boat"),
        "boats",
    );
    Api::default_namespaced_with(world.client.clone(), &resource)
}

async fn boat(world: &World, boats: &Api<DynamicObject>, name: &str) -> String {
    world
        .create(json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}}))
        .await;
    boats.get(name).await.unwrap().uid().unwrap()
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    let version = if kind == "Boat" {
        "example.com/v1"
    } else {
        "v1"
    };
    json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": true})
}

async fn sail(world: &World, name: &str, owners: &[Value]) {
    let metadata = json!({"name": name, "ownerReferences": owners});
    world
        .create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
        .await;
}

#[tokio::test]
async fn owners_of_a_new_kind_take_along_or_leave_behind_what_they_own() {
    let world = World::new().await;
    let boats = define(&world).await;
    for name in ["background", "foreground", "orphan"] {
        let uid = boat(&world, &boats, name).await;
        sail(&world, name, &[owner("Boat", name, &uid)]).await;
    }
    boats
        .delete("background", &DeleteParams::background())
        .await
        .unwrap();
    boats
        .delete("foreground", &DeleteParams::foreground())
        .await
        .unwrap();
    boats
        .delete("orphan", &DeleteParams::orphan())
        .await
        .unwrap();
    for name in ["background", "foreground", "orphan"] {
        await_condition(boats.clone(), name, |boat: Option<&DynamicObject>| {
            boat.is_none()
        })
        .await
        .unwrap();
    }
    let left = world
        .until_all::<ConfigMap>(|maps| {
            !maps.contains_key("background")
                && !maps.contains_key("foreground")
                && maps
                    .get("orphan")
                    .is_some_and(|map| map.owner_references().is_empty())
        })
        .await;
    assert!(left["orphan"].metadata.deletion_timestamp.is_none());
}

#[tokio::test]
async fn who_is_owned_by_nobody_that_ever_was_goes() {
    let world = World::new().await;
    let nobody = "00000000-0000-0000-0000-000000000000";
    sail(&world, "known", &[owner("Secret", "s", nobody)]).await;
    sail(&world, "free", &[]).await;
    let other = world
        .api::<ConfigMap>()
        .get("free")
        .await
        .unwrap()
        .uid()
        .unwrap();
    sail(
        &world,
        "half",
        &[
            owner("Secret", "s", nobody),
            owner("ConfigMap", "free", &other),
        ],
    )
    .await;
    sail(
        &world,
        "later",
        &[owner("Boat", "b", "00000000-0000-0000-0000-000000000001")],
    )
    .await;
    let has_one_owner =
        |map: Option<&ConfigMap>| map.is_some_and(|map| map.owner_references().len() == 1);
    world
        .until_all::<ConfigMap>(|maps| {
            !maps.contains_key("known") && has_one_owner(maps.get("half"))
        })
        .await;
    // while the kind is not served, it cannot be known whether the owner exists
    assert!(
        world
            .api::<ConfigMap>()
            .get_opt("later")
            .await
            .unwrap()
            .is_some()
    );
    define(&world).await;
    world
        .until_all::<ConfigMap>(|maps| !maps.contains_key("later"))
        .await;
    assert!(
        world
            .api::<ConfigMap>()
            .get_opt("free")
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_kind_that_goes_and_comes_again_owns_again() {
    let world = World::new().await;
    let boats = define(&world).await;
    let uid = boat(&world, &boats, "first").await;
    sail(&world, "first", &[owner("Boat", "first", &uid)]).await;
    let definitions = Api::<CustomResourceDefinition>::all(world.client.clone());
    definitions
        .delete("boats.example.com", &DeleteParams::default())
        .await
        .unwrap();
    let gone = |definition: Option<&CustomResourceDefinition>| definition.is_none();
    await_condition(definitions, "boats.example.com", gone)
        .await
        .unwrap();
    let boats = define(&world).await;
    world
        .until_all::<ConfigMap>(|maps| !maps.contains_key("first"))
        .await;
    let uid = boat(&world, &boats, "second").await;
    sail(&world, "second", &[owner("Boat", "second", &uid)]).await;
    boats
        .delete("second", &DeleteParams::background())
        .await
        .unwrap();
    world
        .until_all::<ConfigMap>(|maps| !maps.contains_key("second"))
        .await;
}

#[tokio::test]
async fn a_circle_of_owners_goes_whole() {
    let world = World::new().await;
    let names = ["one", "two", "three"];
    for name in names {
        sail(&world, name, &[]).await;
    }
    let api = world.api::<ConfigMap>();
    for (at, name) in names.iter().enumerate() {
        let above = names[(at + names.len() - 1) % names.len()];
        let uid = api.get(above).await.unwrap().uid().unwrap();
        let owners = json!({"metadata": {"ownerReferences": [owner("ConfigMap", above, &uid)]}});
        world.patch::<ConfigMap>(name, owners).await;
    }
    api.delete("one", &DeleteParams::foreground())
        .await
        .unwrap();
    world.until_all::<ConfigMap>(|maps| maps.is_empty()).await;
}
