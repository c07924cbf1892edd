//! `edge-agent ctl` on real containers: pods of the node without the cloud, and pods that wait for their release.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, ensure};
use e2e::{AGENT, Kubectl, NODE, Ports, binary, containerd::RealRig, run_with_input, until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::case::{apply, leaves_nothing, pod};

fn command(rig: &RealRig, arguments: &[&str]) -> anyhow::Result<Command> {
    let mut command = Command::new(binary(AGENT)?);
    let (first, rest) = arguments.split_first().context("no command")?;
    command.args(["ctl", first, "--config"]);
    command.arg(&rig.node.config).args(rest);
    Ok(command)
}

fn ctl(rig: &RealRig, arguments: &[&str]) -> anyhow::Result<Output> {
    Ok(command(rig, arguments)?.output()?)
}

/// Runs a command that succeeds; returns its output.
fn ctl_text(rig: &RealRig, arguments: &[&str]) -> anyhow::Result<String> {
    let output = ctl(rig, arguments)?;
    ensure!(output.status.success(), "{arguments:?}: {output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Runs a command that fails, with this text in its error.
fn ctl_fails(rig: &RealRig, arguments: &[&str], why: &str) -> anyhow::Result<()> {
    let output = ctl(rig, arguments)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(1) && error.contains(why) && output.stdout.is_empty(),
        "{arguments:?}: {output:?}"
    );
    Ok(())
}

#[test]
fn pods_are_shown_and_restarted_without_the_cloud() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let writes = "trap 'exit 0' TERM; echo one; echo two; sleep 2147483647 & wait";
    let writer = json!({"containers": [{"command": ["sh", "-c", writes]}]});
    let ends = json!({"restartPolicy": "Never", "containers": [{"command": ["sh", "-c", "echo one; sleep 5; echo two"]}]});
    apply(
        &rig,
        &[
            pod("web", &json!({})),
            pod("writer", &writer),
            pod("brief", &ends),
        ],
    )?;
    rig.wait_phase("brief", "Running")?;
    ensure!(ctl_text(&rig, &["logs", "-f", "brief"])? == "one\ntwo\n");
    let before = rig.wait_ready("web")?;
    rig.wait_ready("writer")?;
    check_objects(&rig, &before)?;
    check_streams(&rig)?;
    rig.cloud.process.kill()?;
    check_objects(&rig, &before)?;
    check_streams(&rig)?;
    ensure!(ctl_text(&rig, &["restart", "web"])? == "pod/web restarted\n");
    until("the container of web runs again", || {
        let now: Value =
            serde_json::from_str(&ctl_text(&rig, &["get", "pods", "web", "-o", "json"])?)?;
        let status = &now["status"]["containerStatuses"][0];
        ensure!(
            status["restartCount"] == 1 && status["ready"] == true,
            "{status}"
        );
        ensure!(
            now["status"]["podIP"] == before["status"]["podIP"],
            "another sandbox"
        );
        Ok(())
    })?;
    rig.cloud.process.start_again()?;
    rig.cloud.process.wait_for("is ready")?;
    rig.cloud.wait_node("Ready")?;
    leaves_nothing(&rig)
}

/// Checks the objects of the node that `web` runs on, and what is refused.
fn check_objects(rig: &RealRig, web: &Value) -> anyhow::Result<()> {
    let table = ctl_text(rig, &["get", "pods"])?;
    let words: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    ensure!(
        words[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"],
        "{table}"
    );
    ensure!(
        words.len() == 4 && words[2][..3] == ["web", "1/1", "Running"],
        "{table}"
    );
    let all = ctl_text(rig, &["get", "po", "web", "-A", "-o", "wide"])?;
    ensure!(
        all.starts_with("NAMESPACE") && all.lines().count() == 2,
        "{all}"
    );
    let found: Value =
        serde_json::from_str(&ctl_text(rig, &["get", "pods", "web", "-o", "json"])?)?;
    ensure!(
        found["metadata"]["uid"] == web["metadata"]["uid"],
        "{found}"
    );
    let selected = ctl_text(rig, &["get", "pods", "-l", "app=writer"])?;
    ensure!(
        selected.contains("writer") && !selected.contains("web"),
        "{selected}"
    );
    ensure!(ctl_text(rig, &["get", "nodes"])?.contains(NODE));
    let described = ctl_text(rig, &["describe", "pod", "web"])?;
    for line in [
        "Name:                web",
        "Status:              Running",
        "    State:           running",
    ] {
        ensure!(described.contains(line), "{described}");
    }
    for (arguments, why) in [
        (vec!["get", "pods", "nowhere"], "\"nowhere\" not found"),
        (
            vec!["get", "devices"],
            "no resources found in namespace default",
        ),
        (vec!["describe", "pod", "nowhere"], "not found"),
        (vec!["logs", "nowhere"], "not found"),
        (vec!["confirm"], "this node runs no jobs"),
        (vec!["unhold", "web"], "does not have the annotation"),
        (
            vec!["restart", "nowhere"],
            "pod nowhere: not found on this node",
        ),
    ] {
        ctl_fails(rig, &arguments, why)?;
    }
    Ok(())
}

/// Checks commands in pods and logs.
fn check_streams(rig: &RealRig) -> anyhow::Result<()> {
    let output = ctl(
        rig,
        &[
            "exec",
            "web",
            "--",
            "sh",
            "-c",
            "echo out; echo err >&2; exit 7",
        ],
    )?;
    ensure!(
        output.status.code() == Some(7) && output.stdout == b"out\n" && output.stderr == b"err\n",
        "{output:?}"
    );
    let mut cat = command(rig, &["exec", "-i", "web", "--", "cat"])?
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    cat.stdin
        .take()
        .context("no stdin")?
        .write_all(b"hello\n")?;
    let output = cat.wait_with_output()?;
    ensure!(
        output.status.success() && output.stdout == b"hello\n",
        "{output:?}"
    );

    // in a terminal, whose size the command sees; `script` exits with its code
    let mut in_terminal = command(rig, &["exec", "-it", "web", "--", "sh", "-c"])?;
    in_terminal.arg("'test -t 0 && test -t 1 && echo terminal; exit 5'");
    let words: Vec<_> = [in_terminal.get_program()]
        .into_iter()
        .chain(in_terminal.get_args())
        .collect();
    let line = words.join(std::ffi::OsStr::new(" "));
    let mut script = Command::new("script");
    script
        .arg("-qec")
        .arg(line)
        .arg("/dev/null")
        .stdin(Stdio::null());
    let output = script.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.code() == Some(5) && said.contains("terminal\r\n"),
        "{output:?}"
    );
    let output = ctl(rig, &["exec", "-t", "web", "--", "echo", "out"])?;
    ensure!(
        output.stdout == b"out\n" && !output.stderr.is_empty(),
        "{output:?}"
    );

    ensure!(ctl_text(rig, &["logs", "writer"])? == "one\ntwo\n");
    ensure!(ctl_text(rig, &["logs", "writer", "--tail", "1"])? == "two\n");
    let mut follows = command(rig, &["logs", "-f", "writer"])?
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(follows.stdout.take().context("no stdout")?).lines();
    ensure!(lines.next().transpose()?.as_deref() == Some("one"));
    kill(Pid::from_raw(i32::try_from(follows.id())?), Signal::SIGINT)?;
    ensure!(follows.wait()?.code() != Some(0));
    // the end of the container is the end of its log
    ensure!(ctl_text(rig, &["logs", "-f", "brief"])? == "one\ntwo\n");
    Ok(())
}

fn held_pod(name: &str) -> Value {
    let mut pod = pod(name, &json!({}));
    pod["metadata"]["annotations"] = json!({"edge.kubeedge.io/hold-upgrade": "true"});
    pod
}

fn wait_held(rig: &RealRig, name: &str) -> anyhow::Result<Value> {
    rig.wait_pod(name, |pod| {
        let conditions = pod["status"]["conditions"].as_array();
        let held = conditions.into_iter().flatten().any(|one| {
            one["type"] == "HeldUpgrade"
                && one["status"] == "True"
                && one["reason"] == "HoldUpgradeEnabled"
        });
        match held && pod["status"]["phase"] == "Pending" {
            true => Ok(()),
            false => Err(pod["status"].to_string()),
        }
    })
}

#[test]
fn held_pods_start_when_they_are_released() -> anyhow::Result<()> {
    let mut rig = RealRig::start()?;
    let address = format!("127.0.0.1:{}", Ports::free()?.api);
    let server = format!("  metaManager: {{metaServer: {{enable: true, server: '{address}'}}}}");
    rig.restart_with_lines(&[("modules:", &server)])?;
    rig.cloud.wait_node("Ready")?;
    let names = ["held-1", "held-2", "held-3", "held-4"];
    apply(&rig, &[pod("web", &json!({}))])?;
    let web = rig.wait_ready("web")?;
    apply(&rig, &names.map(held_pod))?;
    for name in names {
        wait_held(&rig, name)?;
    }
    rig.node.process.kill()?;
    rig.node.process.start_again()?;
    rig.node.process.wait_for("status socket listening")?;
    let sandboxes =
        |rig: &RealRig| Ok::<_, anyhow::Error>(rig.containerd.raw_cri.sandboxes(None)?.len());
    ensure!(sandboxes(&rig)? == 1);

    ensure!(ctl_text(&rig, &["unhold", "held-1"])? == "pod/held-1 released\n");
    rig.wait_ready("held-1")?;
    ctl_fails(&rig, &["unhold", "held-1"], "it has already begun to start")?;
    ctl_fails(
        &rig,
        &["unhold", "nowhere"],
        "pod default/nowhere not found",
    )?;
    for name in ["held-2", "held-3", "held-4"] {
        wait_held(&rig, name)?;
    }
    ensure!(sandboxes(&rig)? == 2);

    // MetaServer's endpoints
    rig.node.process.wait_for("MetaServer listening")?;
    let kubectl = Kubectl::new(&rig.node.kubeconfig(), rig.directory.path());
    let post = |path: &str, body: &str| {
        let mut command = kubectl.command(&["create", "--raw", path, "-f", "-"]);
        Ok::<_, anyhow::Error>(run_with_input(&mut command, body)?.success()?.text())
    };
    post("/api/v1/pods/unhold-upgrade", "default/held-2")?;
    rig.wait_ready("held-2")?;
    let refused = post("/api/v1/taskupgrade/confirm-upgrade", " ");
    ensure!(refused.is_err_and(|error| format!("{error:#}").contains("this node runs no jobs")));
    let node = "/api/v1/nodes/unhold-upgrade";
    ensure!(post(node, "other").is_err());
    post(node, NODE)?;
    rig.wait_ready("held-3")?;
    rig.wait_ready("held-4")?;
    let pods = r#"["held-4","nowhere"]"#;
    let restarted = post("/api/v1/namespaces/default/pods/restart", pods)?;
    let answer: Value = serde_json::from_str(&restarted)?;
    ensure!(
        answer["LogMessages"] == json!(["pod/held-4 restarted"])
            && answer["errMessages"] == json!(["pod nowhere: not found on this node"]),
        "{answer}"
    );

    let after = rig.wait_ready("web")?;
    let id = "/status/containerStatuses/0/containerID";
    ensure!(
        web.pointer(id) == after.pointer(id),
        "another pod was touched"
    );
    leaves_nothing(&rig)
}
