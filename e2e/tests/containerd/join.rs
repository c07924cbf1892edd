//! README's two steps, with a second machine: the cloud prints a line, and that line makes the machine a node.

use std::process::Command;

use anyhow::{Context, ensure};
use e2e::{
    Api, CLOUDSIM, Kubectl, Ports, Process, binary,
    containerd::{IMAGE, Machine},
    run, until,
};

/// The machine's name, and so the node's.
const NAME: &str = "edge-2";

/// What an agent keeps where.
const FILES: [&str; 4] = [
    "etc/kubeedge/config/edgecore.yaml",
    "etc/kubeedge/certs/server.key",
    "var/lib/kubeedge/outrigger.db",
    "var/lib/kubelet/pods",
];

#[test]
fn a_second_machine_joins_by_the_line_that_the_cloud_prints_and_leaves_nothing_behind() -> anyhow::Result<()>
{
    let directory = tempfile::tempdir()?;
    let mut machine = Machine::boot(NAME, directory.path())?;
    machine.start_containerd()?;

    // the first step
    let (ports, kubeconfig) = (Ports::free()?, directory.path().join("kubeconfig"));
    let mut command = Command::new(binary(CLOUDSIM)?);
    command.args(["up", "--address", "0.0.0.0", "--kubeconfig"]).arg(&kubeconfig);
    command.args(["--api-port", &ports.api.to_string(), "--https-port", &ports.https.to_string()]);
    command.args(["--ws-port", &ports.ws.to_string()]);
    let mut cloud = Process::start(CLOUDSIM, command, directory.path())?;
    cloud.wait_for("edge-agent join ")?;
    let log = cloud.log();
    let line =
        log.lines().find(|line| line.trim().starts_with("edge-agent join ")).context("no line")?.trim();

    // the second
    let mut agent = Process::start("edge-agent", machine.pasted(line)?, directory.path())?;
    agent.wait_for("edge-agent runs")?;
    let (kubectl, api) = (Kubectl::new(&kubeconfig, directory.path()), Api::new(&kubeconfig)?);
    until("the node", || api.get(&format!("/api/v1/nodes/{NAME}"))?.context("it is not there"))?;
    kubectl.run(&["wait", "--for=condition=Ready", &format!("node/{NAME}"), "--timeout=60s"])?;
    kubectl.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: web}}\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n  \
         - {{name: main, image: \"{IMAGE}\", imagePullPolicy: Never}}\n"
    ))?;
    kubectl.run(&["wait", "--for=condition=Ready", "pod/web", "--timeout=100s"])?;
    let cri = machine.cri()?;
    ensure!(cri.running()?.len() == 1, "{:?} runs", cri.running()?);
    for file in FILES {
        ensure!(machine.path(file).exists(), "{file} is not there");
    }
    let config = std::fs::read_to_string(machine.path(FILES[0]))?;
    let token = line.split_whitespace().next_back().context("an empty line")?;
    ensure!(!config.contains(token), "the token is on the disk:\n{config}");

    // a node that is one already
    let again = run(&mut machine.pasted(line)?)?.failure()?;
    ensure!(again.contains("nothing was changed"), "{again}");

    // and back: the agent runs still
    let said = machine.run(&["edge-agent", "reset", "--force"])?;
    ensure!(said.contains("default/web") && said.contains("kubectl delete node edge-2"), "{said}");
    ensure!(cri.containers()?.is_empty(), "{:?} is left", cri.containers()?);
    for file in FILES {
        ensure!(!machine.path(file).exists(), "{file} is left");
    }
    ensure!(machine.run(&["cat", "/proc/mounts"])?.lines().all(|mount| !mount.contains("/var/lib/kubelet/")));

    // the cloud has the name still
    let taken = run(&mut machine.pasted(line)?)?;
    ensure!(taken.code == Some(1), "{taken:?}");
    let again = machine.pasted(&format!("{line} --rejoin"))?;
    let mut agent = Process::start("edge-agent-again", again, directory.path())?;
    agent.wait_for("edge-agent runs")?;
    kubectl.run(&["wait", "--for=condition=Ready", "pod/web", "--timeout=100s"])?;
    machine.run(&["edge-agent", "reset", "--force"]).map(drop)
}
