//! Recordings of the programs: through the proxy, over QUIC, with a tunnel, and after `kill -9`.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{AGENT, CLOUDSIM, Cloud, NODE, Node, Ports, Process, Runtime, binary, run, until};

/// A text of Secrets, environment variables and arguments.
const CANARY: &str = "canary-4711-canary";

/// Starts the proxy before a cloud; its recording is `session.rec` in `directory`.
fn start_proxy(
    directory: &Path,
    cloud: &Cloud,
    ports: Ports,
    more: &[&str],
) -> anyhow::Result<Process> {
    let token = directory.join("token");
    fs::write(&token, cloud.token()?)?;
    let mut command = Command::new(binary(CLOUDSIM)?);
    command.arg("record").arg(directory.join("session.rec"));
    command.args(["--cloud", "127.0.0.1", "--log-filter", "trace"]);
    command.arg("--token-file").arg(token);
    for (option, port) in [
        ("--cloud-https-port", cloud.ports.https),
        ("--cloud-ws-port", cloud.ports.ws),
        ("--cloud-tunnel-port", cloud.ports.tunnel),
        ("--https-port", ports.https),
        ("--ws-port", ports.ws),
        ("--tunnel-port", ports.tunnel),
    ] {
        command.args([option, &port.to_string()]);
    }
    command.args(more);
    let mut proxy = Process::start("record", command, directory)?;
    proxy.wait_for("--token ")?;
    Ok(proxy)
}

/// Returns the token that a proxy has printed.
fn join_token(proxy: &Process) -> anyhow::Result<String> {
    let log = proxy.log();
    let token = log.split_once("--token ").context("no token")?.1;
    Ok(token.lines().next().unwrap_or_default().trim().to_owned())
}

/// Replaces WebSocket by QUIC at this port in a configuration of the agent.
fn use_quic(config: &Path, port: &str) -> anyhow::Result<()> {
    let text = fs::read_to_string(config)?;
    let (before, after) = text
        .split_once("    websocket:\n      enable: true\n")
        .context("no section for WebSocket")?;
    let sections = format!(
        "    quic: {{enable: true, server: \"127.0.0.1:{port}\"}}\n    websocket:\n      enable: false\n"
    );
    fs::write(config, [before, &sections, after].concat())?;
    Ok(())
}

