//! Pods on real containers: from their creation in the API to Ready in the API, beside a bare client of the same containerd,
//! which calls RunPodSandbox, CreateContainer and StartContainer and nothing else. Needs root and what `make needs` installs.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, ensure};
use e2e::containerd::{Bare, IMAGE, RealRig};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    Figure,
    processes::{Memory, client, median, memory, processor_seconds_of},
    wait::until,
};

/// Pods at once.
const MANY: usize = 100;
/// How many calls the bare client has under way at a time: more make containerd slower.
const BARE_CALLS: usize = 8;
/// How many requests to the API are under way at a time.
const API_CALLS: usize = 16;
/// How often the time of one pod is taken; the median counts.
const ROUNDS: usize = 7;
/// The same of many pods.
const ROUNDS_OF_MANY: usize = 3;
/// Ends when it is asked to: the first process of a container has no default answer to SIGTERM.
const COMMAND: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM; sleep 2147483647 & wait"];
/// How long an idle agent is watched …
const IDLE: Duration = Duration::from_secs(30);
/// … after so long without anything to do.
const SETTLING: Duration = Duration::from_secs(15);
/// How often a file, or a list of what has to go, is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// All figures, from one containerd, one cloud and one agent.
pub(crate) async fn pods() -> anyhow::Result<Vec<Figure>> {
    let rig = Arc::new(tokio::task::spawn_blocking(RealRig::start).await??);
    let client = client(&rig.cloud.kubeconfig).await?;
    // the first of each brings programs into memory
    bare(&rig, 1).await?;
    through_the_cloud(&rig, &client, 1).await?;
    let (mut bare_one, mut ours_one) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare_one.push(bare(&rig, 1).await?);
        ours_one.push(through_the_cloud(&rig, &client, 1).await?.seconds);
    }
    let (bare_one, ours_one) = (median(bare_one), median(ours_one));
    let (mut bare_many, mut ours_many) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS_OF_MANY {
        bare_many.push(bare(&rig, MANY).await?);
        ours_many.push(through_the_cloud(&rig, &client, MANY).await?);
    }
    let many = |of: fn(&Ours) -> f64| median(ours_many.iter().map(of).collect());
    let (bare_many, ours_seconds) = (median(bare_many), many(|ours| ours.seconds));
    let change = config_change(&rig, &client).await?;
    tokio::task::spawn_blocking(move || drop(rig)).await?;
    let figure = |name, value, unit| Figure { name, value, unit };
    Ok(vec![
        figure("containerd.1-pod-bare", bare_one, "s"),
        figure("containerd.1-pod", ours_one, "s"),
        figure("containerd.1-pod-ratio", ours_one / bare_one, "x"),
        figure("containerd.100-pods-bare", bare_many, "s"),
        figure("containerd.100-pods", ours_seconds, "s"),
        figure("containerd.100-pods-ratio", ours_seconds / bare_many, "x"),
        // what others leave of the machine does not change these two
        figure("containerd.100-pods-agent-processor", many(|ours| ours.agent_processor), "s"),
        figure("containerd.100-pods-cloud-processor", many(|ours| ours.cloud_processor), "s"),
        figure("containerd.agent-resident-100-pods", many(|ours| ours.memory.resident), "MB"),
        figure("containerd.agent-anonymous-100-pods", many(|ours| ours.memory.anonymous), "MB"),
        figure("containerd.config-change", change, "s"),
    ])
}

/// What the agent uses while it has nothing to do: all pods run, and nobody asks anything.
pub(crate) async fn idle() -> anyhow::Result<Vec<Figure>> {
    let rig = tokio::task::spawn_blocking(RealRig::start).await??;
    let client = client(&rig.cloud.kubeconfig).await?;
    let agent = rig.node.process.id().context("the agent has ended")?;
    let pods = Api::<Pod>::default_namespaced(client);
    create(&pods, MANY).await?;
    // what starting them has left to do is done
    tokio::time::sleep(SETTLING).await;
    let before = processor_seconds_of(agent)?;
    tokio::time::sleep(IDLE).await;
    let used = processor_seconds_of(agent)? - before;
    tokio::task::spawn_blocking(move || drop(rig)).await?;
    Ok(vec![Figure { name: "containerd.100-pods-idle-processor", value: used, unit: "s in 30 s" }])
}

