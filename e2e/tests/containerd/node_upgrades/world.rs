//! A node whose agent is upgraded, with a pod, and images of versions that work or fail.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, ensure};
use e2e::{AGENT, NODE, Process, binary, containerd::RealRig, run, until};
use serde_json::{Value, json};

use crate::case::{apply, pod};

/// The version that is built, and one with the same behaviour.
pub(super) const OLD: &str = env!("CARGO_PKG_VERSION");
pub(super) const NEW: &str = "0.1.9";
/// The repository of the images.
pub(super) const REPOSITORY: &str = "docker.io/e2e/agent";
/// Where images have the program.
pub(super) const PLACE: &str = "usr/local/bin/edge-agent";

/// A node that runs a copy of the agent, with a pod.
pub(super) struct World {
    pub(super) rig: RealRig,
    pub(super) program: PathBuf,
    pod: Value,
}

impl World {
    /// Starts it with the program in this directory.
    pub(super) fn start(directory: &Path) -> anyhow::Result<Self> {
        let mut rig = RealRig::start()?;
        let program = directory.join(AGENT);
        write_program(&program, &fs::read(binary(AGENT)?)?)?;
        // the programs of debug builds are mostly symbols
        run(Command::new("strip").arg(&program))?.success()?;
        rig.node
            .add_after("modules:", "  taskManager: {enable: true}")?;
        rig.node.process.terminate()?;
        let mut command = Command::new(&program);
        command.arg("--config").arg(&rig.node.config);
        rig.node.process = Process::start("agent", command, rig.directory.path())?;
        rig.node.process.wait_for("edge-agent started")?;
        rig.cloud.wait_node("Ready")?;
        apply(&rig, &[pod("web", &json!({}))])?;
        let pod = rig.wait_ready("web")?;
        Ok(Self { rig, program, pod })
    }

    /// Adds an image of a version with this program.
    pub(super) fn add_image(&self, name: &str, version: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let file = self.rig.directory.path().join("program");
        write_program(&file, bytes)?;
        let image = format!("{REPOSITORY}-{name}:v{version}");
        self.rig
            .containerd
            .add_image_of(&image, &[(PLACE, file.as_path())])
    }

    /// Lets an image have its digest, and returns it.
    pub(super) fn add_digest(&self, name: &str, version: &str) -> anyhow::Result<String> {
        let repository = format!("{REPOSITORY}-{name}");
        self.rig
            .containerd
            .add_digest(&repository, &format!("v{version}"))
    }

    pub(super) fn apply(
        &self,
        name: &str,
        image: &str,
        version: &str,
        more: &Value,
    ) -> anyhow::Result<()> {
        let mut spec = json!({"version": format!("v{version}"), "image": format!("{REPOSITORY}-{image}"),
            "nodeNames": [NODE], "timeoutSeconds": 60});
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let job = json!({"apiVersion": "operations.kubeedge.io/v1alpha2", "kind": "NodeUpgradeJob",
            "metadata": {"name": name}, "spec": spec});
        apply(&self.rig, &[job])
    }

    /// Returns the status of a job, and that of the node in it.
    pub(super) fn status(&self, name: &str) -> anyhow::Result<(Value, Value)> {
        let path = format!("/apis/operations.kubeedge.io/v1alpha2/nodeupgradejobs/{name}");
        let job = self.rig.cloud.api.get(&path)?.unwrap_or_default();
        Ok((
            job["status"].clone(),
            job["status"]["nodeStatus"][0].clone(),
        ))
    }

    /// Waits until a job has ended so; returns the status of the node.
    pub(super) fn wait_end(&self, name: &str, phase: &str) -> anyhow::Result<Value> {
        until(&format!("{name} is in phase {phase}"), || {
            let (status, node) = self.status(name)?;
            ensure!(status["phase"] == phase, "{status}");
            Ok(node)
        })
    }