/// Runs a pod that has secrets.
fn run_pod(cloud: &Cloud, name: &str) -> anyhow::Result<()> {
    cloud.kubectl.apply(&format!(
        "apiVersion: v1
kind: Secret
metadata: {{name: {name}}}
stringData: {{word: {CANARY}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  nodeName: {NODE}
  containers:
  - name: main
    image: busybox
    command: [sleep, \"3600\"]
    env: [{{name: WORD, value: {CANARY}}}]
    volumeMounts: [{{name: secret, mountPath: /secret}}]
  volumes: [{{name: secret, secret: {{secretName: {name}}}}}]
"
    ))?;
    let pod = format!("pod/{name}");
    let wait = ["wait", "--for=condition=Ready", &pod, "--timeout=90s"];
    cloud.kubectl.run(&wait).map(drop)
}

/// Returns what `cloudsim show` prints as JSON, a line for each frame.
fn json_frames(files: &[PathBuf]) -> anyhow::Result<String> {
    let mut show = Command::new(binary(CLOUDSIM)?);
    show.arg("show").args(["-o", "json"]).args(files);
    Ok(run(&mut show)?.success()?.text())
}

/// Returns the resource of the status of a pod.
fn status_path(pod: &str) -> String {
    format!("default/podpatch/{pod}")
}

/// Checks that frames of these kinds were recorded.
fn ensure_kinds(frames: &str, kinds: &[&str]) -> anyhow::Result<()> {
    for kind in kinds {
        let is_there = frames.contains(&format!("\"kind\":\"{kind}\""));
        ensure!(is_there, "no {kind} was recorded");
    }
    Ok(())
}

#[test]
fn pods_run_through_the_recording_proxy_and_restarts_of_cloud_and_proxy() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let mut cloud = Cloud::start(directory.path())?;
    let ports = Ports::free()?;
    let mut proxy = start_proxy(directory.path(), &cloud, ports, &[])?;
    let token = join_token(&proxy)?;
    let _runtime = Runtime::start(directory.path())?;
    let config = Node::configure(directory.path(), ports, &token)?;
    let mut node = Process::start(AGENT, Node::command(&config)?, directory.path())?;
    cloud.wait_node("Ready")?;
    run_pod(&cloud, "first")?;
    let exec = ["exec", "first", "--", "echo", CANARY];
    until("an exec through the proxy", || {
        let printed = cloud.kubectl.run(&exec)?;
        ensure!(printed.contains(CANARY), "{printed}");
        anyhow::Ok(())
    })?;

    cloud.process.kill()?;
    cloud.process.start_again()?;
    cloud.process.wait_for("is ready")?;
    run_pod(&cloud, "second")?;
    let file = |name: &str| directory.path().join(name);
    // what a killed proxy has not written is lost
    until("the status of second in the recording", || {
        let frames = json_frames(&[file("session.rec")])?;
        ensure!(frames.contains(&status_path("second")), "it is not there");
        anyhow::Ok(())
    })?;

    let mut logs = proxy.log();
    proxy.kill()?;
    proxy.start_again()?;
    proxy.wait_for("--token ")?;
    run_pod(&cloud, "third")?;
    node.terminate()?;
    proxy.terminate()?;
    logs += &proxy.log();

    let frames = json_frames(&[file("session.rec.1"), file("session.rec")])?;
    let kinds = ["request", "response", "node-registration", "Exec", "Data"];
    ensure_kinds(&frames, &kinds)?;
    ensure_kinds(&frames, &["ping", "pong", "pod-status", "secret"])?;
    ensure!(!frames.contains("\"kind\":\"malformed\""), "{frames}");
    for pod in ["first", "second", "third"] {
        let is_there = frames.contains(&status_path(pod));
        ensure!(is_there, "no status of {pod} was recorded");
    }
    let real = fs::read_to_string(file("token"))?;
    for secret in [CANARY, &real, &token] {
        // the join line is the only place of the proxy's token
        let times = logs.matches(secret).count();
        ensure!(
            times <= usize::from(secret == token),
            "a secret is in the log"
        );
        let part = secret.rsplit('.').next().unwrap_or_default();
        ensure!(!frames.contains(part), "a secret was recorded");
    }
    for private in [
        "session.rec",
        "session.rec.proxy",
        "session.rec.proxy/ca.pem",
    ] {
        let mode = fs::metadata(file(private))?.permissions().mode();
        ensure!(mode & 0o077 == 0, "{private} has mode {mode:o}");
    }
    Ok(())
}

#[test]
fn killed_cloud_leaves_a_readable_recording_of_quic_and_the_tunnel() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("cloud.rec");
    let quic = Ports::free()?.ws.to_string();
    let recorded = file.display().to_string();
    let arguments = ["--record", &recorded, "--quic-port", &quic];
    let mut cloud = Cloud::start_with(directory.path(), &arguments)?;
    let _runtime = Runtime::start(directory.path())?;
    let config = Node::configure(directory.path(), cloud.ports, &cloud.token()?)?;
    use_quic(&config, &quic)?;
    let edge_file = directory.path().join("edge.rec");
    let mut command = Node::command(&config)?;
    command.arg("--record").arg(&edge_file);
    let mut node = Process::start(AGENT, command, directory.path())?;
    cloud.wait_node("Ready")?;
    run_pod(&cloud, "first")?;
    until("an exec", || {
        let printed = cloud.kubectl.run(&["exec", "first", "--", "echo", "x"])?;
        ensure!(printed.contains('x'), "{printed}");
        anyhow::Ok(())
    })?;
    // what was sent more than half a second ago is in the file
    until("the exec in the recordings", || {
        for file in [&file, &edge_file] {
            ensure_kinds(
                &json_frames(std::slice::from_ref(file))?,
                &["Exec", "RemoveConnect"],
            )?;
        }
        anyhow::Ok(())
    })?;
    cloud.process.kill()?;
    node.kill()?;
    for file in [&file, &edge_file] {
        let frames = json_frames(std::slice::from_ref(file))?;
        let kinds = ["request", "node-registration", "pod-status", "Exec", "Data"];
        ensure_kinds(&frames, &kinds)?;
        ensure!(!frames.contains(CANARY), "a secret was recorded");
    }
    Ok(())
}

#[test]
fn pods_run_over_quic_through_the_recording_proxy_and_a_restart_of_the_cloud() -> anyhow::Result<()>
{
    let directory = tempfile::tempdir()?;
    let [of_cloud, of_proxy] = [Ports::free()?, Ports::free()?].map(|ports| ports.ws.to_string());
    let mut cloud = Cloud::start_with(directory.path(), &["--quic-port", &of_cloud])?;
    let ports = Ports::free()?;
    let quic = ["--quic-port", &of_proxy, "--cloud-quic-port", &of_cloud];
    let mut proxy = start_proxy(directory.path(), &cloud, ports, &quic)?;
    let _runtime = Runtime::start(directory.path())?;
    let config = Node::configure(directory.path(), ports, &join_token(&proxy)?)?;
    use_quic(&config, &of_proxy)?;
    let mut node = Process::start(AGENT, Node::command(&config)?, directory.path())?;
    cloud.wait_node("Ready")?;
    run_pod(&cloud, "first")?;
    cloud.process.kill()?;
    cloud.process.start_again()?;
    cloud.process.wait_for("is ready")?;
    run_pod(&cloud, "second")?;
    node.terminate()?;
    proxy.terminate()?;
    let frames = json_frames(&[directory.path().join("session.rec")])?;
    ensure_kinds(
        &frames,
        &["node-registration", "pod", "pod-status", "secret"],
    )?;
    ensure_kinds(&frames, &["acknowledgement", "keepalive"])?;
    ensure!(!frames.contains("\"kind\":\"malformed\""), "{frames}");
    for pod in ["first", "second"] {
        let is_there = frames.contains(&status_path(pod));
        ensure!(is_there, "no status of {pod} was recorded");
    }
    ensure!(!frames.contains(CANARY), "a secret was recorded");
    Ok(())
}
