//! Measures pods on real containers: from their creation in the API to Ready in the API, compared with a bare client of the same
//! containerd, which only calls `RunPodSandbox`, `CreateContainer` and `StartContainer` ([`limit`]). Needs root and what `make needs`
//! installs.

mod idle;
mod limit;
mod streams;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use e2e::containerd::{IMAGE, RealRig};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use self::limit::{Asked, COMMAND, bare};
pub(crate) use self::{
    idle::{idle, modules, ordinary},
    streams::streams,
};
use crate::{
    Figure,
    processes::{Memory, client, median, memory, processor_seconds_of},
    quiet::quiet,
    report,
    wait::{until, until_gone},
};

/// How many pods are created together.
const MANY: usize = 100;
/// How many requests to the API are in flight at a time.
const API_CALLS: usize = 16;
/// How often one pod is measured; the median counts.
const ROUNDS: usize = 7;
/// How often many pods are measured; the median counts.
const ROUNDS_OF_MANY: usize = 7;
/// How often a file, or a list of what has to disappear, is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Measures all figures with one containerd, one cloud and one agent.
pub(crate) async fn pods() -> anyhow::Result<Vec<Figure>> {
    let rig = Arc::new(tokio::task::spawn_blocking(RealRig::start).await??);
    let client = client(&rig.cloud.kubeconfig).await?;
    // The first pods load the programs into memory.
    bare(&rig, 1, Asked::Nothing).await?;
    through_the_cloud(&rig, &client, 1).await?;
    let one = rounds(&rig, &client, 1, ROUNDS).await?;
    let many = rounds(&rig, &client, MANY, ROUNDS_OF_MANY).await?;
    let figures = |of: fn(&Ours) -> f64| median(many.ours.iter().map(of).collect());
    let change = config_change(&rig, &client).await?;
    tokio::task::spawn_blocking(move || drop(rig)).await?;
    let figure = |name: &'static str, value, unit| Figure {
        name: name.into(),
        value,
        unit,
    };
    Ok(vec![
        figure("containerd.1-pod-bare", one.bare, "s"),
        figure(
            "containerd.1-pod-bare-as-kubelets",
            one.bare_as_kubelets,
            "s",
        ),
        figure("containerd.1-pod", one.seconds(), "s"),
        figure("containerd.1-pod-ratio", one.seconds() / one.bare, "x"),
        figure(
            "containerd.1-pod-ratio-as-kubelets",
            one.seconds() / one.bare_as_kubelets,
            "x",
        ),
        figure("containerd.100-pods-bare", many.bare, "s"),
        figure(
            "containerd.100-pods-bare-as-kubelets",
            many.bare_as_kubelets,
            "s",
        ),
        figure("containerd.100-pods", many.seconds(), "s"),
        figure("containerd.100-pods-ratio", many.seconds() / many.bare, "x"),
        figure(
            "containerd.100-pods-ratio-as-kubelets",
            many.seconds() / many.bare_as_kubelets,
            "x",
        ),
        // Unlike times, these two do not depend on the machine's other load.
        figure(
            "containerd.100-pods-agent-processor",
            figures(|ours| ours.agent_processor),
            "s",
        ),
        figure(
            "containerd.100-pods-cloud-processor",
            figures(|ours| ours.cloud_processor),
            "s",
        ),
        figure(
            "containerd.agent-resident-100-pods",
            figures(|ours| ours.memory.resident),
            "MB",
        ),
        figure(
            "containerd.agent-anonymous-100-pods",
            figures(|ours| ours.memory.anonymous),
            "MB",
        ),
        figure("containerd.config-change", change, "s"),
    ])
}

/// The same number of pods by each client in turn, so that the machine's other load affects all of them.
struct Rounds {
    /// Medians in seconds.
    bare: f64,
    bare_as_kubelets: f64,
    ours: Vec<Ours>,
}

impl Rounds {
    fn seconds(&self) -> f64 {
        median(self.ours.iter().map(|ours| ours.seconds).collect())
    }
}

