//! Measures a cloud with many simulated nodes in its process, at several sizes, each in a process of its own.

use std::{
    env,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use cloudsim::{Addresses, Cloud, Options};
use crds::reliablesyncs::ObjectSync;
use futures::{StreamExt, TryStreamExt, stream};
use hollow::fleet::{self, Fleet, HollowNode};
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::{ConfigMap, Node, Pod},
};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    Figure,
    processes::{is_ready, is_running, processor_seconds, resident},
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
/// The most nodes that are filled with pods, which takes minutes.
const MOST_WITH_PODS: usize = 1_000;
/// The ConfigMap that a pod on each node uses.
const SETTINGS: &str = "settings";

/// Measures each size.
pub(crate) async fn sizes() -> anyhow::Result<Vec<Figure>> {
    if let Ok(nodes) = env::var(NODES) {
        let nodes = nodes
            .parse()
            .with_context(|| format!("{NODES} is {nodes}"))?;
        measure(nodes).await?;
        return Ok(Vec::new());
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

/// Returns options for nodes that keep everything in memory, as those of `cloudsim up` do.
fn in_memory(nodes: usize, directory: &Path) -> fleet::Options {
    fleet::Options {
        in_memory: true,
        is_reachable: false,
        ..fleet::Options::new(nodes, directory)
    }
}

/// The nodes over TLS that are measured.
const TLS_NODES: usize = 2_000;

/// Measures nodes that reach the cloud over TLS, like those of other machines.
pub(crate) async fn over_tls() -> anyhow::Result<Vec<Figure>> {
    let directory = tempfile::tempdir()?;
    let own = std::process::id();
    let cloud = Cloud::start(Options::default().any_ports()).await?;
    let options = in_memory(TLS_NODES, directory.path());
    let (before, begun) = (resident(own)?, Instant::now());
    let fleet = Fleet::start(cloud.addresses(), cloud.token(), &options).await?;
    until(Api::<Node>::all(cloud.client()), TLS_NODES, is_ready).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let kilobytes = 1e3 * (resident(own)? - before) / TLS_NODES as f64;
    fleet.kill().await;
    cloud.stop().await?;
    Ok(vec![
        Figure {
            name: format!("fleet.tls.{TLS_NODES}-nodes.ready").into(),
            value: seconds,
            unit: "s",
        },
        Figure {
            name: format!("fleet.tls.{TLS_NODES}-nodes.resident-per-node").into(),
            value: kilobytes,
            unit: "kB",
        },
    ])
}

/// Measures the memory of nodes that have only their configuration and runtime, and then of their agents without a cloud. The rest of
/// `fleet.nodes` is what they have with one, and what it has of them.
pub(crate) async fn memory() -> anyhow::Result<Vec<Figure>> {
    const NODES: usize = 1_000;
    let directory = tempfile::tempdir()?;
    let own = std::process::id();
    let options = in_memory(1, directory.path());
    let nowhere = Addresses::nowhere();
    // what all nodes share
    let mut first = HollowNode::prepare("first", nowhere, "", &options).await?;
    first.start().await?;
    let mut figures = Vec::new();
    let mut add = |part: &str, from: f64, to: f64| {
        figures.push(Figure {
            name: format!("fleet.memory.{part}").into(),
            value: 1e3 * (to - from) / NODES as f64,
            unit: "kB",
        });
    };
    let begun = resident(own)?;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        let name = format!("edge-{number}");
        nodes.push(HollowNode::prepare(&name, nowhere, "", &options).await?);
    }
    let prepared = resident(own)?;
    add("configuration-and-runtime", begun, prepared);
    for node in &mut nodes {
        node.start().await?;
    }
    // each has begun its modules, and waits for its next attempt to connect
    sleep(Duration::from_secs(10)).await;
    add("agent-without-cloud", prepared, resident(own)?);
    Ok(figures)
}

/// Measures this number of nodes, and prints each figure when it is there: all of them take minutes.
async fn measure(nodes: usize) -> anyhow::Result<()> {
    let add = |name: &str, value: f64, unit: &'static str| {
        let name = format!("fleet.{nodes}-nodes.{name}").into();
        Figure { name, value, unit }.print();
    };
    let directory = tempfile::tempdir()?;
    let own = std::process::id();
    let cloud = Cloud::start(Options::default().any_ports()).await?;
    let options = in_memory(nodes, directory.path()).beside(&cloud);
    let before = resident(own)?;
    let begun = Instant::now();
    let fleet = Fleet::start(cloud.addresses(), cloud.token(), &options).await?;
    let api = Api::<Node>::all(cloud.client());
    until(api.clone(), nodes, is_ready).await?;
    add("ready", begun.elapsed().as_secs_f64(), "s");
    let used = resident(own)? - before;
    add("resident", used, "MB");
    add("resident-per-node", 1e3 * used / nodes as f64, "kB");

    let (used, begun) = (processor_seconds()?, Instant::now());
    sleep(IDLE).await;
    let used = processor_seconds()? - used;
    add("idle", used / begun.elapsed().as_secs_f64(), "cores");

    let pods = resident(own)?;
    let begun = Instant::now();
    everywhere(&cloud, nodes).await?;
    add("pod-on-each-node", begun.elapsed().as_secs_f64(), "s");
    let used = 1e3 * (resident(own)? - pods) / nodes as f64;
    add("resident-per-pod", used, "kB");
    let begun = Instant::now();
    change_settings(&cloud, nodes).await?;
    add("configmap-on-each-node", begun.elapsed().as_secs_f64(), "s");
    Api::<DaemonSet>::default_namespaced(cloud.client())
        .delete("everywhere", &DeleteParams::default())
        .await?;
    until_gone(Api::<Pod>::default_namespaced(cloud.client())).await?;

    let deployments = Api::<Deployment>::default_namespaced(cloud.client());
    let begun = Instant::now();
    let ready = until(deployments.clone(), DEPLOYMENTS, |deployment| {
        let status = deployment.status.as_ref();
        status.and_then(|status| status.ready_replicas) == Some(1)
    });
    tokio::try_join!(create(&deployments), ready)?;
    add("2000-deployments", begun.elapsed().as_secs_f64(), "s");
    let begun = Instant::now();
    deployments
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    until_gone(Api::<Pod>::default_namespaced(cloud.client())).await?;
    add("2000-deployments-gone", begun.elapsed().as_secs_f64(), "s");

    if nodes <= MOST_WITH_PODS {
        let begun = Instant::now();
        fill(&deployments, nodes).await?;
        add("10-pods-on-each-node", begun.elapsed().as_secs_f64(), "s");
        add("resident-with-10-pods-each", resident(own)? - before, "MB");
        deployments.delete("ten", &DeleteParams::default()).await?;
        until_gone(Api::<Pod>::default_namespaced(cloud.client())).await?;
    }

    let names = || (1..=nodes).map(|number| format!("edge-{number}"));
    let begun = Instant::now();
    names().for_each(|node| cloud.faults().cut_link(&node));
    until(api.clone(), nodes, |node| !is_ready(node)).await?;
    add("not-ready", begun.elapsed().as_secs_f64(), "s");
    let begun = Instant::now();
    names().for_each(|node| cloud.faults().restore(&node));
    let ready = when(api, [nodes * 99 / 100, nodes], is_ready).await?;
    let [most, all] = ready.map(|at| at.duration_since(begun).as_secs_f64());
    add("reconnected-99-percent", most, "s");
    add("reconnected", all, "s");
    fleet.kill().await;
    cloud.stop().await?;
    Ok(())
}

