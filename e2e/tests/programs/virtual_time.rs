//! `cloudsim run --fast`: a failing scenario is reduced to the fault that it needs, and two forks of a scenario are compared.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, ensure};
use e2e::{CLOUDSIM, Output, Process, binary, run};

const FAILING: &str = "\
name: a pod on a bad link
nodes: [{name: edge-1}, {name: edge-2}]
steps:
- faults: {node: all, conditions: {drop: 0.1, delay: 50ms}}
- kill: edge-2
- start: edge-2
- halfOpen: edge-2
- cut: edge-1
- apply: {apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: edge-1, containers: [{name: main, image: nginx}]}}
- expect: {object: {kind: Pod, name: web}, has: {status.phase: Running}}
";

/// Two nodes and a Deployment; one node is offline for a time.
const FORK: &str = "\
name: a fork
seed: 3
nodes: [{name: edge-1}, {name: edge-2}]
steps:
- apply:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 2
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: main, image: nginx}]}
- expect: {object: {apiVersion: apps/v1, kind: Deployment, name: web}, has: {status.readyReplicas: 2}}
- at: 1m
- cut: edge-1
- pause: 30s
- restore: edge-1
- at: 9m
";

/// Runs scenarios in virtual time.
fn cloudsim(folder: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(binary(CLOUDSIM)?);
    run(command.args(arguments).current_dir(folder))
}

#[test]
fn failing_seed_is_found_and_reduced_to_the_needed_fault() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("scenario.yaml"), FAILING)?;
    let arguments = ["run", "--fast", "--seeds", "3", "--shrink", "scenario.yaml"];
    let output = cloudsim(folder.path(), &arguments)?;
    ensure!(output.code == Some(1), "{output:?}");
    for part in [
        "FAIL  30.000 s  line 10",
        "last events:\n    2030-01-01T00:",
        "run it again with --fast --seed 1\n",
        "  1 of 5 faults is needed for this failure (",
        "):\n    line 8: cut edge-1\n0 of 1 scenario passed",
    ] {
        ensure!(output.text().contains(part), "{part}: {output:?}");
    }
    Ok(())
}

#[test]
fn forks_are_the_same_until_their_faults_differ() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let fork = |name: &str, text: &str| -> anyhow::Result<Vec<String>> {
        let [scenario, recording, trace] =
            ["yaml", "rec", "trace"].map(|it| format!("{name}.{it}"));
        fs::write(folder.path().join(&scenario), text)?;
        let arguments = [
            "run", "--fast", "--record", &recording, "--trace", &trace, &scenario,
        ];
        let output = cloudsim(folder.path(), &arguments)?;
        ensure!(output.code == Some(0), "{output:?}");
        let trace = fs::read_to_string(folder.path().join(trace))?;
        Ok(trace.lines().map(str::to_owned).collect())
    };
    let short = fork("short", FORK)?;
    let long = fork("long", &FORK.replace("30s", "7m"))?;
    let again = fork("again", FORK)?;
    ensure!(short == again, "another trace of the same seed");
    let differs = short
        .iter()
        .zip(&long)
        .position(|(one, other)| one != other);
    let first = short.get(differs.context("the forks have the same trace")?);
    // the link of one of them is restored after half a minute; the pod of the other one is evicted
    let begins = first.is_some_and(|line| line.as_str() > "2030-01-01T00:01:3");
    ensure!(begins, "{first:?}");
    let same = cloudsim(folder.path(), &["diff", "short.rec", "again.rec"])?;
    ensure!(same.text().starts_with("no differences in "), "{same:?}");
    let different = cloudsim(folder.path(), &["diff", "short.rec", "long.rec"])?;
    ensure!(different.code == Some(1), "{different:?}");
    ensure!(
        different.text().contains("first difference:"),
        "{different:?}"
    );
    Ok(())
}

#[test]
fn a_signal_leaves_all_files_of_a_run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    // virtual time passes quickly, but not within the test
    let text = FORK.replace("- at: 9m", "- pause: 9000h");
    fs::write(folder.path().join("long.yaml"), text)?;
    for fast in [&["--fast", "--trace", "trace"][..], &[]] {
        let mut command = Command::new(binary(CLOUDSIM)?);
        command.current_dir(folder.path()).arg("run").args(fast);
        command.args(["--record", "rec", "--junit", "junit.xml", "long.yaml"]);
        let mut running = Process::start("cloudsim", command, folder.path())?;
        running.wait_for("ok ")?;
        ensure!(running.terminate()?.code() == Some(1), "{}", running.log());
        ensure!(
            running.log().contains("stopped by a signal"),
            "{}",
            running.log()
        );
        let junit = fs::read_to_string(folder.path().join("junit.xml"))?;
        let failure = "<failure message=\"stopped before the step was done\"/>";
        ensure!(junit.contains(failure), "{junit}");
        let same = cloudsim(folder.path(), &["diff", "rec", "rec"])?;
        ensure!(same.code == Some(0), "{same:?}");
        ensure!(!same.text().contains("warning: "), "{same:?}");
    }
    let trace = fs::read_to_string(folder.path().join("trace"))?;
    ensure!(trace.starts_with("2030-01-01T00:00:"), "{trace}");
    Ok(())
}