async fn rounds(
    rig: &Arc<RealRig>,
    client: &Client,
    count: usize,
    rounds: usize,
) -> anyhow::Result<Rounds> {
    let (mut least, mut as_kubelets, mut ours) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        // Each client comes first, second and third, so that what one leaves behind affects all of them.
        for turn in 0..3 {
            quiet().await?;
            match (round + turn) % 3 {
                0 => least.push(bare(rig, count, Asked::Nothing).await?),
                1 => as_kubelets.push(bare(rig, count, Asked::AsKubelets).await?),
                _ => ours.push(through_the_cloud(rig, client, count).await?),
            }
        }
    }
    for ((bare, as_kubelets), ours) in least.iter().zip(&as_kubelets).zip(&ours) {
        let ours = ours.seconds;
        report(&format!(
            "{count} pods: bare {bare:.3} s, as kubelets {as_kubelets:.3} s, ours {ours:.3} s"
        ));
    }
    Ok(Rounds {
        bare: median(least),
        bare_as_kubelets: median(as_kubelets),
        ours,
    })
}

/// Creates this many pods and waits until all are Ready.
async fn create(pods: &Api<Pod>, count: usize) -> anyhow::Result<()> {
    let wanted = (0..count)
        .map(|index| pod(&format!("pod-{index}")))
        .collect::<anyhow::Result<Vec<_>>>()?;
    create_all(pods, &wanted).await
}

/// Creates these pods and waits until all are Ready.
async fn create_all(pods: &Api<Pod>, wanted: &[Pod]) -> anyhow::Result<()> {
    let params = PostParams::default();
    let created = futures::stream::iter(wanted)
        .map(|pod| pods.create(&params, pod))
        .buffer_unordered(API_CALLS);
    let all = created.try_collect::<Vec<_>>();
    let (ready, created) = tokio::join!(until(pods.clone(), wanted.len(), is_ready), all);
    created?;
    ready
}

fn pod(name: &str) -> anyhow::Result<Pod> {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": e2e::NODE,
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": IMAGE, "command": COMMAND}],
        },
    });
    Ok(serde_json::from_value(pod)?)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What pods have cost, from the first request until all of them are Ready in the API.
struct Ours {
    seconds: f64,
    /// CPU seconds of the agent on all processors together.
    agent_processor: f64,
    cloud_processor: f64,
    /// The agent's memory with all pods Ready.
    memory: Memory,
}

/// Starts pods through the cloud and deletes them afterwards.
async fn through_the_cloud(rig: &RealRig, client: &Client, count: usize) -> anyhow::Result<Ours> {
    let agent = rig.node.process.id().context("the agent has ended")?;
    let cloud = rig.cloud.process.id().context("the cloud has ended")?;
    let used = (processor_seconds_of(agent)?, processor_seconds_of(cloud)?);
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let begun = Instant::now();
    create(&pods, count).await?;
    let ours = Ours {
        seconds: begun.elapsed().as_secs_f64(),
        agent_processor: processor_seconds_of(agent)? - used.0,
        cloud_processor: processor_seconds_of(cloud)? - used.1,
        memory: memory(agent)?,
    };
    pods.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    until_gone(pods).await?;
    Ok(ours)
}

/// Returns the seconds from the change of a ConfigMap until the file of a pod shows it.
async fn config_change(rig: &RealRig, client: &Client) -> anyhow::Result<f64> {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let map = json!({"metadata": {"name": "settings"}, "data": {"colour": "blue"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map)?)
        .await?;
    let mut reader = serde_json::to_value(pod("reader")?)?;
    reader["spec"]["volumes"] = json!([{"name": "settings", "configMap": {"name": "settings"}}]);
    reader["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "settings", "mountPath": "/settings"}]);
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let reader: Pod = pods
        .create(&PostParams::default(), &serde_json::from_value(reader)?)
        .await?;
    until(pods, 1, is_ready).await?;
    let uid = reader.metadata.uid.context("a pod without uid")?;
    let file: PathBuf = rig
        .node
        .pods
        .join(uid)
        .join("volumes/kubernetes.io~configmap/settings/colour");
    ensure!(
        std::fs::read_to_string(&file)? == "blue",
        "the file is not as it should be"
    );
    let begun = Instant::now();
    let patch = Patch::Merge(json!({"data": {"colour": "green"}}));
    maps.patch("settings", &PatchParams::default(), &patch)
        .await?;
    while std::fs::read_to_string(&file)? != "green" {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(begun.elapsed().as_secs_f64())
}
