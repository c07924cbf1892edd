//! Measures what an idle agent costs: its pods run, and there are no requests.

use std::time::Duration;

use anyhow::Context;
use e2e::containerd::RealRig;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{Api, api::PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{MANY, create, create_all, pod};
use crate::{
    Figure,
    processes::{Memory, client, median, memory, processor_seconds_of},
};

/// How long to wait before, until the work that follows the pods' start is done.
const SETTLING: Duration = Duration::from_secs(300);
/// How often the agent is measured; the medians count.
const SAMPLES: u32 = 10;
/// The time between two of them.
const INTERVAL: Duration = Duration::from_secs(10);
/// Settings of the modules that are disabled where nobody enables them.
const MODULES: &str = "  serviceBus: {enable: true}\n  edgeMesh: {enable: true}";
/// The number of pods of an ordinary node.
const FEW: usize = 5;

/// Measures a hundred pods without any extras.
pub(crate) async fn idle() -> anyhow::Result<Vec<Figure>> {
    let rig = tokio::task::spawn_blocking(RealRig::start).await??;
    let pods = Api::<Pod>::default_namespaced(client(&rig.cloud.kubeconfig).await?);
    create(&pods, MANY).await?;
    watch(
        rig,
        [
            "containerd.100-pods-idle-processor",
            "containerd.100-pods-idle-proportional",
            "containerd.100-pods-idle-resident",
            "containerd.100-pods-idle-anonymous",
        ],
    )
    .await
}

/// Measures an agent with all modules and no pods.
pub(crate) async fn modules() -> anyhow::Result<Vec<Figure>> {
    let rig = tokio::task::spawn_blocking(|| with_modules(MODULES)).await??;
    watch(
        rig,
        [
            "containerd.all-modules-processor",
            "containerd.all-modules-proportional",
            "containerd.all-modules-resident",
            "containerd.all-modules-anonymous",
        ],
    )
    .await
}

/// A node with MetaServer and the broker inside the agent, and these settings of modules.
fn with_modules(settings: &str) -> anyhow::Result<RealRig> {
    let mut rig = RealRig::start()?;
    rig.node.set(&[("mqttMode", "0")])?;
    let all = format!("  metaManager: {{metaServer: {{enable: true}}}}\n{settings}");
    rig.restart_with_lines(&[("modules:", all.trim_end())])?;
    Ok(rig)
}

/// Measures an ordinary node: `MetaServer`, MQTT and devices, and a few pods with settings, a secret, a token and probes.
pub(crate) async fn ordinary() -> anyhow::Result<Vec<Figure>> {
    let rig = tokio::task::spawn_blocking(|| with_modules("")).await??;
    let client = client(&rig.cloud.kubeconfig).await?;
    let data = json!({"metadata": {"name": "data"}, "data": {"COLOUR": "Ymx1ZQ=="}});
    let params = PostParams::default();
    Api::<ConfigMap>::default_namespaced(client.clone())
        .create(&params, &serde_json::from_value(data.clone())?)
        .await?;
    Api::<Secret>::default_namespaced(client.clone())
        .create(&params, &serde_json::from_value(data)?)
        .await?;
    let wanted = (0..FEW).map(|index| with_everything(&format!("pod-{index}")));
    create_all(
        &Api::default_namespaced(client),
        &wanted.collect::<anyhow::Result<Vec<_>>>()?,
    )
    .await?;
    watch(
        rig,
        [
            "containerd.ordinary-processor",
            "containerd.ordinary-proportional",
            "containerd.ordinary-resident",
            "containerd.ordinary-anonymous",
        ],
    )
    .await
}

fn with_everything(name: &str) -> anyhow::Result<Pod> {
    let mut pod = serde_json::to_value(pod(name)?)?;
    let spec = &mut pod["spec"];
    spec["automountServiceAccountToken"] = json!(true);
    spec["volumes"] = json!([
        {"name": "settings", "configMap": {"name": "data"}},
        {"name": "secret", "secret": {"secretName": "data"}},
        {"name": "scratch", "emptyDir": {}},
    ]);
    let probe = |seconds: u32| json!({"exec": {"command": ["true"]}, "periodSeconds": seconds});
    let container = &mut spec["containers"][0];
    container["volumeMounts"] = Value::from_iter(
        ["settings", "secret", "scratch"]
            .map(|volume| json!({"name": volume, "mountPath": format!("/{volume}")})),
    );
    container["envFrom"] = json!([{"configMapRef": {"name": "data"}}]);
    container["resources"] = json!({"requests": {"memory": "8Mi"}, "limits": {"memory": "64Mi"}});
    container["readinessProbe"] = probe(10);
    container["livenessProbe"] = probe(20);
    Ok(serde_json::from_value(pod)?)
}

/// Measures the agent once it is idle: CPU of all processors together, and its memory. Stops everything afterwards.
async fn watch(mut rig: RealRig, names: [&'static str; 4]) -> anyhow::Result<Vec<Figure>> {
    let agent = rig.node.process.id().context("the agent has ended")?;
    sleep(SETTLING).await;
    let before = processor_seconds_of(agent)?;
    let mut samples = Vec::new();
    for _ in 0..SAMPLES {
        sleep(INTERVAL).await;
        samples.push(memory(agent)?);
    }
    let used = processor_seconds_of(agent)? - before;
    let ended = tokio::task::spawn_blocking(move || {
        let ended = rig.node.process.terminate();
        drop(rig);
        ended
    });
    ended.await??;
    let of = |part: fn(&Memory) -> f64| median(samples.iter().map(part).collect());
    let seconds = INTERVAL.as_secs_f64() * f64::from(SAMPLES);
    let values = [
        used * 1000.0 / seconds,
        of(|memory| memory.proportional),
        of(|memory| memory.resident),
        of(|memory| memory.anonymous),
    ];
    let units = ["ms per s", "MB", "MB", "MB"];
    let figures = names.into_iter().zip(values).zip(units);
    Ok(figures
        .map(|((name, value), unit): ((&'static str, _), _)| Figure {
            name: name.into(),
            value,
            unit,
        })
        .collect())
}
