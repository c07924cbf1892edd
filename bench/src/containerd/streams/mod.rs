//! Measures commands and bytes through API, tunnel and agent, compared with the runtime alone: CRI's Exec and SPDY at the URL that it
//! returns, as `crictl exec` does. Also measures many logs that are followed over one tunnel, of which one is not read.

mod direct;

use std::{sync::Arc, time::Instant};

use anyhow::{Context, bail, ensure};
use e2e::containerd::RealRig;
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{AttachParams, LogParams},
};
use testkit::PROCESS_TIMEOUT;
use tokio::{io::AsyncReadExt, time::timeout};

use super::{create_all, pod};
use crate::{
    Figure,
    processes::{client, median, memory},
    quiet::quiet,
    report,
};

/// How often each command is run; medians count.
const ROUNDS: usize = 21;
/// How often each transfer is made; medians count.
const TRANSFERS: usize = 5;
/// The bytes of a transfer: 100 MiB.
const BYTES: u64 = 100 * 1024 * 1024;
/// How many logs are followed at a time.
const LOGS: usize = 200;
/// A command that writes a line again and again.
const TALKS: [&str; 3] = [
    "sh",
    "-c",
    "trap 'exit 0' TERM; while true; do echo a line of a log; usleep 100000; done",
];

/// Measures all figures with one containerd, one cloud and one agent.
pub(crate) async fn streams() -> anyhow::Result<Vec<Figure>> {
    let rig = Arc::new(tokio::task::spawn_blocking(RealRig::start).await??);
    let pods = Api::<Pod>::default_namespaced(client(&rig.cloud.kubeconfig).await?);
    let mut talks = pod("talks")?;
    if let Some(container) = talks
        .spec
        .as_mut()
        .and_then(|spec| spec.containers.first_mut())
    {
        container.command = Some(TALKS.map(str::to_owned).to_vec());
    }
    create_all(&pods, &[talks]).await?;
    let running = serde_json::to_value(pods.get("talks").await?)?;
    let container = RealRig::container_id(&running, "main")?;
    // The first commands load the programs into memory.
    direct::exec(&rig, &container, &["true"]).await?;
    exec(&pods, &["true"]).await?;
    let commands = rounds(&rig, &container, &pods, &["true"], 0, ROUNDS).await?;
    let bytes = BYTES.to_string();
    let transfers = rounds(
        &rig,
        &container,
        &pods,
        &["head", "-c", &bytes, "/dev/zero"],
        BYTES,
        TRANSFERS,
    )
    .await?;
    let followed = follow(&rig, &pods).await?;
    tokio::task::spawn_blocking(move || drop(rig)).await?;
    let figure = |name: &'static str, value, unit| Figure {
        name: name.into(),
        value,
        unit,
    };
    Ok(vec![
        figure("streams.exec-direct", commands.direct, "s"),
        figure("streams.exec", commands.ours, "s"),
        figure("streams.exec-ratio", commands.ours / commands.direct, "x"),
        figure("streams.100-MiB-direct", transfers.direct, "s"),
        figure("streams.100-MiB", transfers.ours, "s"),
        figure(
            "streams.100-MiB-ratio",
            transfers.ours / transfers.direct,
            "x",
        ),
        figure("streams.200-logs-exec", followed.exec, "s"),
        figure("streams.200-logs-cloud", followed.cloud, "MB"),
        figure("streams.200-logs-agent", followed.agent, "MB"),
    ])
}

/// Medians, in seconds, of the same command by each client in turn.
struct Rounds {
    direct: f64,
    ours: f64,
}

async fn rounds(
    rig: &Arc<RealRig>,
    container: &str,
    pods: &Api<Pod>,
    command: &[&str],
    bytes: u64,
    rounds: usize,
) -> anyhow::Result<Rounds> {
    let (mut direct, mut ours) = (Vec::new(), Vec::new());
    quiet().await?;
    for round in 0..rounds {
        for turn in 0..2 {
            let begun = Instant::now();
            let is_direct = (round + turn) % 2 == 0;
            let came = if is_direct {
                direct::exec(rig, container, command).await?
            } else {
                exec(pods, command).await?
            };
            ensure!(came == bytes, "{came} bytes came, not {bytes}");
            if is_direct { &mut direct } else { &mut ours }.push(begun.elapsed().as_secs_f64());
        }
    }
    let rounds = Rounds {
        direct: median(direct),
        ours: median(ours),
    };
    report(&format!(
        "{}: direct {:.4} s, ours {:.4} s",
        command.join(" "),
        rounds.direct,
        rounds.ours
    ));
    Ok(rounds)
}

/// Runs a command through the cloud, over a WebSocket as kubectl does; returns how many bytes it wrote.
async fn exec(pods: &Api<Pod>, command: &[&str]) -> anyhow::Result<u64> {
    let run = async {
        let params = AttachParams::default().stderr(false);
        let mut process = pods.exec("talks", command.iter().copied(), &params).await?;
        let status = process.take_status().context("the command has no status")?;
        let mut stdout = process.stdout().context("the command has no output")?;
        let (mut came, mut part) = (0, vec![0; 64 * 1024]);
        while let read @ 1.. = stdout.read(&mut part).await? {
            came += u64::try_from(read)?;
        }
        match status.await {
            Some(status) if status.status.as_deref() == Some("Success") => Ok(came),
            status => bail!("{} ended with {status:?}", command.join(" ")),
        }
    };
    timeout(PROCESS_TIMEOUT, run)
        .await
        .context("a command takes too long")?
}

/// What it costs to follow many logs at a time.
struct Followed {
    /// The seconds of a command at the same time.
    exec: f64,
    /// The cloud's growth in megabytes.
    cloud: f64,
    /// The agent's growth in megabytes.
    agent: f64,
}

async fn follow(rig: &RealRig, pods: &Api<Pod>) -> anyhow::Result<Followed> {
    let cloud = rig.cloud.process.id().context("the cloud has ended")?;
    let agent = rig.node.process.id().context("the agent has ended")?;
    let before = (memory(cloud)?, memory(agent)?);
    let params = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let mut logs = Vec::new();
    for _ in 0..LOGS {
        logs.push(pods.log_stream("talks", &params).await?.lines());
    }
    // All logs but the first are read.
    let read = futures::future::try_join_all(logs.iter_mut().skip(1).map(async |log| {
        for _ in 0..20 {
            log.try_next().await?.context("a log has ended")?;
        }
        anyhow::Ok(())
    }));
    timeout(PROCESS_TIMEOUT, read)
        .await
        .context("the logs take too long")??;
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        exec(pods, &["true"]).await?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    let after = (memory(cloud)?, memory(agent)?);
    Ok(Followed {
        exec: median(seconds),
        cloud: after.0.resident - before.0.resident,
        agent: after.1.resident - before.1.resident,
    })
}
