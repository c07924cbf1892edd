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
    processes::{client, memory, processor_seconds_of},
};

/// How long the agent is measured.
const IDLE: Duration = Duration::from_secs(30);
/// How long to wait before, until the work that follows the pods' start is done.
const SETTLING: Duration = Duration::from_secs(15);
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
            "containerd.100-pods-idle-resident",
            "containerd.100-pods-idle-anonymous",
        ],
    )
    .await
}

/// Measures an ordinary node: `MetaServer`, MQTT and devices, and a few pods with settings, a secret, a token and probes.
pub(crate) async fn ordinary() -> anyhow::Result<Vec<Figure>> {
    let rig = tokio::task::spawn_blocking(|| {
        let mut rig = RealRig::start()?;
        // This uses the broker inside the agent.
        rig.node.set(&[("mqttMode", "0")])?;
        rig.restart_with_lines(&[("modules:", "  metaManager: {metaServer: {enable: true}}")])?;
        anyhow::Ok(rig)
    });
    let rig = rig.await??;
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

/// Measures the agent once it is idle: CPU of all processors together, resident and anonymous memory. Stops everything afterwards.
async fn watch(
    mut rig: RealRig,
    [processor, resident, anonymous]: [&'static str; 3],
) -> anyhow::Result<Vec<Figure>> {
    let agent = rig.node.process.id().context("the agent has ended")?;
    sleep(SETTLING).await;
    let before = processor_seconds_of(agent)?;
    sleep(IDLE).await;
    let used = processor_seconds_of(agent)? - before;
    let memory = memory(agent)?;
    let ended = tokio::task::spawn_blocking(move || {
        let ended = rig.node.process.terminate();
        drop(rig);
        ended
    });
    ended.await??;
    Ok(vec![
        Figure {
            name: processor,
            value: used,
            unit: "s in 30 s",
        },
        Figure {
            name: resident,
            value: memory.resident,
            unit: "MB",
        },
        Figure {
            name: anonymous,
            value: memory.anonymous,
            unit: "MB",
        },
    ])
}
