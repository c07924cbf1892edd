//! A cloud, a runtime and a node, each a process, below one temporary directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    AGENT, Api, CLOUDSIM, Cri, Kubectl, Mounts, Ports, Process, binary, cgroups::driver, run, until,
};

/// The node's name.
pub const NODE: &str = "edge-1";

/// A name in the cloud's certificate that only a test can resolve.
pub const CLOUD_NAME: &str = "cloud.test";

/// A cloud, a runtime and a node.
#[derive(Debug)]
pub struct Rig {
    /// The node; first, so that it is dropped before what it needs.
    pub node: Node,
    /// The runtime.
    pub runtime: Runtime,
    /// The cloud.
    pub cloud: Cloud,
    /// The directory of everything.
    pub directory: TempDir,
}

impl Rig {
    /// Starts all three and waits until the node is Ready.
    pub fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let cloud = Cloud::start(directory.path())?;
        let runtime = Runtime::start(directory.path())?;
        let node = Node::start(directory.path(), &cloud, &cloud.token()?)?;
        cloud.wait_node("Ready")?;
        Ok(Self {
            node,
            runtime,
            cloud,
            directory,
        })
    }
}

impl AsRef<Cloud> for Rig {
    fn as_ref(&self) -> &Cloud {
        &self.cloud
    }
}

/// A process of `cloudsim up`.
#[derive(Debug)]
pub struct Cloud {
    /// The process.
    pub process: Process,
    /// The ports on which it listens, the same at each start.
    pub ports: Ports,
    /// The kubeconfig that it wrote.
    pub kubeconfig: PathBuf,
    /// kubectl for it.
    pub kubectl: Kubectl,
    /// A client that reads its API.
    pub api: Api,
}

impl Cloud {
    /// Starts a cloud that keeps its state below `directory`, and waits until it is ready.
    pub fn start(directory: &Path) -> anyhow::Result<Self> {
        Self::start_with(directory, &[])
    }

    /// Starts a cloud with more arguments.
    pub fn start_with(directory: &Path, arguments: &[&str]) -> anyhow::Result<Self> {
        let ports = Ports::free()?;
        let kubeconfig = directory.join("kubeconfig");
        let mut command = Command::new(binary(CLOUDSIM)?);
        command
            .arg("up")
            .arg("--data-dir")
            .arg(directory.join("cloud"))
            .arg("--kubeconfig")
            .arg(&kubeconfig);
        command.args([
            "--api-port",
            &ports.api.to_string(),
            "--https-port",
            &ports.https.to_string(),
        ]);
        command.args([
            "--ws-port",
            &ports.ws.to_string(),
            "--tunnel-port",
            &ports.tunnel.to_string(),
        ]);
        command.args(arguments);
        for name in ["127.0.0.1", "localhost", CLOUD_NAME] {
            command.args(["--name", name]);
        }
        let mut process = Process::start(CLOUDSIM, command, directory)?;
        process.wait_for("is ready")?;
        let (kubectl, api) = (Kubectl::new(&kubeconfig, directory), Api::new(&kubeconfig)?);
        Ok(Self {
            process,
            ports,
            kubeconfig,
            kubectl,
            api,
        })
    }

    /// Returns the join token.
    pub fn token(&self) -> anyhow::Result<String> {
        let mut command = Command::new(binary(CLOUDSIM)?);
        command
            .arg("token")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        Ok(run(&mut command)?.success()?.text().trim().to_owned())
    }

    /// Runs `cloudsim faults` with these arguments.
    pub fn faults(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(binary(CLOUDSIM)?);
        command
            .arg("faults")
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig);
        run(&mut command)?.success().map(drop)
    }

    /// Returns the node, or `None`.
    pub fn node(&self) -> anyhow::Result<Option<Value>> {
        self.api.get(&format!("/api/v1/nodes/{NODE}"))
    }

    /// Waits until the node exists and its condition of this name is true (`Ready`), or has the given status (`Ready=False`).
    pub fn wait_node(&self, condition: &str) -> anyhow::Result<()> {
        let node = format!("node/{NODE}");
        until("the node", || self.node()?.context("it is not there"))?;
        self.kubectl
            .run(&[
                "wait",
                &format!("--for=condition={condition}"),
                &node,
                "--timeout=60s",
            ])
            .map(drop)
    }
}

