//! Runs the real Helm against a cloud.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;

use crate::{Cloud, binaries::installed_program, run};

/// Helm with the kubeconfig of one cloud, and nothing of the machine's own configuration.
#[derive(Debug)]
pub struct Helm {
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// Returns the objects of a chart with these values, as YAML documents. Needs no cluster.
pub fn helm_template(chart: &Path, values: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(installed_program("helm")?);
    command.args(["template", "cloudsim", "--namespace", "kubeedge"]);
    command.arg(chart);
    for value in values {
        command.args(["--set", value]);
    }
    Ok(run(&mut command)?.success()?.text())
}

impl Helm {
    /// Returns Helm for `cloud`, with a home directory of its own.
    pub fn new(cloud: &Cloud, home: &Path) -> Self {
        Self {
            kubeconfig: cloud.kubeconfig.clone(),
            home: home.to_owned(),
        }
    }

    /// Runs Helm and returns its output.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = run(&mut self.command(arguments)?)?.success();
        Ok(output
            .with_context(|| format!("helm {}", arguments.join(" ")))?
            .text())
    }

    /// Runs Helm, which must fail, and returns its stderr.
    pub fn refusal(&self, arguments: &[&str]) -> anyhow::Result<String> {
        run(&mut self.command(arguments)?)?
            .failure()
            .with_context(|| format!("helm {}", arguments.join(" ")))
    }

    fn command(&self, arguments: &[&str]) -> anyhow::Result<Command> {
        let mut command = Command::new(installed_program("helm")?);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .args(arguments);
        for variable in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env_remove(variable);
        }
        Ok(command)
    }
}
