//! Measures a cloud with many simulated nodes in its process, at several sizes, each in a process of its own.

use std::{
    env,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use cloudsim::{Cloud, Options};
use futures::{StreamExt, TryStreamExt, stream};
use hollow::fleet::{self, Fleet};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    Figure,
    processes::{is_ready, processor_seconds, resident},
    wait::{until, until_gone, when},
};

/// The variable with the number of nodes; without it, each of `SIZES` is measured.
const NODES: &str = "OUTRIGGER_NODES";
const SIZES: [usize; 3] = [1_000, 3_000, 10_000];
/// How long the processor time of an idle fleet is measured.
const IDLE: Duration = Duration::from_secs(60);
/// The Deployments with one pod each, and how many are created at a time.
const DEPLOYMENTS: usize = 2_000;
const AT_ONCE: usize = 16;

/// Measures each size.
pub(crate) async fn sizes() -> anyhow::Result<Vec<Figure>> {
    if let Ok(nodes) = env::var(NODES) {
        let nodes = nodes
            .parse()
            .with_context(|| format!("{NODES} is {nodes}"))?;
        return measure(nodes).await;
    }
    for nodes in SIZES {
        // memory that one size has freed would count for the next
        let mut own = Command::new(env::current_exe()?);
        own.arg("fleet.nodes").env(NODES, nodes.to_string());
        let status = tokio::task::spawn_blocking(move || own.status()).await??;
        ensure!(
            status.success(),
            "the benchmark with {nodes} nodes has failed"
        );
    }
    Ok(Vec::new())
}

async fn measure(nodes: usize) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut add = |name: &str, value: f64, unit: &'static str| {
        let name = format!("fleet.{nodes}-nodes.{name}").into();
        figures.push(Figure { name, value, unit });
    };
    let directory = tempfile::tempdir()?;
    let own = std::process::id();
    let cloud = Cloud::start(Options::default().any_ports()).await?;
    let options = fleet::Options {
        in_memory: true,
        is_reachable: false,
        ..fleet::Options::new(nodes, directory.path())
    };
    let before = resident(own)?;
    let begun = Instant::now();
    let options = options.beside(&cloud);
    let fleet = Fleet::start(cloud.addresses(), cloud.token(), &options).await?;
    let api = Api::<Node>::all(cloud.client());
    until(api.clone(), nodes, is_ready).await?;
    add("ready", begun.elapsed().as_secs_f64(), "s");
    let resident = resident(own)? - before;
    add("resident", resident, "MB");
    add("resident-per-node", 1e3 * resident / nodes as f64, "kB");

    let (used, begun) = (processor_seconds()?, Instant::now());
    sleep(IDLE).await;
    let used = processor_seconds()? - used;
    add("idle", used / begun.elapsed().as_secs_f64(), "cores");

    let deployments = Api::<Deployment>::default_namespaced(cloud.client());
    let begun = Instant::now();
    let ready = until(deployments.clone(), DEPLOYMENTS, |deployment| {
        let status = deployment.status.as_ref();
        status.and_then(|status| status.ready_replicas) == Some(1)
    });
    tokio::try_join!(create(&deployments), ready)?;
    add("2000-deployments", begun.elapsed().as_secs_f64(), "s");
    deployments
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    until_gone(Api::<Pod>::default_namespaced(cloud.client())).await?;

    let names = || (1..=nodes).map(|number| format!("edge-{number}"));
    names().for_each(|node| cloud.faults().cut_link(&node));
    until(api.clone(), nodes, |node| !is_ready(node)).await?;
    let begun = Instant::now();
    names().for_each(|node| cloud.faults().restore(&node));
    let ready = when(api, [nodes * 99 / 100, nodes], is_ready).await?;
    let [most, all] = ready.map(|at| at.duration_since(begun).as_secs_f64());
    add("reconnected-99-percent", most, "s");
    add("reconnected", all, "s");
    fleet.kill().await;
    cloud.stop().await?;
    Ok(figures)
}

async fn create(deployments: &Api<Deployment>) -> anyhow::Result<()> {
    let create = async |number: usize| {
        let name = format!("web-{number}");
        let deployment = json!({
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}], "automountServiceAccountToken": false},
                },
            },
        });
        let deployment = serde_json::from_value(deployment)?;
        let created = deployments
            .create(&PostParams::default(), &deployment)
            .await;
        created.map(drop).context("a Deployment was refused")
    };
    let numbers = stream::iter(0..DEPLOYMENTS).map(create);
    numbers.buffer_unordered(AT_ONCE).try_collect().await
}
