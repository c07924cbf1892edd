//! Measures the built programs as separate processes: how long they take to start, and how much memory they use.

use std::{net::SocketAddr, path::PathBuf, process::Stdio, time::Instant};

use anyhow::{Context, ensure};
use cloudsim::Addresses;
use e2e::ANY_PORTS;
use hollow::fleet::{self, edgecore_yaml};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Client, Config,
    api::{Api, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{Figure, wait::until};

/// How often the sequence is run; the median counts.
const ROUNDS: usize = 5;

/// One run of cloud, runtime and agent.
struct Round {
    cloud_ready: f64,
    node_ready: f64,
    pod_running: f64,
    cloud_resident: f64,
    agent_resident: f64,
}

/// Returns the medians of several rounds.
pub(crate) async fn start() -> anyhow::Result<Vec<Figure>> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        rounds.push(round().await?);
    }
    let figure = |name: &'static str, unit, of: fn(&Round) -> f64| Figure {
        name: name.into(),
        unit,
        value: median(rounds.iter().map(of).collect()),
    };
    Ok(vec![
        figure("processes.cloudsim-ready", "s", |round| round.cloud_ready),
        figure("processes.node-ready", "s", |round| round.node_ready),
        figure("processes.pod-running", "s", |round| round.pod_running),
        figure("processes.cloudsim-resident", "MB", |round| {
            round.cloud_resident
        }),
        figure("processes.agent-resident", "MB", |round| {
            round.agent_resident
        }),
    ])
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Runs one round. Times count from the cloud's start; the agent starts when the cloud is ready, the pod is created when the node is.
async fn round() -> anyhow::Result<Round> {
    let directory = tempfile::tempdir()?;
    let kubeconfig = directory.path().join("kubeconfig");
    let node = directory.path().join("node");
    std::fs::create_dir(&node)?;
    let socket = node.join("runtime.sock");
    let mut runtime = program("cloudsim")?;
    runtime.arg("runtime").arg("--socket").arg(&socket);
    let (_runtime, _) = spawn(&mut runtime, "the simulated runtime serves").await?;

    let begun = Instant::now();
    let mut cloud = program("cloudsim")?;
    cloud
        .arg("up")
        .args(ANY_PORTS)
        .arg("--kubeconfig")
        .arg(&kubeconfig);
    let (cloud, said) = spawn(&mut cloud, "  Ports ").await?;
    let cloud_ready = begun.elapsed().as_secs_f64();
    let client = client(&kubeconfig).await?;
    let token = Command::new(program_path("cloudsim")?)
        .arg("token")
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .output()
        .await?;
    ensure!(token.status.success(), "cloudsim token failed");
    let token = String::from_utf8(token.stdout)?;
    let yaml = node.join("edgecore.yaml");
    std::fs::write(
        &yaml,
        edgecore_yaml(
            "edge-1",
            &node,
            addresses(&said)?,
            token.trim(),
            &fleet::Options::new(1, &node),
        ),
    )?;

    let agent = program("edge-agent")?.arg("--config").arg(&yaml).spawn()?;
    until(Api::<Node>::all(client.clone()), 1, is_ready).await?;
    let node_ready = begun.elapsed().as_secs_f64();
    let pods = Api::<Pod>::default_namespaced(client);
    let pod = json!({"metadata": {"name": "one"}, "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
        .await?;
    until(pods, 1, is_running).await?;
    let pod_running = begun.elapsed().as_secs_f64();
    Ok(Round {
        cloud_ready,
        node_ready,
        pod_running,
        cloud_resident: resident(cloud.id().context("cloudsim has ended")?)?,
        agent_resident: resident(agent.id().context("edge-agent has ended")?)?,
    })
}

/// Returns the path of a built program, which is beside this one.
fn program_path(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(
        path.exists(),
        "{} is not built; run `make bench`",
        path.display()
    );
    Ok(path)
}

fn program(name: &str) -> anyhow::Result<Command> {
    let mut command = Command::new(program_path(name)?);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    Ok(command)
}

/// Starts a program and reads its output up to the line that begins with `last`.
async fn spawn(command: &mut Command, last: &str) -> anyhow::Result<(Child, Vec<String>)> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
    let mut said = Vec::new();
    while let Some(line) = lines.next_line().await? {
        let is_last = line.starts_with(last);
        said.push(line);
        if is_last {
            return Ok((child, said));
        }
    }
    anyhow::bail!("a program has ended and said: {said:?}")
}

/// Returns the addresses that nodes use, from the lines with the API and the ports.
fn addresses(said: &[String]) -> anyhow::Result<Addresses> {
    let value = |label: &str| {
        let mut values = said
            .iter()
            .map(|line| line.trim_start().strip_prefix(label));
        values
            .find_map(|value| value)
            .map(str::trim)
            .context("a line is missing")
    };
    let api: SocketAddr = value("API ")?.trim_start_matches("https://").parse()?;
    let ports = value("Ports ")?;
    let of = |server: &str| {
        let port = ports.split(", ").find_map(|port| port.strip_suffix(server));
        let port = port.context("a port is missing")?.trim().parse()?;
        anyhow::Ok(SocketAddr::new(api.ip(), port))
    };
    Ok(Addresses {
        api: Some(api),
        https: of("certificates")?,
        websocket: of("CloudHub")?,
        ..Addresses::nowhere()
    })
}

pub(crate) async fn client(kubeconfig: &std::path::Path) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    Ok(Client::try_from(
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?,
    )?)
}

/// Returns the resident memory of a process, in megabytes of 1,000,000 bytes.
pub(crate) fn resident(pid: u32) -> anyhow::Result<f64> {
    Ok(memory(pid)?.resident)
}

/// A process's memory, in megabytes of 1,000,000 bytes.
pub(crate) struct Memory {
    /// Everything that is not swapped out, including pages of the program file.
    pub(crate) resident: f64,
    /// The same, of which pages that other processes map too count in part.
    pub(crate) proportional: f64,
    /// Memory that is not backed by a file: heap and stacks.
    pub(crate) anonymous: f64,
}

/// Reads the memory of a process. See proc_pid_status(5), proc_pid_smaps(5).
pub(crate) fn memory(pid: u32) -> anyhow::Result<Memory> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    let text = read("status")? + &read("smaps_rollup")?;
    let megabytes = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .context("a figure is missing")?;
        let kibibytes: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        anyhow::Ok(kibibytes * 1024.0 / 1e6)
    };
    Ok(Memory {
        resident: megabytes("VmRSS:")?,
        proportional: megabytes("Pss:")?,
        anonymous: megabytes("RssAnon:")?,
    })
}

/// Returns the CPU seconds that this process has used so far on all processors.
pub(crate) fn processor_seconds() -> anyhow::Result<f64> {
    processor_seconds_of(std::process::id())
}

/// Returns the CPU seconds that a process has used so far on all processors. See proc_pid_stat(5); Linux counts 100 ticks a second.
pub(crate) fn processor_seconds_of(pid: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name, in brackets, may contain spaces.
    let (_, fields) = stat
        .rsplit_once(')')
        .context("a process's stat has no name")?;
    let ticks = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}

pub(crate) fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(crate) fn is_running(pod: &Pod) -> bool {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        == Some("Running")
}
