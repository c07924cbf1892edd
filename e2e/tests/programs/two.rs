//! Two of what there should be one of: each is told of the other.

use std::{fs, process::Command};

use anyhow::ensure;
use e2e::{
    AGENT, ANY_PORTS, CLOUDSIM, NODE, Node, Ports, Process, Rig, binary, ensure_says, run, until,
};

#[test]
fn two_agents_of_one_name_are_told_apart_and_do_not_take_turns() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    // the card of one machine was copied into another
    let copy = tempfile::tempdir()?;
    let at = |path: &str| rig.directory.path().join("node").join(path);
    for file in ["ca/rootCA.crt", "certs/server.crt", "certs/server.key"] {
        let to = copy.path().join("node").join(file);
        fs::create_dir_all(to.parent().unwrap_or(copy.path()))?;
        fs::copy(at(file), to)?;
    }
    let ports = Ports {
        node: Ports::free()?.node,
        ..rig.cloud.ports
    };
    let config = Node::configure(copy.path(), ports, "")?;
    let mut second = Process::start(AGENT, Node::command(&config)?, copy.path())?;
    second.wait_for("connected")?;
    // whoever was there first learns who took over, and is not let in again
    rig.node.process.wait_for("has taken over")?;
    rig.node
        .process
        .wait_for("another agent of this name is connected")?;
    ensure_says(
        &rig.node.process.log(),
        &["127.0.0.1:", ", started 20", "rename or stop one of them"],
    )?;
    until("a word in `cloudsim nodes`", || {
        let mut nodes = Command::new(binary(CLOUDSIM)?);
        let said = run(nodes
            .arg("nodes")
            .arg("--kubeconfig")
            .arg(&rig.cloud.kubeconfig))?
        .success()?
        .text();
        ensure_says(&said, &["TWO AGENTS HAVE THIS NAME", NODE, "was refused"])
    })?;
    ensure!(
        !second.log().contains("connection to CloudHub lost"),
        "they take turns:\n{}",
        second.log()
    );
    // the one that stays has gone: the other one is let in
    second.terminate()?;
    rig.cloud.wait_node("Ready")
}

#[test]
fn a_database_and_a_data_directory_have_one_program_at_a_time() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let second = run(&mut Node::command(&rig.node.config)?)?.failure()?;
    let pid = rig
        .node
        .process
        .id()
        .map(|pid| format!("process {pid}"))
        .unwrap_or_default();
    ensure_says(&second, &["outrigger.db is in use by", &pid])?;
    let mut up = Command::new(binary(CLOUDSIM)?);
    up.arg("up").args(ANY_PORTS).arg("--data-dir");
    up.arg(rig.directory.path().join("cloud"))
        .arg("--kubeconfig")
        .arg(rig.directory.path().join("other"));
    let pid = rig
        .cloud
        .process
        .id()
        .map(|pid| format!("process {pid}"))
        .unwrap_or_default();
    ensure_says(
        &run(&mut up)?.failure()?,
        &["cloudsim.db is in use by", &pid, "--data-dir"],
    )
}

#[test]
fn a_fault_for_a_node_that_is_none_is_one_error() -> anyhow::Result<()> {
    let rig = Rig::start()?;
    let faults = |arguments: &[&str]| {
        let mut command = Command::new(binary(CLOUDSIM)?);
        run(command
            .arg("faults")
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&rig.cloud.kubeconfig))
    };
    for arguments in [
        &["send", "edge-9"][..],
        &["cut", "edge-9"],
        &["set", "edge-9", "--profile", "Satellite"],
    ] {
        let said = faults(arguments)?.failure()?;
        ensure!(said.lines().count() == 1, "{said}");
        ensure_says(&said, &["no node edge-9", "cloudsim nodes"])?;
    }
    faults(&["cut", NODE])?.success().map(drop)
}

/// One symptom is told, and once; what waits for the runtime says nothing of its own.
#[test]
fn a_runtime_that_is_away_is_one_line() -> anyhow::Result<()> {
    let mut rig = Rig::start()?;
    rig.runtime.process.kill()?;
    rig.node
        .process
        .wait_for("container runtime not responding; all pods wait")?;
    rig.node.process.start_again()?;
    rig.node
        .process
        .wait_for("container runtime not responding; all pods wait")?;
    rig.node.process.wait_for("failed to list orphaned pods")?;
    let log = rig.node.process.log();
    let warnings: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("WARN") && line.contains("runtime"))
        .collect();
    ensure!(warnings.len() == 1, "{warnings:#?}");
    rig.runtime.process.start_again()?;
    rig.node
        .process
        .wait_for("container runtime responding again")
}
