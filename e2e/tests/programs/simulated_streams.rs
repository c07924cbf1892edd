//! Logs, commands, copies and ports of simulated containers, by kubectl: what works on a laptop that has no container runtime.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use e2e::{Cloud, Process, run, run_with_input, until};

const PODS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: green}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: main
    image: nginx
    ports: [{containerPort: 80}]
    env: [{name: GREETING, value: hello}]
    volumeMounts: [{name: settings, mountPath: /etc/settings}]
  volumes: [{name: settings, configMap: {name: settings}}]
---
apiVersion: v1
kind: Pod
metadata: {name: says}
spec:
  restartPolicy: Never
  containers: [{name: main, image: busybox, command: [sh, -c, 'echo one; echo two; exit 3']}]
";

/// kubectl with one of its two protocols.
fn kubectl(cloud: &Cloud, websockets: &str, arguments: &[&str]) -> Command {
    let mut command = cloud.kubectl.command(arguments);
    command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets);
    command.env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets);
    command
}

#[test]
fn what_kubectl_does_with_streams_works_without_a_container_runtime() -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let cloud = Cloud::start_with(directory.path(), &["--nodes", "1"])?;
    cloud.kubectl.apply(PODS)?;
    cloud
        .kubectl
        .run(&["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"])?;
    cloud.kubectl.run(&[
        "wait",
        "--for=jsonpath={.status.phase}=Failed",
        "pod/says",
        "--timeout=60s",
    ])?;
    until("the node's tunnel", || {
        cloud.kubectl.run(&["exec", "web", "--", "true"]).map(drop)
    })?;
    ensure!(cloud.kubectl.run(&["logs", "says"])? == "one\ntwo\n");
    for websockets in ["true", "false"] {
        commands(&cloud, websockets)?;
        copies(&cloud, websockets, directory.path())?;
        forwards(&cloud, websockets, directory.path())?;
    }
    let page = cloud.kubectl.run(&[
        "get",
        "--raw",
        "/api/v1/namespaces/default/pods/web:80/proxy/",
    ])?;
    ensure!(!page.is_empty());
    let input = "echo typed; exit 4\n";
    let words = [
        "run",
        "shell",
        "--rm",
        "-i",
        "--restart=Never",
        "--image=busybox",
        "--",
        "sh",
    ];
    let said = run_with_input(&mut kubectl(&cloud, "true", &words), input)?;
    ensure!(
        said.code == Some(4) && said.text().contains("typed\n"),
        "{said:?}"
    );
    Ok(())
}

fn commands(cloud: &Cloud, websockets: &str) -> anyhow::Result<()> {
    let exec = |arguments: &[&str]| kubectl(cloud, websockets, &[&["exec"], arguments].concat());
    let script = "cat /etc/settings/color; echo; echo $GREETING; echo bad >&2; exit 7";
    let said = run(&mut exec(&["web", "--", "sh", "-c", script]))?;
    ensure!(
        said.code == Some(7) && said.stdout == b"green\nhello\n" && said.stderr.contains("bad\n"),
        "{said:?}"
    );
    let input = "0123456789abcdef".repeat(20_000);
    let said = run_with_input(&mut exec(&["-i", "web", "--", "cat"]), &input)?.success()?;
    ensure!(said.text() == input, "{} bytes", said.stdout.len());
    // a command's end is the end, whatever of its input is left
    let input = "0123456789abcdef".repeat(200_000);
    let said =
        run_with_input(&mut exec(&["-i", "web", "--", "head", "-c", "10"]), &input)?.success()?;
    ensure!(said.text() == "0123456789", "{said:?}");
    let said = run(&mut exec(&["web", "--", "no-such-program"]))?.failure()?;
    ensure!(
        said.contains("executable file not found in $PATH"),
        "{said}"
    );
    Ok(())
}

fn copies(cloud: &Cloud, websockets: &str, directory: &Path) -> anyhow::Result<()> {
    let (from, back) = (directory.join("sent"), directory.join("back"));
    let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    fs::write(&from, &bytes)?;
    let copy =
        |from: &str, to: &str| run(&mut kubectl(cloud, websockets, &["cp", from, to]))?.success();
    copy(&from.display().to_string(), "web:/tmp/sent")?;
    copy("web:/tmp/sent", &back.display().to_string())?;
    ensure!(fs::read(&back)? == bytes, "other bytes came back");
    fs::remove_file(&back)?;
    folder(cloud, websockets, directory)?;
    for _ in 0..5 {
        let none = run(&mut kubectl(
            cloud,
            websockets,
            &["cp", "web:/tmp/none", &back.display().to_string()],
        ))?;
        ensure!(
            none.code.is_some_and(|code| code != 0) && none.text().contains("No such file"),
            "{none:?}"
        );
    }
    Ok(())
}

/// A folder with links, there and back; kubectl itself leaves links out on the way back.
fn folder(cloud: &Cloud, websockets: &str, directory: &Path) -> anyhow::Result<()> {
    let (from, back) = (directory.join("folder"), directory.join("folder-back"));
    if !from.exists() {
        fs::create_dir_all(from.join("inner"))?;
        fs::write(from.join("inner/file"), "content")?;
        symlink("inner/file", from.join("link"))?;
        symlink("inner", from.join("other"))?;
        symlink("none", from.join("dangling"))?;
        fs::write(from.join("z"), "last")?;
    }
    let copy =
        |from: &str, to: &str| run(&mut kubectl(cloud, websockets, &["cp", from, to]))?.success();
    let inside = |script: &str| {
        Ok::<_, anyhow::Error>(
            run(&mut kubectl(
                cloud,
                websockets,
                &["exec", "web", "--", "sh", "-c", script],
            ))?
            .success()?
            .text(),
        )
    };
    copy(&from.display().to_string(), "web:/tmp/folder")?;
    let said = inside("cd /tmp/folder; cat link other/file z; echo; readlink dangling; ls")?;
    ensure!(
        said == "contentcontentlast\nnone\ndangling\ninner\nlink\nother\nz\n",
        "{said}"
    );
    copy("web:/tmp/folder", &back.display().to_string())?;
    ensure!(
        fs::read_to_string(back.join("inner/file"))? == "content"
            && fs::read_to_string(back.join("z"))? == "last"
    );
    ensure!(inside("rm -r /tmp/folder")?.is_empty());
    Ok(fs::remove_dir_all(&back)?)
}

fn forwards(cloud: &Cloud, websockets: &str, directory: &Path) -> anyhow::Result<()> {
    let command = kubectl(cloud, websockets, &["port-forward", "pod/web", ":80"]);
    let mut process = Process::start("kubectl", command, directory)?;
    process.wait_for("Forwarding from 127.0.0.1:")?;
    let log = process.log();
    let port = log
        .split("Forwarding from 127.0.0.1:")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let mut stream = TcpStream::connect(("127.0.0.1", port.context("a port")?.parse()?))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    process.kill()?;
    Ok(())
}
