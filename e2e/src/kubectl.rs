//! Runs kubectl as a person does.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use serde_json::Value;

use crate::{Output, Process, run, run_with_input};

/// kubectl with a kubeconfig and an empty home directory, so that nothing of the machine's own configuration is seen.
#[derive(Clone, Debug)]
pub struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    /// Returns kubectl for the cluster of `kubeconfig`; `home` is for its caches.
    pub fn new(kubeconfig: &Path, home: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            home: home.to_owned(),
        }
    }

    /// Returns the command of kubectl with these arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(testkit::kubectl());
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .args(arguments);
        command
    }

    /// Runs it and returns its stdout; every exit code but 0 is an error.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        Ok(self
            .output(arguments)?
            .success()
            .with_context(|| format!("kubectl {}", arguments.join(" ")))?
            .text())
    }

    /// Runs it and returns all its output.
    pub fn output(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        run(&mut self.command(arguments)).context("cannot run kubectl")
    }

    /// Runs `kubectl apply -f -` with these manifests, and returns its output.
    pub fn apply(&self, manifests: &str) -> anyhow::Result<String> {
        let output = run_with_input(&mut self.command(&["apply", "-f", "-"]), manifests)?;
        Ok(output.success().context("kubectl apply")?.text())
    }

    /// Runs it with `-o json`, and returns the parsed output.
    pub fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let text = self.run(&[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("kubectl printed no JSON: {text}"))
    }

    /// Starts it in the background, such as `get -w`.
    pub fn start(&self, arguments: &[&str], logs: &Path) -> anyhow::Result<Process> {
        Process::start("kubectl", self.command(arguments), logs)
    }
}
