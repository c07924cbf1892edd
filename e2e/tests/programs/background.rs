//! Clouds in the background: `cloudsim up --detach`, `status`, `kubeconfig` and `down`.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{AGENT, ANY_PORTS, CLOUDSIM, Output, Process, binary, ensure_says, run};
use serde_json::Value;
use tempfile::TempDir;

/// A user with a runtime directory of its own, whose clouds end with this value.
struct User(TempDir);

impl User {
    fn new() -> anyhow::Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    /// Runs cloudsim in this directory below the user's own.
    fn run(&self, directory: &str, arguments: &[&str]) -> anyhow::Result<Output> {
        let directory = self.0.path().join(directory);
        fs::create_dir_all(&directory)?;
        let mut command = Command::new(binary(CLOUDSIM)?);
        command
            .args(arguments)
            .current_dir(directory)
            .env("XDG_RUNTIME_DIR", self.0.path())
            .env_remove("KUBECONFIG");
        run(&mut command)
    }

    fn up(&self, directory: &str, more: &[&str]) -> anyhow::Result<Output> {
        self.run(
            directory,
            &[&["up", "--detach"][..], &ANY_PORTS, more].concat(),
        )
    }

    /// Returns the clouds of `status`.
    fn clouds(&self) -> anyhow::Result<Vec<Value>> {
        let text = self.run(".", &["status", "-o", "json"])?.text();
        let status: Value = serde_json::from_str(&text)?;
        Ok(status["clouds"].as_array().context(text)?.clone())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.run(".", &["down", "--all"]);
    }
}

#[test]
fn cloud_in_the_background_is_found_and_stopped_from_any_directory() -> anyhow::Result<()> {
    let user = User::new()?;
    let screen = user.up("first", &["--nodes", "1"])?.success()?.text();
    ensure_says(&screen, &["is ready", "export KUBECONFIG=", "down"])?;
    ensure!(!screen.contains('\u{1b}'), "colours in a pipe: {screen}");
    let clouds = user.clouds()?;
    ensure!(
        clouds.len() == 1 && clouds[0]["status"] == "Ready" && clouds[0]["readyNodes"] == 1,
        "{clouds:?}"
    );
    let printed = user.run("second", &["kubeconfig"])?.success()?.text();
    let file = user.0.path().join("printed");
    fs::write(&file, printed)?;
    let file = file.display().to_string();
    let nodes = user.run("second", &["nodes", "-o", "name", "--kubeconfig", &file])?;
    ensure!(nodes.success()?.text() == "node/edge-1\n");
    let other = user.run("second", &["down", "--context", "other"])?;
    ensure_says(
        &other.failure()?,
        &["no running cloud has", "cloudsim runs"],
    )?;
    let said = user.run("second", &["down"])?.success()?.text();
    ensure_says(&said, &["cloudsim (process ", "stopped after"])?;
    ensure!(!Path::new(&user.0.path().join("first/cloudsim.kubeconfig")).exists());
    let none = user.run("second", &["status"])?;
    ensure!(
        none.code == Some(1) && none.text().contains("no cloud is running"),
        "{none:?}"
    );
    ensure!(
        user.run("second", &["down"])?
            .success()?
            .text()
            .contains("nothing to stop")
    );
    let left = fs::read_dir(user.0.path().join("cloudsim"))?.count();
    ensure!(left == 0, "{left} files of the cloud stay");
    Ok(())
}

#[test]
fn cloud_that_cannot_start_in_the_background_says_why() -> anyhow::Result<()> {
    let user = User::new()?;
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = taken.local_addr()?.port().to_string();
    for directory in [&[][..], &["--data-dir", "data"]] {
        let mut options = ["up", "-d", "--api-port", &port].to_vec();
        options.extend(directory);
        let said = user.run(".", &options)?.failure()?;
        ensure_says(&said, &["--api-port", &format!("127.0.0.1:{port}")])?;
        ensure!(said.lines().count() == 1, "{said}");
    }
    ensure!(user.clouds()?.is_empty());
    Ok(())
}

