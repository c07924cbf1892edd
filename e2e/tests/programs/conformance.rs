//! `cloudsim conformance`: the two programs pass it over each transport, and their reports are those of the repository.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use e2e::{CLOUDSIM, Cloud, Node, Ports, Process, Runtime, binary, until_within};

/// How long all cases may take on a busy machine.
const KIT_DEADLINE: Duration = Duration::from_secs(600);
/// The transports; they are tested at the same time, since most cases wait.
const TRANSPORTS: [&str; 2] = ["websocket", "quic"];

/// A running kit.
struct Kit {
    process: Process,
    report: PathBuf,
}

impl Kit {
    /// Starts the kit in a directory of its own.
    fn start(directory: &Path, transport: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        fs::create_dir_all(directory)?;
        let report = directory.join("report.yaml");
        let mut command = Command::new(binary(CLOUDSIM)?);
        command.args(["conformance", "--transport", transport]);
        command.args(["--project", "outrigger", "--project-version", "test"]);
        command.arg("--report").arg(&report).args(arguments);
        let process = Process::start("conformance", command, directory)?;
        Ok(Self { process, report })
    }

    /// Waits for the end, and compares the report with that of the repository: profiles and outcomes.
    fn compare(mut self, name: &str) -> anyhow::Result<()> {
        until_within(KIT_DEADLINE, "the end of the kit", || {
            let log = self.process.log();
            ensure!(log.contains("\nextended: "), "{log}");
            Ok(())
        })?;
        let status = self.process.wait_exit()?;
        let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/reports");
        let profiles = |path: &Path| -> anyhow::Result<String> {
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let found = text.split_once("profiles:").context("no profiles")?.1;
            Ok(found.to_owned())
        };
        let found = profiles(&self.report)?;
        let expected = profiles(&reports.join(name))?;
        ensure!(
            found == expected,
            "the report is no longer that of conformance/reports/{name}: {found}"
        );
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

#[test]
fn cloudsim_passes_conformance() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let more = Ports::free()?;
    let (quic, router) = (more.ws.to_string(), more.api.to_string());
    let arguments = ["--quic-port", &quic, "--router-port", &router];
    let cloud = Cloud::start_with(directory.path(), &arguments)?;
    let kubeconfig = cloud.kubeconfig.display().to_string();
    let Ports {
        https, ws, tunnel, ..
    } = cloud.ports;
    let ports = [https, ws, tunnel].map(|port| port.to_string());
    let [https, ws, tunnel] = ports.each_ref().map(String::as_str);
    let kits = TRANSPORTS.map(|transport| {
        let arguments = [
            ["--cloud", "127.0.0.1"],
            ["--kubeconfig", &kubeconfig],
            ["--https-port", https],
            ["--ws-port", ws],
            ["--tunnel-port", tunnel],
            ["--quic-port", &quic],
            ["--router-port", &router],
        ];
        let directory = directory.path().join(transport);
        (
            transport,
            Kit::start(&directory, transport, arguments.as_flattened()),
        )
    });
    for (transport, kit) in kits {
        kit?.compare(&format!("cloudsim-standalone-{transport}.yaml"))?;
    }
    Ok(())
}

/// A node whose agent has an MQTT broker, ServiceBus and this transport.
fn start_node(
    directory: &Path,
    (ports, more): (Ports, Ports),
    transport: &str,
    token: &str,
) -> anyhow::Result<Process> {
    let config = Node::configure(directory, ports, token)?;
    let mut text = fs::read_to_string(&config)?;
    let service_bus = format!(
        "serviceBus: {{enable: true, port: {}}}\n  taskManager: {{enable: true}}",
        more.https
    );
    for (from, to) in [
        ("modules:\n", format!("modules:\n  {service_bus}\n")),
        ("mqttMode: 2", "mqttMode: 0".to_owned()),
        (
            "tcp://127.0.0.1:1884",
            format!("tcp://127.0.0.1:{}", more.api),
        ),
    ] {
        ensure!(text.contains(from), "edgecore.yaml has no {from:?}");
        text = text.replacen(from, &to, 1);
    }
    if transport == "quic" {
        let enabled = "websocket:\n      enable: true";
        let quic = format!(
            "quic: {{enable: true, server: \"127.0.0.1:{}\"}}\n    websocket:\n      enable: false",
            ports.ws
        );
        ensure!(text.contains(enabled), "edgecore.yaml has no {enabled:?}");
        text = text.replacen(enabled, &quic, 1);
    }
    fs::write(&config, text)?;
    let mut node = Process::start("edge-agent", Node::command(&config)?, directory)?;
    node.wait_for("edge-agent started")?;
    Ok(node)
}

#[test]
fn edge_agent_passes_conformance() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut edges = Vec::new();
    for transport in TRANSPORTS {
        let directory = directory.path().join(transport);
        let (ports, more) = (Ports::free()?, Ports::free()?);
        let mqtt = format!("127.0.0.1:{}", more.api);
        let numbers = [ports.https, ports.ws, ports.tunnel].map(|port| port.to_string());
        let [https, hub, tunnel] = numbers.each_ref().map(String::as_str);
        let arguments = [
            ["--edge", "--https-port"],
            [https, "--ws-port"],
            [hub, "--quic-port"],
            [hub, "--tunnel-port"],
            [tunnel, "--mqtt"],
        ];
        let mut arguments = arguments.as_flattened().to_vec();
        arguments.push(&mqtt);
        let mut kit = Kit::start(&directory, transport, &arguments)?;
        kit.process.wait_for("--token ")?;
        let log = kit.process.log();
        let token = log.split_once("--token ").context("no token")?.1;
        let token = token.lines().next().unwrap_or_default().trim();
        let runtime = Runtime::start(&directory)?;
        let node = start_node(&directory, (ports, more), transport, token)?;
        kit.process.wait_for("has joined")?;
        edges.push((transport, kit, (runtime, node)));
    }
    for (transport, kit, running) in edges {
        kit.compare(&format!("edge-agent-{transport}.yaml"))?;
        drop(running);
    }
    Ok(())
}
