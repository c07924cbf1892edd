//! `cloudsim conformance`: the two programs pass it, and their reports are those of the repository.

use std::{fs, path::Path, process::Command, time::Duration};

use anyhow::{Context, ensure};
use e2e::{CLOUDSIM, Cloud, Node, Ports, Process, Runtime, binary, until_within};

/// How long all cases may take on a busy machine.
const KIT_DEADLINE: Duration = Duration::from_secs(600);

/// Starts the kit; its report is written to `report.yaml` in `directory`.
fn kit(directory: &Path, ports: Ports, arguments: &[&str]) -> anyhow::Result<Process> {
    let mut command = Command::new(binary(CLOUDSIM)?);
    command.arg("conformance").args(arguments);
    command.args(["--project", "outrigger", "--project-version", "test"]);
    command.arg("--report").arg(directory.join("report.yaml"));
    for (option, port) in [
        ("--https-port", ports.https),
        ("--ws-port", ports.ws),
        ("--tunnel-port", ports.tunnel),
    ] {
        command.args([option, &port.to_string()]);
    }
    Process::start("conformance", command, directory)
}

/// Waits for the end of the kit, and compares its report with that of the repository: profiles and outcomes.
fn compare(mut kit: Process, directory: &Path, name: &str) -> anyhow::Result<()> {
    until_within(KIT_DEADLINE, "the end of the kit", || {
        let log = kit.log();
        ensure!(log.contains("\nextended: "), "{log}");
        Ok(())
    })?;
    let status = kit.wait_exit()?;
    let reports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../conformance/reports");
    let profiles = |path: &Path| -> anyhow::Result<String> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let found = text.split_once("profiles:").context("no profiles")?.1;
        Ok(found.to_owned())
    };
    let found = profiles(&directory.join("report.yaml"))?;
    let expected = profiles(&reports.join(name))?;
    ensure!(
        found == expected,
        "the report is no longer that of conformance/reports/{name}: {found}"
    );
    ensure!(status.success(), "{status}");
    Ok(())
}

#[test]
fn cloudsim_passes_conformance() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    let kubeconfig = cloud.kubeconfig.display().to_string();
    let arguments = ["--cloud", "127.0.0.1", "--kubeconfig", &kubeconfig];
    let kit = kit(directory.path(), cloud.ports, &arguments)?;
    compare(kit, directory.path(), "cloudsim-standalone-websocket.yaml")
}

#[test]
fn edge_agent_passes_conformance() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let ports = Ports::free()?;
    let mut kit = kit(directory.path(), ports, &["--edge"])?;
    kit.wait_for("--token ")?;
    let log = kit.log();
    let token = log.split_once("--token ").context("no token")?.1;
    let token = token.lines().next().unwrap_or_default().trim();
    let _runtime = Runtime::start(directory.path())?;
    let config = Node::configure(directory.path(), ports, token)?;
    let mut node = Process::start("edge-agent", Node::command(&config)?, directory.path())?;
    node.wait_for("edge-agent started")?;
    kit.wait_for("has joined")?;
    compare(kit, directory.path(), "edge-agent-websocket.yaml")
}