/// Runs a pod with a ConfigMap on each node.
async fn everywhere(cloud: &Cloud, nodes: usize) -> anyhow::Result<()> {
    let settings = json!({"metadata": {"name": SETTINGS}, "data": {"colour": "red"}});
    let settings = serde_json::from_value(settings)?;
    let maps = Api::<ConfigMap>::default_namespaced(cloud.client());
    maps.create(&PostParams::default(), &settings).await?;
    let labels = json!({"app": "everywhere"});
    let container = json!({
        "name": "main", "image": "busybox:1.36", "envFrom": [{"configMapRef": {"name": SETTINGS}}],
    });
    let set = json!({
        "metadata": {"name": "everywhere"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "automountServiceAccountToken": false},
            },
        },
    });
    let sets = Api::<DaemonSet>::default_namespaced(cloud.client());
    sets.create(&PostParams::default(), &serde_json::from_value(set)?)
        .await?;
    until(
        Api::<Pod>::default_namespaced(cloud.client()),
        nodes,
        is_running,
    )
    .await
}

/// Changes the ConfigMap, and waits until each node has acknowledged the change.
async fn change_settings(cloud: &Cloud, nodes: usize) -> anyhow::Result<()> {
    let maps = Api::<ConfigMap>::default_namespaced(cloud.client());
    let changed = Patch::Merge(json!({"data": {"colour": "blue"}}));
    let changed = maps
        .patch(SETTINGS, &PatchParams::default(), &changed)
        .await?;
    let revision = changed.metadata.resource_version;
    let records = Api::<ObjectSync>::default_namespaced(cloud.client());
    until(records, nodes, |record| {
        let held = record.status.as_ref();
        record.spec.object_name.as_deref() == Some(SETTINGS)
            && held.and_then(|held| held.object_resource_version.as_ref()) == revision.as_ref()
    })
    .await
}

/// Returns a Deployment of this number of pods.
fn deployment(name: &str, replicas: usize) -> anyhow::Result<Deployment> {
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}], "automountServiceAccountToken": false},
            },
        },
    });
    Ok(serde_json::from_value(deployment)?)
}

/// Runs ten pods on each node.
async fn fill(deployments: &Api<Deployment>, nodes: usize) -> anyhow::Result<()> {
    let ten = deployment("ten", 10 * nodes)?;
    deployments.create(&PostParams::default(), &ten).await?;
    until(deployments.clone(), 1, |deployment| {
        let status = deployment.status.as_ref();
        let ready = status.and_then(|status| status.ready_replicas);
        ready.and_then(|ready| usize::try_from(ready).ok()) == Some(10 * nodes)
    })
    .await
}

async fn create(deployments: &Api<Deployment>) -> anyhow::Result<()> {
    let create = async |number: usize| {
        let deployment = deployment(&format!("web-{number}"), 1)?;
        let created = deployments
            .create(&PostParams::default(), &deployment)
            .await;
        created.map(drop).context("a Deployment was refused")
    };
    let numbers = stream::iter(0..DEPLOYMENTS).map(create);
    numbers.buffer_unordered(AT_ONCE).try_collect().await
}