/// Makes so many pods, and waits until all are Ready.
async fn create(pods: &Api<Pod>, count: usize) -> anyhow::Result<()> {
    let wanted = (0..count).map(|index| pod(&format!("pod-{index}"))).collect::<anyhow::Result<Vec<_>>>()?;
    let params = PostParams::default();
    let created =
        futures::stream::iter(&wanted).map(|pod| pods.create(&params, pod)).buffer_unordered(API_CALLS);
    let all = created.try_collect::<Vec<_>>();
    let (ready, created) = tokio::join!(until(pods.clone(), count, is_ready), all);
    created?;
    ready
}

/// Seconds until `count` containers run, started by the bare client; they are removed afterwards.
async fn bare(rig: &Arc<RealRig>, count: usize) -> anyhow::Result<f64> {
    let rig = rig.clone();
    let timed = move || {
        let begun = Instant::now();
        in_threads(count, |index| bare_start(&rig, index))?;
        let took = begun.elapsed().as_secs_f64();
        let sandboxes = rig.containerd.bare.sandboxes(None)?;
        in_threads(sandboxes.len(), |index| {
            let id = &sandboxes.get(index).context("no such sandbox")?.id;
            rig.containerd.bare.stop_sandbox(id)?;
            Ok(rig.containerd.bare.remove_sandbox(id)?)
        })?;
        anyhow::Ok(took)
    };
    tokio::task::spawn_blocking(timed).await?
}

fn bare_start(rig: &RealRig, index: usize) -> anyhow::Result<()> {
    let name = format!("bare-{index}");
    let config = Bare::sandbox_config(&name, &rig.logs().join(&name));
    let client = &rig.containerd.bare;
    let sandbox = client.run_sandbox(config.clone())?;
    let container = client.create(&sandbox, config, Bare::container_config("main", &COMMAND))?;
    Ok(client.start(&container)?)
}

/// Does `work` for all numbers below `count`, a few at a time.
fn in_threads(count: usize, work: impl Fn(usize) -> anyhow::Result<()> + Sync) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    let worker = || {
        while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|index| *index < count) {
            work(index)?;
        }
        anyhow::Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..BARE_CALLS.min(count)).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a worker has failed"))?)
    })
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
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What pods have taken, from the first request until all of them are Ready in the API.
struct Ours {
    seconds: f64,
    /// Seconds of all processors together.
    agent_processor: f64,
    cloud_processor: f64,
    /// The agent's, with all pods Ready.
    memory: Memory,
}

/// Starts pods through the cloud, and deletes them afterwards.
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
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    while !pods.list(&ListParams::default()).await?.items.is_empty() {
        tokio::time::sleep(LOOK).await;
    }
    Ok(ours)
}

/// Seconds from the change of a ConfigMap until the file of a pod has it.
async fn config_change(rig: &RealRig, client: &Client) -> anyhow::Result<f64> {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let map = json!({"metadata": {"name": "settings"}, "data": {"colour": "blue"}});
    maps.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
    let mut reader = serde_json::to_value(pod("reader")?)?;
    reader["spec"]["volumes"] = json!([{"name": "settings", "configMap": {"name": "settings"}}]);
    reader["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "settings", "mountPath": "/settings"}]);
    let pods = Api::<Pod>::default_namespaced(client.clone());
    let reader: Pod = pods.create(&PostParams::default(), &serde_json::from_value(reader)?).await?;
    until(pods, 1, is_ready).await?;
    let uid = reader.metadata.uid.context("a pod without uid")?;
    let file: PathBuf = rig.node.pods.join(uid).join("volumes/kubernetes.io~configmap/settings/colour");
    ensure!(std::fs::read_to_string(&file)? == "blue", "the file is not as it should be");
    let begun = Instant::now();
    let patch = Patch::Merge(json!({"data": {"colour": "green"}}));
    maps.patch("settings", &PatchParams::default(), &patch).await?;
    while std::fs::read_to_string(&file)? != "green" {
        tokio::time::sleep(LOOK).await;
    }
    Ok(begun.elapsed().as_secs_f64())
}