#[test]
fn every_command_finds_the_running_cloud_from_any_directory() -> anyhow::Result<()> {
    let user = User::new()?;
    user.up("first", &["--nodes", "1"])?.success()?;
    for (command, part) in [
        (&["status", "-o", "name"][..], "cloud/cloudsim"),
        (&["nodes", "-o", "name"], "node/edge-1"),
        (&["token"], "."),
        (&["devices"], "no devices"),
        (&["rules"], "no rules"),
        (&["mesh", "-o", "name"], "service/kubernetes"),
        (&["faults"], "no faults"),
        (&["kubeconfig"], "client-key-data"),
        (&["nodes", "--context", "cloudsim", "-o", "name"], "edge-1"),
    ] {
        let said = user.run("second", command)?.success()?.text();
        ensure!(said.contains(part), "{command:?}: {said}");
    }
    user.up("second", &["--context", "other"])?.success()?;
    // the kubeconfig of the directory says which one is meant
    let said = user
        .run("first", &["nodes", "-o", "name"])?
        .success()?
        .text();
    ensure!(said == "node/edge-1\n", "{said}");
    let said = user.run("third", &["nodes"])?.failure()?;
    ensure_says(&said, &["2 clouds are running", "--kubeconfig"])?;
    let said = user.run("third", &["nodes", "--context", "other"])?;
    ensure!(said.success()?.text().contains("no nodes"));
    Ok(())
}

#[test]
fn cloud_that_starts_is_shown_and_stopped() -> anyhow::Result<()> {
    let user = User::new()?;
    let mut starting = Command::new(binary(CLOUDSIM)?);
    starting
        .args(["up", "--nodes", "600"])
        .args(ANY_PORTS)
        .current_dir(user.0.path())
        .env("XDG_RUNTIME_DIR", user.0.path())
        .env_remove("KUBECONFIG");
    let started = Process::start("cloudsim", starting, user.0.path())?;
    e2e::until("the record of the cloud", || {
        let clouds = user.clouds()?;
        let status = clouds.first().map(|cloud| &cloud["status"]);
        ensure!(status.is_some_and(|it| it == "Starting"), "{clouds:?}");
        Ok(())
    })?;
    let refused = user.up(".", &[])?.failure()?;
    ensure_says(
        &refused,
        &[
            "runs a cloud with context cloudsim",
            "cloudsim down",
            "--context",
        ],
    )?;
    ensure_says(
        &user.run(".", &["down"])?.success()?.text(),
        &["cloudsim (process ", "stopped after"],
    )?;
    ensure!(user.clouds()?.is_empty());
    ensure!(!user.0.path().join("cloudsim.kubeconfig").exists());
    drop(started);
    Ok(())
}

#[test]
fn of_two_clouds_with_the_same_entries_one_starts() -> anyhow::Result<()> {
    let user = User::new()?;
    let both = std::thread::scope(|scope| {
        let start = || scope.spawn(|| user.up(".", &[]));
        [start(), start()].map(|started| started.join())
    });
    let mut refused = Vec::new();
    for ended in both {
        let ended = ended.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        if ended.code != Some(0) {
            refused.push(ended.failure()?);
        }
    }
    ensure!(refused.len() == 1, "{refused:?}");
    let clouds = user.clouds()?;
    ensure!(clouds.len() == 1, "{clouds:?}");
    let runs = format!("process {} runs a cloud", clouds[0]["pid"]);
    ensure_says(&refused[0], &[&runs, "cloudsim down", "--context"])
}

