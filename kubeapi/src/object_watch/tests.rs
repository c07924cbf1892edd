//! Tests of [`super`].

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api as Objects, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use objectstore::MemoryStore;
use serde_json::json;

use super::*;
use crate::Api;

/// A cache, which stores whatever it is given, with one ConfigMap.
async fn one(data: serde_json::Value) -> Client {
    let api = Api::builder(MemoryStore::new()).build();
    let client = api.client("default");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}, "data": data});
    let maps = untyped(&client);
    maps.create(
        &PostParams::default(),
        &serde_json::from_value(object).unwrap(),
    )
    .await
    .unwrap();
    client
}

fn untyped(client: &Client) -> Objects<DynamicObject> {
    Objects::default_namespaced_with(client.clone(), &ApiResource::erase::<ConfigMap>(&()))
}

async fn set(client: &Client, data: serde_json::Value) {
    let (patch, params) = (json!({"data": data}), PatchParams::default());
    untyped(client)
        .patch("one", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
}

fn value(map: &ConfigMap) -> &str {
    &map.data.as_ref().unwrap()["key"]
}

#[tokio::test]
async fn objects_are_listed_and_their_changes_follow() {
    let client = one(json!({"key": "a"})).await;
    let mut events = watch_objects_with_backoff::<ConfigMap>(client.clone(), Config::default());
    assert!(matches!(events.next().await, Some(Ok(Event::Init))));
    let Some(Ok(Event::InitApply(map))) = events.next().await else {
        panic!("not listed")
    };
    assert_eq!((value(&map), map.name_any().as_str()), ("a", "one"));
    assert!(matches!(events.next().await, Some(Ok(Event::InitDone))));
    set(&client, json!({"key": "b"})).await;
    let Some(Ok(Event::Apply(map))) = events.next().await else {
        panic!("no change")
    };
    assert_eq!(value(&map), "b");
    let deleted = untyped(&client)
        .delete("one", &DeleteParams::default())
        .await;
    deleted.unwrap();
    let Some(Ok(Event::Delete(map))) = events.next().await else {
        panic!("no deletion")
    };
    assert_eq!(value(&map), "b");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_holds_up_the_list_until_it_is_repaired() {
    for list in [true, false] {
        let first = if list { json!(1) } else { json!({"key": "a"}) };
        let client = one(first).await;
        let mut events = watch_objects::<ConfigMap>(client.clone(), Config::default());
        assert!(matches!(events.next().await, Some(Ok(Event::Init))));
        if !list {
            assert!(matches!(events.next().await, Some(Ok(Event::InitApply(_)))));
            assert!(matches!(events.next().await, Some(Ok(Event::InitDone))));
            set(&client, json!(1)).await;
        }
        for _ in 0..2 {
            let Some(Err(watcher::Error::WatchFailed(error))) = events.next().await else {
                panic!("an object that is no ConfigMap was passed over")
            };
            assert!(error.to_string().contains("invalid type"), "{error}");
            assert!(matches!(events.next().await, Some(Ok(Event::Init))));
        }
        set(&client, json!({"key": "c"})).await;
        let mut seen = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::InitApply(map)) => seen.push(value(&map).to_owned()),
                Ok(Event::InitDone) => break,
                Ok(_) | Err(_) => {}
            }
        }
        assert_eq!(seen, ["c"], "list: {list}");
    }
}
