//! README's two steps, with a second machine: the cloud prints a line, and that line makes the machine a node.

use std::{fs, path::Path, process::Command};

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

/// A cloud that other machines reach, and the line that it prints for them.
pub(crate) fn cloud(directory: &Path) -> anyhow::Result<(Process, String)> {
    let ports = Ports::free()?;
    let mut command = Command::new(binary(CLOUDSIM)?);
    command
        .args(["up", "--address", "0.0.0.0", "--kubeconfig"])
        .arg(directory.join("kubeconfig"));
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
    let mut cloud = Process::start(CLOUDSIM, command, directory)?;
    let line = join_line(&mut cloud, &directory.join("kubeconfig"))?;
    Ok((cloud, line))
}

/// The line by which machines join a cloud that prints it with `TOKEN` in place of its token.
pub(crate) fn join_line(cloud: &mut Process, kubeconfig: &Path) -> anyhow::Result<String> {
    cloud.wait_for("edge-agent join ")?;
    let log = cloud.log();
    let line = log
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("edge-agent join "));
    let mut token = Command::new(binary(CLOUDSIM)?);
    let token = run(token.args(["token", "--kubeconfig"]).arg(kubeconfig))?
        .success()?
        .text();
    ensure!(!log.contains(token.trim()), "the token was printed");
    Ok(line.context("no line")?.replace("TOKEN", token.trim()))
}

/// What systemd is asked for is written down. Services have only a unit and whether they are enabled.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$@" >> /run/systemctl.log
for unit; do :; done
has_unit=
for folder in /etc /usr/lib /lib; do
    [ -e "$folder/systemd/system/$unit" ] && has_unit=1
done
case $1 in
is-enabled) [ -e "/run/enabled.$unit" ] ;;
enable | disable)
    [ "$has_unit" ] || { echo "Failed to $1 unit: Unit file $unit does not exist." >&2; exit 1; }
    rm -f "/run/enabled.$unit"
    [ "$1" = disable ] || touch "/run/enabled.$unit" ;;
stop) [ "$has_unit" ] || { echo "Failed to stop $unit: Unit $unit not loaded." >&2; exit 5; } ;;
esac
"#;

/// Makes the machine look as if systemd ran it; its systemctl is `/run/bin/systemctl`.
pub(crate) fn pretend_systemd(machine: &Machine) -> anyhow::Result<()> {
    machine.run(&["mkdir", "-p", "/run/systemd/system", "/run/bin"])?;
    fs::write(machine.path("run/bin/systemctl"), SYSTEMCTL)?;
    machine
        .run(&["chmod", "+x", "/run/bin/systemctl"])
        .map(drop)
}