/// A process of `cloudsim runtime`.
#[derive(Debug)]
pub struct Runtime {
    /// The process.
    pub process: Process,
    /// A client of it.
    pub cri: Cri,
}

impl Runtime {
    /// Returns the socket of a runtime below `directory`.
    fn socket(directory: &Path) -> PathBuf {
        directory.join("runtime.sock")
    }

    /// Starts a runtime that records its containers below `directory`, and waits until it listens.
    pub fn start(directory: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(binary(CLOUDSIM)?);
        command
            .arg("runtime")
            .arg("--socket")
            .arg(Self::socket(directory));
        command.arg("--root").arg(directory.join("runtime"));
        let mut process = Process::start("runtime", command, directory)?;
        process.wait_for("serves CRI v1")?;
        Ok(Self {
            process,
            cri: Cri::new(Self::socket(directory))?,
        })
    }
}

/// A process of `edge-agent`.
#[derive(Debug)]
pub struct Node {
    /// The process.
    pub process: Process,
    /// The path of its edgecore.yaml.
    pub config: PathBuf,
    /// The directory of pods' volumes.
    pub pods: PathBuf,
    /// The port of health and metrics.
    pub port: u16,
    /// The mounts of its pods; behind the process, so that it has ended before.
    pub mounts: Mounts,
}

impl Node {
    /// Starts a node that joins `cloud` with `token`, and waits until it runs, not until it has joined.
    pub fn start(directory: &Path, cloud: &Cloud, token: &str) -> anyhow::Result<Self> {
        let config = Self::configure(directory, cloud.ports, token)?;
        let mut process = Process::start(AGENT, Self::command(&config)?, directory)?;
        process.wait_for("edge-agent started")?;
        Ok(Self {
            process,
            config,
            pods: directory.join("node/kubelet/pods"),
            port: cloud.ports.node,
            mounts: Mounts::below(directory),
        })
    }

    /// Returns the path of the kubeconfig that `MetaServer` writes for its clients on the node.
    pub fn kubeconfig(&self) -> PathBuf {
        self.config
            .with_file_name("node")
            .join("metaserver.kubeconfig")
    }

    /// Returns the agent's command with this configuration.
    pub fn command(config: &Path) -> anyhow::Result<Command> {
        let mut command = Command::new(binary(AGENT)?);
        command.arg("--config").arg(config).args(["-v", "4"]);
        Ok(command)
    }

    /// Writes an edgecore.yaml as a person does: from the output of `--minconfig`, with the cloud's addresses, the token, and this test's
    /// paths instead of the system's.
    pub fn configure(directory: &Path, cloud: Ports, token: &str) -> anyhow::Result<PathBuf> {
        let mut text = run(Command::new(binary(AGENT)?).arg("--minconfig"))?
            .success()?
            .text();
        let below = |path: &str| directory.join("node").join(path).display().to_string();
        for (key, value) in [
            ("dataSource", below("edgecore.db")),
            ("httpServer", format!("https://127.0.0.1:{}", cloud.https)),
            ("websocket.server", format!("127.0.0.1:{}", cloud.ws)),
            ("edgeStream.enable", "true".to_owned()),
            ("edgeStream.server", format!("127.0.0.1:{}", cloud.tunnel)),
            ("tlsTunnelCAFile", below("ca/rootCA.crt")),
            ("tlsTunnelCertFile", below("certs/server.crt")),
            ("tlsTunnelPrivateKeyFile", below("certs/server.key")),
            ("token", token.to_owned()),
            ("tlsCaFile", below("ca/rootCA.crt")),
            ("tlsCertFile", below("certs/server.crt")),
            ("tlsPrivateKeyFile", below("certs/server.key")),
            ("hostnameOverride", NODE.to_owned()),
            ("nodeIP", "127.0.0.1".to_owned()),
            ("rootDirectory", below("kubelet")),
            ("readOnlyPort", cloud.node.to_string()),
            ("staticPodPath", below("manifests")),
            ("podLogsDir", below("logs")),
            ("dmiSockPath", below("")),
            (
                "containerRuntimeEndpoint",
                format!("unix://{}", Runtime::socket(directory).display()),
            ),
        ] {
            text = with_setting(&text, key, &value)?;
        }
        let path = directory.join("edgecore.yaml");
        let text = with_kubelet_settings(&text, &UNMOVED)?;
        let groups = [
            ("cgroupRoot", group_root(directory)),
            ("cgroupDriver", driver().to_owned()),
        ];
        let groups = groups.each_ref().map(|(key, value)| (*key, value.as_str()));
        fs::write(&path, with_kubelet_settings(&text, &groups)?)?;
        Ok(path)
    }

