//! Logs, commands, copies and ports of real containers, by kubectl and the official Python client, through cloudsim and the stream tunnel.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use e2e::{
    NODE,
    containerd::{IMAGE, RealRig},
    run, run_with_input, until,
};
use serde_json::{Value, json};

use crate::case::{apply, leaves_nothing, pod};

/// Answers each connection with what it says.
const ECHO: &str = "echo ready; trap 'exit 0' TERM; nc -ll -p 7000 -e cat & wait";
/// Lines that are numbered.
const COUNT: &str =
    "trap 'exit 0' TERM; i=0; while true; do echo line $i; i=$((i+1)); usleep 50000; done";

/// All of it on one rig.
#[test]
fn what_kubectl_does_with_streams() -> anyhow::Result<()> {
    let rig = RealRig::start()?;
    let echo = json!({"containers": [{"command": ["sh", "-c", ECHO]}]});
    let counts = json!({"containers": [{"command": ["sh", "-c", COUNT]}]});
    let once = json!({"containers": [{"command": ["sh", "-c", "n=$(cat /kept/n 2>/dev/null || echo 0); echo run $n; echo $((n+1)) > /kept/n; [ $n = 0 ] && exit 1; trap 'exit 0' TERM; sleep 1000 & wait"],
        "volumeMounts": [{"name": "kept", "mountPath": "/kept"}]}], "volumes": [{"name": "kept", "emptyDir": {}}]});
    let asks = json!({"containers": [{"command": ["sh", "-c", "while read line; do echo got $line; done"], "stdin": true}]});
    apply(
        &rig,
        &[
            pod("echo", &echo),
            pod("counts", &counts),
            pod("once", &once),
            pod("asks", &asks),
        ],
    )?;
    for name in ["echo", "counts", "once", "asks"] {
        rig.wait_ready(name)?;
    }
    rig.wait_pod("once", |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        if status["restartCount"] == 1 && status["ready"] == true {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })?;
    logs(&rig)?;
    for websockets in ["true", "false"] {
        commands(&rig, websockets)?;
        copies(&rig, websockets)?;
        forwards(&rig, websockets)?;
    }
    attaches(&rig)?;
    python(&rig)?;
    runs_and_debugs(&rig)?;
    refusals(&rig)?;
    after_a_cut(&rig)?;
    leaves_nothing(&rig)
}

/// kubectl with one of its two protocols.
fn kubectl(rig: &RealRig, websockets: &str, arguments: &[&str]) -> Command {
    let mut command = rig.cloud.kubectl.command(arguments);
    command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
    command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    command
}

fn logs(rig: &RealRig) -> anyhow::Result<()> {
    let kubectl = &rig.cloud.kubectl;
    ensure!(kubectl.run(&["logs", "echo"])? == "ready\n");
    ensure!(kubectl.run(&["logs", "once", "--previous"])? == "run 0\n");
    ensure!(kubectl.run(&["logs", "once"])? == "run 1\n");
    let stamped = kubectl.run(&["logs", "echo", "--timestamps", "--tail=1"])?;
    ensure!(stamped.ends_with("Z ready\n"), "{stamped}");
    let none = kubectl.output(&["logs", "echo", "-c", "none"])?.failure()?;
    ensure!(
        none.contains("container none is not valid for pod echo"),
        "{none}"
    );
    let mut follows = kubectl.start(&["logs", "-f", "counts"], rig.directory.path())?;
    follows.wait_for("line 40\n")?;
    let log = follows.log();
    let numbers: Vec<_> = log
        .lines()
        .filter_map(|line| line.strip_prefix("line ")?.parse::<u32>().ok())
        .collect();
    ensure!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "{log}"
    );
    follows.kill()?;
    Ok(())
}

fn commands(rig: &RealRig, websockets: &str) -> anyhow::Result<()> {
    let exec = |arguments: &[&str]| kubectl(rig, websockets, &[&["exec"], arguments].concat());
    let said = run(&mut exec(&[
        "echo",
        "--",
        "sh",
        "-c",
        "echo out; echo err >&2; exit 7",
    ]))?;
    ensure!(
        said.code == Some(7) && said.stdout == b"out\n" && said.stderr.contains("err\n"),
        "{said:?}"
    );
    // an end that the command sees, and all that it answers
    let input = "0123456789abcdef".repeat(20_000);
    let said = run_with_input(&mut exec(&["-i", "echo", "--", "cat"]), &input)?.success()?;
    ensure!(said.text() == input, "{} bytes", said.stdout.len());
    let said = run_with_input(&mut exec(&["-i", "echo", "--", "md5sum"]), &input)?.success()?;
    ensure!(said.text().ends_with("  -\n"), "{said:?}");
    let said = run(&mut exec(&["echo", "--", "no-such-program"]))?.failure()?;
    ensure!(said.contains("no-such-program"), "{said}");
    Ok(())
}

fn copies(rig: &RealRig, websockets: &str) -> anyhow::Result<()> {
    let from = rig.directory.path().join("sent");
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    fs::write(&from, &bytes)?;
    let copy =
        |from: &str, to: &str| run(&mut kubectl(rig, websockets, &["cp", from, to]))?.success();
    copy(&from.display().to_string(), "echo:/tmp/sent")?;
    let digest = run(Command::new("sha256sum").arg(&from))?.success()?.text();
    let (digest, _) = digest.split_once(' ').context("a digest")?;
    let inside = rig.inside("echo", "sha256sum /tmp/sent")?;
    ensure!(inside.starts_with(digest), "{inside}, not {digest}");
    let back = rig.directory.path().join("back");
    copy("echo:/tmp/sent", &back.display().to_string())?;
    ensure!(fs::read(&back)? == bytes, "other bytes came back");
    Ok(fs::remove_file(&back)?)
}

