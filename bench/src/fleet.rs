//! Measures the whole loop: a cloud and nodes in one process, the nodes on the simulated runtime, each with a store on disk.

use std::time::Instant;

use anyhow::Context;
use cloudsim::{Cloud, Options};
use futures::{StreamExt, TryStreamExt, stream};
use hollow::fleet::{self, Fleet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::{
    Figure,
    processes::{is_ready, is_running, resident},
    wait::{until, until_gone},
};

const NODES: usize = 10;
const PODS: usize = 1_000;
/// How many creations are in flight at a time.
const AT_ONCE: usize = 16;

/// Measures from the first creation until every pod is Running in the API, and from their deletion until none is left.
pub(crate) async fn converge() -> anyhow::Result<Vec<Figure>> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(Options::default().any_ports()).await?;
    // With EdgeCore's limit of 30 messages a second, this would measure the limit.
    let options = fleet::Options {
        qps: 0,
        ..fleet::Options::new(NODES, directory.path())
    };
    let fleet = Fleet::start(cloud.addresses(), cloud.token(), &options).await?;
    until(Api::<Node>::all(cloud.client()), NODES, is_ready).await?;
    let pods = Api::<Pod>::default_namespaced(cloud.client());
    let begun = Instant::now();
    let running = until(pods.clone(), PODS, is_running);
    let create = async {
        stream::iter(0..PODS)
            .map(|number| {
                let pods = pods.clone();
                async move {
                    pods.create(&PostParams::default(), &pod(number)?)
                        .await
                        .context("a pod was refused")
                }
            })
            .buffer_unordered(AT_ONCE)
            .try_for_each(|_| async { Ok(()) })
            .await
    };
    tokio::try_join!(create, running)?;
    let seconds = begun.elapsed().as_secs_f64();
    let megabytes = resident(std::process::id())?;
    let begun = Instant::now();
    pods.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    let asked = begun.elapsed().as_secs_f64();
    until_gone(pods).await?;
    let gone = begun.elapsed().as_secs_f64();
    fleet.stop().await;
    cloud.stop().await?;
    Ok(vec![
        Figure {
            name: "fleet.1000-pods-10-nodes".into(),
            value: seconds,
            unit: "s",
        },
        Figure {
            name: "fleet.1000-pods-10-nodes.rate".into(),
            value: PODS as f64 / seconds,
            unit: "pods/s",
        },
        Figure {
            name: "fleet.1000-pods-10-nodes.resident".into(),
            value: megabytes,
            unit: "MB",
        },
        Figure {
            name: "fleet.1000-pods-10-nodes.deletion-asked".into(),
            value: asked,
            unit: "s",
        },
        Figure {
            name: "fleet.1000-pods-10-nodes.gone".into(),
            value: gone,
            unit: "s",
        },
    ])
}

fn pod(number: usize) -> anyhow::Result<Pod> {
    let pod = json!({
        "metadata": {"name": format!("pod-{number}")},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}], "automountServiceAccountToken": false},
    });
    Ok(serde_json::from_value(pod)?)
}
