//! Measures the API alone, in process, with its store in memory.

use std::time::Instant;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Client,
    api::{Api, ObjectMeta, PostParams},
};
use objectstore::MemoryStore;
use serde_json::{Value, json};

use crate::{Figure, processes::processor_seconds};

const CREATES: usize = 20_000;
/// How many requests are in flight at a time.
const AT_ONCE: usize = 16;

/// Returns a client of a new API with the namespace `default`.
pub(crate) async fn client() -> anyhow::Result<Client> {
    let client = apiserver::builder(MemoryStore::new())
        .build()
        .client("default");
    let metadata = ObjectMeta {
        name: Some("default".into()),
        ..ObjectMeta::default()
    };
    let namespace = Namespace {
        metadata,
        ..Namespace::default()
    };
    Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await?;
    Ok(client)
}

/// Measures how many pods are created in a second, including admission.
pub(crate) async fn creates() -> anyhow::Result<Vec<Figure>> {
    let api = Api::<Pod>::default_namespaced(client().await?);
    let pods = (0..CREATES).map(pod).collect::<Result<Vec<_>, _>>()?;
    let (begun, used) = (Instant::now(), processor_seconds()?);
    let created = stream::iter(pods).map(|pod| {
        let api = api.clone();
        async move {
            tokio::spawn(async move { api.create(&PostParams::default(), &pod).await.map(drop) })
                .await
        }
    });
    let outcomes: Vec<_> = created.buffer_unordered(AT_ONCE).collect().await;
    for outcome in outcomes {
        outcome??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let processor = processor_seconds()? - used;
    Ok(vec![
        Figure {
            name: "api.creates".into(),
            value: CREATES as f64 / seconds,
            unit: "pods/s",
        },
        // Unlike the rate, this does not depend on the machine's other load.
        Figure {
            name: "api.creates.processor".into(),
            value: processor / CREATES as f64 * 1e6,
            unit: "us/pod",
        },
    ])
}

/// Returns a pod as the API stores it.
pub(crate) async fn stored_pod() -> anyhow::Result<Value> {
    let api = Api::<Pod>::default_namespaced(client().await?);
    Ok(serde_json::to_value(
        api.create(&PostParams::default(), &pod(0)?).await?,
    )?)
}

pub(crate) fn pod(number: usize) -> Result<Pod, serde_json::Error> {
    serde_json::from_value(json!({
        "metadata": {"name": format!("pod-{number}"), "labels": {"app": "bench"}},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.36", "command": ["sleep", "infinity"]}]},
    }))
}
