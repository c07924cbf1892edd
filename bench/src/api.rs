//! The API alone, in process, its store in memory.

use std::time::Instant;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Client,
    api::{Api, ObjectMeta, PostParams},
};
use kubeapi::store::MemoryStore;
use serde_json::{Value, json};

use crate::{Figure, processes::processor_seconds};

const CREATES: usize = 20_000;
/// Requests under way at a time.
const AT_ONCE: usize = 16;

/// A client of a new API with the namespace `default`.
pub(crate) async fn client() -> anyhow::Result<Client> {
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
    let (begun, used) = (Instant::now(), processor_seconds()?);
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
    let processor = processor_seconds()? - used;
    Ok(vec![
        Figure { name: "api.creates", value: CREATES as f64 / seconds, unit: "pods/s" },
        // what others leave of the machine does not change this one
        Figure { name: "api.creates.processor", value: processor / CREATES as f64 * 1e6, unit: "us/pod" },
    ])
}

/// A pod as the API stores it.
pub(crate) async fn stored_pod() -> anyhow::Result<Value> {
    let api = Api::<Pod>::default_namespaced(client().await?);
    Ok(serde_json::to_value(api.create(&PostParams::default(), &pod(0)?).await?)?)
}

fn pod(number: usize) -> Result<Pod, serde_json::Error> {
    serde_json::from_value(json!({
        "metadata": {"name": format!("pod-{number}"), "labels": {"app": "bench"}},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"]}]},
    }))
}