    /// Changes kubelet settings, each a key and its value in one line; the agent reads them at its next start.
    pub fn set_kubelet(&self, settings: &[(&str, &str)]) -> anyhow::Result<()> {
        let text = fs::read_to_string(&self.config)?;
        Ok(fs::write(
            &self.config,
            with_kubelet_settings(&text, settings)?,
        )?)
    }

    /// Changes the values of settings that are in the file; the agent reads them at its next start.
    pub fn set(&self, settings: &[(&str, &str)]) -> anyhow::Result<()> {
        let text = fs::read_to_string(&self.config)?;
        let text = settings
            .iter()
            .try_fold(text, |text, (key, value)| with_setting(&text, key, value))?;
        Ok(fs::write(&self.config, text)?)
    }

    /// Adds lines of YAML after this one; the agent reads them at its next start.
    pub fn add_after(&self, line: &str, new: &str) -> anyhow::Result<()> {
        let text = fs::read_to_string(&self.config)?;
        let (before, after) = text
            .split_once(&format!("{line}\n"))
            .with_context(|| format!("no line {line:?}"))?;
        Ok(fs::write(
            &self.config,
            format!("{before}{line}\n{new}\n{after}"),
        )?)
    }
}

/// Returns the control group that contains those of the pods of the one node below `directory`.
pub fn group_root(directory: &Path) -> String {
    let name = directory
        .file_name()
        .map(|name| name.to_string_lossy().replace('.', ""))
        .unwrap_or_default();
    format!("/outrigger-{name}")
}

/// Settings with which a node ignores how full the test's machine is.
const UNMOVED: [(&str, &str); 2] = [
    ("imageGCHighThresholdPercent", "100"),
    (
        "evictionHard",
        "{memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}",
    ),
];

/// Returns the text with these settings first in its `tailoredKubeletConfig`, where they replace existing lines.
fn with_kubelet_settings(text: &str, settings: &[(&str, &str)]) -> anyhow::Result<String> {
    let key = |line: &str| {
        line.trim_start()
            .split_once(':')
            .map(|(key, _)| key.to_owned())
            .unwrap_or_default()
    };
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !settings.iter().any(|(name, _)| key(line) == *name))
        .map(str::to_owned)
        .collect();
    let section = lines
        .iter()
        .position(|line| key(line) == "tailoredKubeletConfig");
    let section = section.context("no tailoredKubeletConfig in the configuration")?;
    let new = settings
        .iter()
        .map(|(name, value)| format!("      {name}: {value}"));
    lines.splice(section + 1..section + 1, new);
    Ok(lines.join("\n") + "\n")
}

/// Returns the text with the value of its one line `key: …` replaced; that below `section:` if the key is `section.key`.
pub(crate) fn with_setting(text: &str, key: &str, value: &str) -> anyhow::Result<String> {
    let (section, name) = key
        .rsplit_once('.')
        .map_or((None, key), |(section, name)| (Some(section), name));
    let is_plain = value.parse::<u16>().is_ok() || ["true", "false"].contains(&value);
    let (mut found, mut inside) = (0, section.is_none().then_some(0));
    let replaced = text.lines().map(|line| {
        let body = line.trim_start();
        let depth = line.len() - body.len();
        let read = body.split_once(':').map(|(read, _)| read);
        if section.is_some() && !body.starts_with('#') {
            inside = inside.filter(|outside| depth > *outside);
            if read == section {
                inside = Some(depth);
            }
        }
        if inside.is_some() && read == Some(name) {
            found += 1;
            let indent = &line[..depth];
            let quoted = if is_plain {
                value.to_owned()
            } else {
                format!("{value:?}")
            };
            return format!("{indent}{name}: {quoted}\n");
        }
        format!("{line}\n")
    });
    let text = replaced.collect();
    ensure!(
        found == 1,
        "--minconfig has {found} lines with {key}, not one"
    );
    Ok(text)
}
