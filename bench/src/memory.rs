//! Measures the memory of objects in the in-memory store, compared with their JSON, and of watches.

use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, PostParams, WatchParams};
use objectstore::{Expect, Key, MemoryStore, Page, Resource, Scope, Store, Write};
use serde_json::json;

use crate::{Figure, processes::resident};

const OBJECTS: usize = 100_000;
/// How many writes are committed together; what is in flight is freed before the measurement.
const AT_ONCE: usize = 100;

/// Measures this process's memory for each object, and its ratio to the object's JSON. Objects are as an API stores them: with their
/// defaults, about 1.5 kilobytes.
pub(crate) async fn objects() -> anyhow::Result<Vec<Figure>> {
    let resource = Resource::new("", "pods");
    let template = super::api::stored_pod().await?;
    let store = MemoryStore::new();
    let before = resident(std::process::id())?;
    for first in (0..OBJECTS).step_by(AT_ONCE) {
        let writes = (first..first + AT_ONCE).map(|number| {
            let (name, mut value) = (format!("pod-{number}"), template.clone());
            value["metadata"]["name"] = json!(name);
            let key = Key::new(resource.clone(), "default", name);
            Write {
                key,
                expect: Expect::Absent,
                value: Some(value),
            }
        });
        store.commit(writes.collect()).await?;
    }
    let taken = (resident(std::process::id())? - before) * 1e6 / OBJECTS as f64;
    let scope = Scope {
        resource,
        namespace: None,
    };
    let listed = store.list(&scope, &Page::default()).await?;
    let json = listed
        .items
        .iter()
        .map(|object| object.json.len())
        .sum::<usize>() as f64
        / OBJECTS as f64;
    Ok(vec![
        Figure {
            name: "api.memory".into(),
            value: taken,
            unit: "bytes/object",
        },
        Figure {
            name: "api.memory-to-json".into(),
            value: taken / json,
            unit: "times",
        },
    ])
}

/// The open watches.
const WATCHES: usize = 10_000;

/// Measures this process's memory for each watch of pods, with its client in this process. Each has received one event.
pub(crate) async fn watches() -> anyhow::Result<Vec<Figure>> {
    let client = super::api::client().await?;
    let api = Api::<Pod>::default_namespaced(client);
    api.create(&PostParams::default(), &super::api::pod(0)?)
        .await?;
    let before = resident(std::process::id())?;
    let mut open = Vec::with_capacity(WATCHES);
    for _ in 0..WATCHES {
        let mut watch = Box::pin(api.watch(&WatchParams::default(), "0").await?);
        watch.try_next().await?;
        open.push(watch);
    }
    let taken = (resident(std::process::id())? - before) * 1e3 / WATCHES as f64;
    Ok(vec![Figure {
        name: "api.watches".into(),
        value: taken,
        unit: "kB/watch",
    }])
}