    /// Returns the phase in the record of the upgrade.
    pub(super) fn phase(&self) -> String {
        let path = format!("{}.upgrade", self.rig.node.config.display());
        let text = fs::read(path).unwrap_or_default();
        let record: Value = serde_json::from_slice(&text).unwrap_or_default();
        record["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the id of the process that the agent watches, once it runs the new program.
    pub(super) fn child(&self) -> Option<String> {
        let own = self.rig.node.process.id()?;
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
        let all = children.split_whitespace();
        let runs = |id: &str| fs::read_link(format!("/proc/{id}/exe")).ok();
        all.map(str::to_owned)
            .find(|id| runs(id) == Some(self.candidate()) && self.phase() == "OnTrial")
    }

    pub(super) fn candidate(&self) -> PathBuf {
        self.program.with_extension("upgrade")
    }

    /// Waits until a job waits for a confirmation.
    pub(super) fn wait_waiting(&self, name: &str) -> anyhow::Result<()> {
        until(&format!("{name} waits"), || {
            let (status, node) = self.status(name)?;
            let waits = actions(&node) == ["Check", "WaitingConfirmation"];
            ensure!(waits && node["phase"] == "InProgress", "{status}");
            Ok(())
        })
    }

    /// Runs `edge-agent confirm`.
    pub(super) fn confirm(&self) -> anyhow::Result<std::process::Output> {
        let mut command = Command::new(&self.program);
        command
            .arg("confirm")
            .arg("--config")
            .arg(&self.rig.node.config);
        Ok(command.output()?)
    }

    /// Checks that this version runs, in the process that was started, and that the containers are the same.
    pub(super) fn check_runs(&mut self, version: &str) -> anyhow::Result<()> {
        ensure!(
            reported_version(&self.program)? == version,
            "another program is installed"
        );
        ensure!(!self.candidate().exists(), "the new program is left");
        ensure!(self.rig.node.process.runs(), "the agent has ended");
        let own = self.rig.node.process.id().context("no process")?;
        let runs = fs::read_link(format!("/proc/{own}/exe"))?;
        ensure!(runs == self.program, "{runs:?} runs");
        self.rig.cloud.wait_node("Ready")?;
        let after = self.rig.wait_ready("web")?;
        for field in [
            "/status/containerStatuses/0/containerID",
            "/status/containerStatuses/0/restartCount",
        ] {
            ensure!(self.pod.pointer(field) == after.pointer(field), "{after}");
        }
        Ok(())
    }
}

pub(super) fn write_program(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes)?;
    Ok(fs::set_permissions(
        path,
        fs::Permissions::from_mode(0o755),
    )?)
}

/// Returns the agent with another version in all of its texts.
pub(super) fn other_version(program: &Path, version: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = fs::read(program)?;
    let (old, new) = (OLD.as_bytes(), version.as_bytes());
    ensure!(old.len() == new.len(), "{version} has another length");
    let mut from = 0;
    while let Some(found) = bytes[from..]
        .windows(old.len())
        .position(|part| part == old)
    {
        let place = from + found;
        bytes[place..place + new.len()].copy_from_slice(new);
        from = place + new.len();
    }
    Ok(bytes)
}

/// Returns a program that fails in this way.
pub(super) fn broken_program(version: &str, mode: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = fs::read(env!("CARGO_BIN_EXE_broken-agent"))?;
    bytes.extend_from_slice(format!("\n{version} {mode}").as_bytes());
    Ok(bytes)
}

pub(super) fn reported_version(program: &Path) -> anyhow::Result<String> {
    let text = run(Command::new(program).arg("-V"))?.success()?.text();
    Ok(text.trim().trim_start_matches("edge-agent ").to_owned())
}

pub(super) fn actions(node: &Value) -> Vec<&str> {
    let flow = node["actionFlow"].as_array();
    let flow = flow.into_iter().flatten();
    flow.filter_map(|one| one["action"].as_str()).collect()
}