/// Where systemd runs the machine, the agent is a service; and a broker that is there is taken.
#[test]
fn a_machine_with_systemd_gets_a_service_and_loses_it_again() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut machine = Machine::boot(NAME, directory.path())?;
    machine.start_containerd()?;
    pretend_systemd(&machine)?;
    let mut broker = Process::start(
        "mosquitto",
        machine.pasted_command("mosquitto -v")?,
        directory.path(),
    )?;
    broker.wait_for("running")?;
    let (_cloud, line) = cloud(directory.path())?;
    // its programs come before this machine's
    let with_systemd = |line: &str| {
        let mut command =
            machine.pasted_command(&format!("env PATH=/run/bin:{} {line}", machine.programs()))?;
        run(command.env("HTTPS_PROXY", "").env("NO_PROXY", "cloud.test"))?.success()
    };
    let said = with_systemd(&line)?.text();
    ensure!(
        said.contains("journalctl -u edge-agent") && said.contains("broker found"),
        "{said}"
    );
    let unit = fs::read_to_string(machine.path("etc/systemd/system/edge-agent.service"))?;
    for part in [
        "--config \"/etc/kubeedge/config/edgecore.yaml\"",
        "ConditionPathExists=/etc/kubeedge/config/edgecore.yaml",
        "Restart=always",
    ] {
        ensure!(unit.contains(part), "{part:?} is not in:\n{unit}");
    }
    let drop_in = machine.path("etc/systemd/system/edge-agent.service.d");
    let variables = fs::read_to_string(drop_in.join("join.env"))?;
    ensure!(variables == "NO_PROXY=\"cloud.test\"\n", "{variables}");
    let config = fs::read_to_string(machine.path(FILES[0]))?;
    ensure!(config.contains("mqttMode: 2"), "{config}");
    ensure!(machine.path(FILES[1]).exists(), "no certificate");
    let said = with_systemd("edge-agent reset --force")?.text();
    ensure!(
        said.contains("edge-agent.service was stopped and removed"),
        "{said}"
    );
    ensure!(
        !machine
            .path("etc/systemd/system/edge-agent.service")
            .exists()
            && !drop_in.exists()
            && !machine.path(FILES[0]).exists()
    );
    let asked = fs::read_to_string(machine.path("run/systemctl.log"))?;
    let unit = "edge-agent.service";
    let wanted = format!(
        "daemon-reload\nenable {unit}\nrestart {unit}\ndisable --now {unit}\ndaemon-reload\n"
    );
    ensure!(asked == wanted, "{asked}");
    Ok(())
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table or one story")]
fn a_second_machine_joins_by_the_line_that_the_cloud_prints_and_leaves_nothing_behind()
-> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut machine = Machine::boot(NAME, directory.path())?;
    machine.start_containerd()?;

    // the first step
    let kubeconfig = directory.path().join("kubeconfig");
    let (_cloud, line) = cloud(directory.path())?;
    let line = line.as_str();

    // the second
    let mut agent = Process::start(
        "edge-agent",
        machine.pasted_command(line)?,
        directory.path(),
    )?;
    agent.wait_for("edge-agent started")?;
    let (kubectl, api) = (
        Kubectl::new(&kubeconfig, directory.path()),
        Api::new(&kubeconfig)?,
    );
    until("the node", || {
        api.get(&format!("/api/v1/nodes/{NAME}"))?
            .context("it is not there")
    })?;
    kubectl.run(&[
        "wait",
        "--for=condition=Ready",
        &format!("node/{NAME}"),
        "--timeout=60s",
    ])?;
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
    let config = fs::read_to_string(machine.path(FILES[0]))?;
    let token = line
        .split_whitespace()
        .next_back()
        .context("an empty line")?;
    ensure!(
        !config.contains(token),
        "the token is on the disk:\n{config}"
    );

    // a node that is one already
    let again = run(&mut machine.pasted_command(line)?)?.failure()?;
    ensure!(again.contains("nothing was changed"), "{again}");

    // and back: the agent runs still
    let said = machine.run(&["edge-agent", "reset", "--force"])?;
    ensure!(
        said.contains("default/web") && said.contains("kubectl delete node edge-2"),
        "{said}"
    );
    ensure!(
        said.contains("Stopping the agent") && said.contains("shows node edge-2 as NotReady"),
        "{said}"
    );
    let node = api
        .get(&format!("/api/v1/nodes/{NAME}"))?
        .context("the Node is gone")?;
    let conditions = node["status"]["conditions"]
        .as_array()
        .context("no conditions")?;
    ensure!(
        conditions
            .iter()
            .any(|one| one["type"] == "Ready" && one["status"] != "True"),
        "the Node is Ready: {conditions:?}"
    );
    ensure!(
        cri.containers()?.is_empty(),
        "{:?} is left",
        cri.containers()?
    );
    for file in FILES {
        ensure!(!machine.path(file).exists(), "{file} is left");
    }
    let mounts = machine.run(&["cat", "/proc/mounts"])?;
    // those of other machines, which run meanwhile, are elsewhere
    let is_own = |mount: &&str| {
        mount
            .split(' ')
            .nth(1)
            .is_some_and(|place| place.starts_with("/var/lib/kubelet/"))
    };
    let left: Vec<_> = mounts.lines().filter(is_own).collect();
    ensure!(left.is_empty(), "{left:?}");

    // the cloud has the name still
    run(&mut machine.pasted_command(line)?)?.failure()?;
    // nor is it given by a token, until an administrator says so
    let rejoin = format!("{line} --rejoin");
    let taken = run(&mut machine.pasted_command(&rejoin)?)?;
    ensure!(
        taken.code == Some(1) && taken.text().contains("cloudsim node reset"),
        "{}",
        taken.text()
    );
    let mut reset = Command::new(binary(CLOUDSIM)?);
    run(reset
        .args(["node", "reset", NAME, "--kubeconfig"])
        .arg(&kubeconfig))?
    .success()?;
    let again = machine.pasted_command(&rejoin)?;
    let mut agent = Process::start("edge-agent-again", again, directory.path())?;
    agent.wait_for("edge-agent started")?;
    // the cloud has shown the pod as running all the time
    until("the pod runs again", || {
        let running = cri.running()?;
        ensure!(running.len() == 1, "{running:?} runs");
        Ok(())
    })?;
    machine
        .run(&["edge-agent", "reset", "--force", "--now"])
        .map(drop)
}
