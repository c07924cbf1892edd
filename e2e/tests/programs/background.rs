//! Clouds in the background: `cloudsim up --detach`, `status`, `kubeconfig` and `down`.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{ANY_PORTS, CLOUDSIM, Output, binary, ensure_says, run};
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