fn forwards(rig: &RealRig, websockets: &str) -> anyhow::Result<()> {
    let command = kubectl(rig, websockets, &["port-forward", "pod/echo", ":7000"]);
    let logs = rig.directory.path();
    let mut process = e2e::Process::start("kubectl", command, logs)?;
    process.wait_for("Forwarding from 127.0.0.1:")?;
    let log = process.log();
    let port = log
        .split("Forwarding from 127.0.0.1:")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let port: u16 = port.context("a port")?.parse()?;
    for round in 0..3_u8 {
        let sent = vec![round; 200_000];
        let came = echo(port, &sent).with_context(|| process.log())?;
        ensure!(came == sent, "other bytes come back");
    }
    process.kill()?;
    Ok(())
}

fn echo(port: u16, sent: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut writer = stream.try_clone()?;
    let bytes = sent.to_owned();
    let writing = std::thread::spawn(move || writer.write_all(&bytes));
    let mut came = vec![0; sent.len()];
    stream.read_exact(&mut came)?;
    writing
        .join()
        .map_err(|_| anyhow::anyhow!("the writer has failed"))??;
    Ok(came)
}

fn attaches(rig: &RealRig) -> anyhow::Result<()> {
    talks(
        kubectl(rig, "true", &["attach", "-i", "asks"]),
        "got this\n",
    )
}

/// Says `this` and waits for the answer, with an input that stays open: the runtime ends what is attached to at its end.
fn talks(mut command: Command, answer: &str) -> anyhow::Result<()> {
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.context("cannot run kubectl")?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (mut stdin, mut stdout) = (stdin.context("stdin")?, stdout.context("stdout")?);
    stdin.write_all(b"this\n")?;
    let (mut said, mut part) = (String::new(), [0; 256]);
    while !said.contains(answer)
        && let read @ 1.. = stdout.read(&mut part)?
    {
        said.push_str(&String::from_utf8_lossy(&part[..read]));
    }
    child.kill()?;
    child.wait()?;
    ensure!(said.contains(answer), "{said:?}");
    Ok(())
}

/// The official client, and kubectl on a terminal.
fn python(rig: &RealRig) -> anyhow::Result<()> {
    let mut command = e2e::python("streams.py")?;
    command.arg("echo");
    command
        .env("KUBECONFIG", &rig.cloud.kubeconfig)
        .env("HOME", rig.directory.path());
    let told = run(&mut command)?.success()?.text();
    let told: Value = serde_json::from_str(&told).with_context(|| told.clone())?;
    let expected = json!({
        "exec": ["out\n", "err\n", 7],
        "talk": "got this",
        "log": "ready\n",
        "forward": "there and back",
        "terminal": [true, true, 3],
    });
    ensure!(told == expected, "{told}");
    Ok(())
}

fn runs_and_debugs(rig: &RealRig) -> anyhow::Result<()> {
    let image = format!("--image={IMAGE}");
    let ran = run_with_input(
        &mut kubectl(
            rig,
            "true",
            &[
                "run",
                "once-only",
                "--rm",
                "-i",
                "--restart=Never",
                "--image-pull-policy=Never",
                &image,
                "--command",
                "--",
                "sh",
                "-c",
                "read word; echo got $word",
            ],
        ),
        "this\n",
    )?;
    ensure!(
        ran.code == Some(0) && ran.text().contains("got this"),
        "{ran:?}"
    );
    let words = "read word; echo saw $word; read word";
    let debugs = [
        "debug",
        "-i",
        "echo",
        &image,
        "--image-pull-policy=Never",
        "--target=main",
        "-c",
        "look",
    ];
    let debugs = [&debugs[..], &["--", "sh", "-c", words]].concat();
    talks(kubectl(rig, "true", &debugs), "saw this\n")
}

fn refusals(rig: &RealRig) -> anyhow::Result<()> {
    let kubectl = &rig.cloud.kubectl;
    let none = kubectl
        .output(&["exec", "echo", "-c", "none", "--", "true"])?
        .failure()?;
    ensure!(
        none.contains("container none is not valid for pod echo"),
        "{none}"
    );
    let none = kubectl
        .output(&["exec", "nobody", "--", "true"])?
        .failure()?;
    ensure!(none.contains("pods \"nobody\" not found"), "{none}");
    let summary = kubectl.run(&[
        "get",
        "--raw",
        &format!("/api/v1/nodes/{NODE}/proxy/stats/summary"),
    ])?;
    ensure!(summary.contains("\"podRef\""), "{summary}");
    Ok(())
}

/// A log that is followed ends when the link is cut, with an error; after that everything is as before.
fn after_a_cut(rig: &RealRig) -> anyhow::Result<()> {
    let mut follows = rig
        .cloud
        .kubectl
        .start(&["logs", "-f", "counts", "--tail=1"], rig.directory.path())?;
    follows.wait_for("line ")?;
    rig.cloud.faults(&["cut", NODE])?;
    let ended = follows.wait_exit()?;
    ensure!(
        !ended.success(),
        "a log that was cut off looks complete: {}",
        follows.log()
    );
    let said = rig
        .cloud
        .kubectl
        .output(&["exec", "echo", "--", "true"])?
        .failure()?;
    ensure!(said.contains("has no stream tunnel"), "{said}");
    rig.cloud.faults(&["restore"])?;
    until("a command after the cut", || {
        let said = rig
            .cloud
            .kubectl
            .output(&["exec", "echo", "--", "echo", "again"])?;
        ensure!(said.stdout == b"again\n", "{said:?}");
        anyhow::Ok(())
    })
}