#[test]
fn files_that_are_none_hold_up_no_command() -> anyhow::Result<()> {
    let user = User::new()?;
    let path = |name: &str| user.0.path().join(name).display().to_string();
    let data = user.0.path().join("data");
    fs::create_dir_all(&data)?;
    fs::create_dir_all(user.0.path().join("manifests"))?;
    for pipe in ["pipe", "data/cloudsim.log", "manifests/pod.yaml"] {
        run(Command::new("mkfifo").arg(path(pipe)))?.success()?;
    }
    let (pipe, data) = (path("pipe"), path("data"));
    for (command, part) in [
        (&["up", "--detach", "--data-dir", &data][..], "cloudsim.log"),
        (&["up", "--kubeconfig", &pipe], "no regular file"),
        (&["up", "--cluster-kubeconfig", &pipe], "a named pipe"),
        (
            &["up", "--data-dir", &data, "--key-file", &pipe],
            "not a regular file",
        ),
        (&["nodes", "--kubeconfig", &pipe], "a named pipe"),
        (&["kubeconfig", "--kubeconfig", &pipe], "a named pipe"),
        (&["nodes", "--kubeconfig", "/dev/zero"], "a device"),
        (&["nodes", "--kubeconfig", &data], "a directory"),
        (
            &["demo", "--once", "--manifests", &path("manifests")],
            "a named pipe",
        ),
        (
            &["hollow", "--cloud", "localhost", "--token-file", &pipe],
            "not a regular file",
        ),
        (&["db", "new-key", &pipe], "not a regular file"),
    ] {
        let said = user.run(".", command)?.failure()?;
        ensure_says(&said, &[part])?;
    }
    let run = user.run(".", &["run", &pipe])?;
    ensure!(run.code == Some(2) && run.text().contains("a named pipe"));
    Ok(())
}

#[test]
fn cloud_in_the_background_needs_a_directory_for_its_record() -> anyhow::Result<()> {
    let user = User::new()?;
    let file = user.0.path().join("file");
    fs::write(&file, "")?;
    for options in [&[][..], &["--data-dir", "data"]] {
        let mut command = Command::new(binary(CLOUDSIM)?);
        command
            .args(["up", "--detach"])
            .args(options)
            .current_dir(user.0.path())
            .env("XDG_RUNTIME_DIR", &file);
        let said = run(&mut command)?.failure()?;
        ensure_says(&said, &["file/cloudsim", "set XDG_RUNTIME_DIR"])?;
    }
    ensure!(!user.0.path().join("data").exists());
    Ok(())
}

#[test]
fn output_that_cannot_be_written_fails_the_command() -> anyhow::Result<()> {
    let user = User::new()?;
    user.up(".", &["--nodes", "1"])?.success()?;
    for command in [
        &["status"][..],
        &["nodes", "-o", "json"],
        &["nodes", "--watch"],
        &["devices"],
        &["token"],
        &["token", "--node", "edge-9", "-o", "yaml"],
        &["kubeconfig"],
        &["completion", "bash"],
        &["roles"],
        &["faults", "profiles"],
        &["--help"],
        &["up", "--help"],
        &["--version"],
    ] {
        let ended = Command::new(binary(CLOUDSIM)?)
            .args(command)
            .current_dir(user.0.path())
            .env("XDG_RUNTIME_DIR", user.0.path())
            .stdout(fs::File::options().write(true).open("/dev/full")?)
            .output()?;
        let said = String::from_utf8_lossy(&ended.stderr);
        ensure!(!ended.status.success(), "{command:?}: {said}");
        ensure_says(&said, &["cannot write to stdout", "No space left"])?;
    }
    let full = fs::File::options().write(true).open("/dev/full")?;
    for argument in ["--defaultconfig", "--help", "--version"] {
        let agent = Command::new(binary(AGENT)?)
            .arg(argument)
            .stdout(full.try_clone()?)
            .output()?;
        let said = String::from_utf8_lossy(&agent.stderr);
        ensure!(!agent.status.success(), "{argument}: {said}");
        ensure_says(&said, &["cannot write to stdout", "No space left"])?;
    }
    Ok(())
}

#[test]
fn killed_cloud_is_not_found_and_starts_again() -> anyhow::Result<()> {
    let user = User::new()?;
    let start = || user.up(".", &["--data-dir", "data"])?.success();
    start()?;
    let pid = user.clouds()?[0]["pid"].clone();
    run(Command::new("kill").args(["-9", &pid.to_string()]))?.success()?;
    e2e::until("the end of the cloud", || {
        let clouds = user.clouds()?;
        ensure!(clouds.is_empty(), "{clouds:?}");
        Ok(())
    })?;
    start()?;
    let clouds = user.clouds()?;
    ensure!(clouds.len() == 1 && clouds[0]["pid"] != pid);
    let log = clouds[0]["log"].as_str().context("it has no log")?;
    ensure!(log.ends_with("data/cloudsim.log"), "{log}");
    Ok(())
}
