//! `cloudsim diff` and `cloudsim replay` with the programs: what was recorded is played against either of them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{CLOUDSIM, Cloud, Node, Output, Ports, Process, Runtime, binary, run};
use serde_json::Value;

/// What differs between two sessions of a Node: the port of its agent, and the taints that a controller sets meanwhile.
const OF_SESSION: [&str; 2] = [
    ".status.daemonEndpoints.kubeletEndpoint.Port",
    ".content.Object.spec.taints[0]",
];
/// A pod of the recorded node with a ConfigMap.
const OBJECTS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: green}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeName: edge-1
  automountServiceAccountToken: false
  containers:
  - name: main
    image: nginx
    envFrom: [{configMapRef: {name: settings}}]
";

/// Records a node whose pod becomes ready.
fn record(directory: &Path) -> anyhow::Result<PathBuf> {
    let file = directory.join("session.rec");
    let path = file.display().to_string();
    let mut cloud = Cloud::start_with(directory, &["--record", &path, "--record-secrets"])?;
    let _runtime = Runtime::start(directory)?;
    let _node = Node::start(directory, &cloud, &cloud.token()?)?;
    cloud.wait_node("Ready")?;
    cloud.kubectl.apply(OBJECTS)?;
    cloud
        .kubectl
        .run(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"])?;
    cloud.process.terminate()?;
    Ok(file)
}

fn replay(file: &Path, arguments: &[&str], ports: Ports) -> anyhow::Result<Command> {
    let mut command = Command::new(binary(CLOUDSIM)?);
    command.arg("replay").arg(file).args(arguments);
    command.args(["--speed", "max", "--wait", "10s", "--output", "json"]);
    command.args(["--https-port", &ports.https.to_string()]);
    command.args(["--ws-port", &ports.ws.to_string()]);
    Ok(command)
}

/// Plays the edge against a new cloud with these objects, and returns the outcome.
fn as_edge(file: &Path, objects: &str) -> anyhow::Result<(Output, Value)> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start(directory.path())?;
    cloud.kubectl.apply(objects)?;
    let token = cloud.token()?;
    let arguments = ["--as", "edge", "--cloud", "127.0.0.1", "--token", &token];
    let output = run(&mut replay(file, &arguments, cloud.ports)?)?;
    let outcome = serde_json::from_slice(&output.stdout).with_context(|| output.stderr.clone())?;
    let phase = ["get", "pod", "web", "-o", "jsonpath={.status.phase}"];
    let phase = cloud.kubectl.run(&phase)?;
    ensure!(
        phase == "Running",
        "the pod is {phase} after the replay: {outcome}"
    );
    Ok((output, outcome))
}

/// Returns kind, resource and the first changed path of each difference.
fn differences(outcome: &Value) -> Vec<String> {
    let all = outcome["comparison"]["differences"].as_array();
    let text = |one: &Value| {
        let path = one["changes"][0]["path"].as_str().unwrap_or_default();
        let of = |key: &str| one[key].as_str().unwrap_or_default();
        format!("{} {} {} {path}", of("sort"), of("kind"), of("resource"))
    };
    // the recording ends while some are on their way
    let is_late = |one: &&Value| one["kind"] == "acknowledgement" && one["sort"] != "content";
    let is_of_session = |one: &&Value| {
        let changes = one["changes"].as_array().map_or(&[][..], |all| all);
        let is_of_session = |one: &Value| {
            let path = one["path"].as_str().unwrap_or_default();
            OF_SESSION.iter().any(|end| path.ends_with(end))
        };
        !changes.is_empty() && changes.iter().all(is_of_session)
    };
    let others = all.into_iter().flatten();
    let others = others.filter(|one| !is_late(one) && !is_of_session(one));
    others.map(text).collect()
}

#[test]
fn a_recorded_edge_is_played_against_a_cloud_and_a_changed_object_is_found() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = record(directory.path())?;
    let (output, outcome) = as_edge(&file, OBJECTS)?;
    let found = differences(&outcome);
    ensure!(found.is_empty(), "{found:#?} {outcome:#}");
    ensure!(output.code.is_some_and(|code| code < 2), "{output:?}");
    let (output, outcome) = as_edge(&file, &OBJECTS.replace("green", "blue"))?;
    let found = differences(&outcome);
    ensure!(
        found == ["content configmap default/configmap/settings .content.data.color"],
        "{found:#?}"
    );
    ensure!(output.code == Some(1), "{:?}", output.code);
    Ok(())
}

#[test]
fn a_recorded_cloud_is_played_against_an_edge() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = record(directory.path())?;
    let here = tempfile::tempdir()?;
    let ports = Ports::free()?;
    let tunnel = ports.tunnel.to_string();
    let arguments = ["--as", "cloud", "--tunnel-port", &tunnel];
    let mut played = Process::start("replay", replay(&file, &arguments, ports)?, here.path())?;
    played.wait_for("--token ")?;
    let log = played.log();
    let token = log.split_once("--token ").context("no token")?.1;
    let token = token.lines().next().unwrap_or_default().trim();
    let _runtime = Runtime::start(here.path())?;
    let config = Node::configure(here.path(), ports, token)?;
    let _node = Process::start("edge-agent", Node::command(&config)?, here.path())?;
    let status = played.wait_exit()?;
    let log = played.log();
    let (_, document) = log.split_once("\n{").context("no outcome")?;
    let outcome: Value = serde_json::from_str(&format!("{{{document}"))?;
    let found = differences(&outcome);
    ensure!(found.is_empty(), "{found:#?} {outcome:#}");
    ensure!(status.code() == Some(1), "{status}");
    Ok(())
}

#[test]
fn two_recordings_of_the_same_session_are_the_same() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = record(directory.path())?;
    let diff = |second: &Path| -> anyhow::Result<Output> {
        let mut command = Command::new(binary(CLOUDSIM)?);
        run(command.arg("diff").arg(&file).arg(second))
    };
    let same = diff(&file)?.success()?.text();
    ensure!(same.starts_with("no differences in "), "{same}");
    let unreadable = diff(Path::new("/dev/null"))?;
    ensure!(unreadable.code == Some(2), "{unreadable:?}");
    ensure!(
        unreadable.stderr.contains("it is a device"),
        "{unreadable:?}"
    );
    ensure!(
        run(&mut replay(
            &file,
            &["--as", "edge", "--cloud", "127.0.0.1", "--token", "t"],
            Ports::free()?
        )?)?
        .code
            == Some(2)
    );
    Ok(())
}
