//! The API alone, in process, its store in memory.

use std::{pin::pin, time::Instant};

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::{
    Client,
    api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams},
};
use kubeapi::store::MemoryStore;
use serde_json::json;

use crate::Figure;

const CREATES: usize = 20_000;
const WATCHERS: usize = 1_000;
const EVENTS: usize = 100;
/// Requests under way at a time.
const AT_ONCE: usize = 16;

async fn client() -> anyhow::Result<Client> {
    let client = kubeapi::Api::builder(MemoryStore::new()).build().client("default");
    let metadata = ObjectMeta { name: Some("default".into()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    Ok(client)
}

/// Pods created in a second, admission included.
pub(crate) async fn creates() -> anyhow::Result<Vec<Figure>> {
    let api = Api::<Pod>::default_namespaced(client().await?);
    let pods = (0..CREATES).map(pod).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    let created =
        stream::iter(pods).map(|pod| {
            let api = api.clone();
            async move {
                tokio::spawn(async move { api.create(&PostParams::default(), &pod).await.map(drop) }).await
            }
        });
    let outcomes: Vec<_> = created.buffer_unordered(AT_ONCE).collect().await;
    for outcome in outcomes {
        outcome??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(vec![Figure { name: "api.creates", value: CREATES as f64 / seconds, unit: "pods/s" }])
}

fn pod(number: usize) -> Result<Pod, serde_json::Error> {
    serde_json::from_value(json!({
        "metadata": {"name": format!("pod-{number}"), "labels": {"app": "bench"}},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"]}]},
    }))
}

/// Events delivered in a second to many watchers of one collection.
pub(crate) async fn fanout() -> anyhow::Result<Vec<Figure>> {
    let client = client().await?;
    let api = Api::<ConfigMap>::default_namespaced(client);
    let begun = Instant::now();
    let mut watchers = Vec::with_capacity(WATCHERS);
    for _ in 0..WATCHERS {
        let events = api.watch(&WatchParams::default(), "1").await?;
        watchers.push(tokio::spawn(async move {
            let mut events = pin!(events);
            let mut seen = 0;
            while seen < EVENTS {
                match events.next().await {
                    Some(Ok(WatchEvent::Added(_))) => seen += 1,
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(anyhow::Error::new(error)),
                    None => anyhow::bail!("a watch has ended"),
                }
            }
            Ok(())
        }));
    }
    for number in 0..EVENTS {
        let metadata = ObjectMeta { name: Some(format!("map-{number}")), ..ObjectMeta::default() };
        api.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
    }
    for watcher in watchers {
        watcher.await??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    Ok(vec![Figure { name: "api.fanout", value: (WATCHERS * EVENTS) as f64 / seconds, unit: "events/s" }])
}
